"""All signatures of a log in one pass, however long the log or one of its lines is.

Patterns are RE2's: time is linear in the text, whoever wrote it. A block of the log is first searched for the
literal words of all patterns at once; only the patterns whose words are there are looked for by themselves.
Memory is that of a few blocks. A line counts once for a signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

from memory.architecture import ArchitectureError, parse_architecture
from memory.signatures.table import Signature, signatures

BLOCK = 1 << 20
OVERLAP = 1 << 12
"""Bytes of a line longer than a block that are looked at again with what follows them."""
WIDTH = 400
"""Characters of a line that a match keeps around itself."""
HEAD = 160
"""Characters of a longer line that it keeps of its beginning: there its logger says who wrote it, and why."""
MOST = 100
"""Matches of one signature in one log; after that it is not looked for any more."""

_COLOUR = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class Match:
    """A line of a log that a signature fits."""

    signature: Signature
    line: int
    """From 1."""
    offset: int
    """Of the line's first byte in the log."""
    words: str
    """What the pattern matched."""
    text: str
    """The line without colours, of a long one its beginning and the part around the match."""
    named: dict[str, str]
    """What the pattern's groups caught."""

    @property
    def component(self) -> str | None:
        """What the line is about, where it says so."""
        operation = self.named.get("operation", "")
        return (
            self.named.get("component")
            or self.signature.operations.get(operation)
            or self.signature.component
        )

    @property
    def backend(self) -> str | None:
        return self.named.get("backend") or self.signature.backend

    @property
    def arch(self) -> str | None:
        """The architecture that the line names, e.g. ``sm120``."""
        try:
            return parse_architecture(self.named["arch"]).base.name
        except (KeyError, ArchitectureError):
            return None


class Scanner:
    """Finds signatures in logs. Made once, used for many; it keeps nothing of a log."""

    def __init__(self, table: Iterable[Signature] | None = None) -> None:
        import re2  # 3 MB that only the logs of others need

        self.table: Sequence[Signature] = tuple(signatures() if table is None else table)
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1  # a log is bytes: what is no UTF-8 is matched too
        options.log_errors = False
        self._filter = re2.Filter()
        for signature in self.table:
            self._filter.Add(signature.pattern.encode("ascii"), options)
        self._filter.Compile()

    def scan(self, log: BinaryIO, most: int = MOST) -> Iterator[Match]:
        """The matches in the order of their lines, at most ``most`` of each signature.

        Lines end with a newline. One longer than a block is looked at in pieces that overlap.
        """
        left = [most] * len(self.table)
        line = 1
        begun = 0  # where the line began that a piece goes on with
        seen: set[int] = set()  # signatures that were found on it
        for piece in _pieces(log):
            if not piece.goes_on:
                begun = piece.offset
                seen.clear()
            data = _COLOUR.sub(b"", piece.data) if b"\x1b" in piece.data else piece.data
            lines = _Lines(piece.data, data)
            for start, index, match in self._in(data, left):
                number, offset = lines.of(start)
                if number == 0 and index in seen:
                    continue
                if number == 0:
                    seen.add(index)
                left[index] -= 1
                place = begun if number == 0 else piece.offset + offset
                yield _match(self.table[index], data, match, line + number, place)
            line += piece.data.count(b"\n")

    def scan_text(self, text: str, most: int = MOST) -> Iterator[Match]:
        """The same of a text in memory."""
        return self.scan(BytesIO(text.encode("utf-8", "replace")), most)

    def _in(self, data: bytes, left: Sequence[int]) -> list[tuple[int, int, Any]]:
        """The first match of each signature on each line: where the line begins, which signature, the match.

        By line, then in the order of the table; only of signatures that may still be found.
        """
        found: list[tuple[int, int, Any]] = []
        for index in self._filter.Match(data, potential=True) or ():
            pattern, room, at = self._filter.re(index), left[index], 0
            while room > 0 and (match := pattern.search(data, at)):
                found.append((data.rfind(b"\n", 0, match.start()) + 1, index, match))
                room -= 1
                at = data.find(b"\n", match.start()) + 1
                if at == 0:
                    break
        return sorted(found, key=lambda one: one[:2])


class _Piece(NamedTuple):
    offset: int
    data: bytes
    goes_on: bool
    """Whether it begins within a line."""


def _pieces(log: BinaryIO) -> Iterator[_Piece]:
    """Whole lines, about a block at a time; a line that is longer in overlapping pieces."""
    held, offset, goes_on = b"", 0, False
    while block := log.read(BLOCK):
        data = held + block
        cut = data.rfind(b"\n") + 1
        if cut:
            yield _Piece(offset, data[:cut], goes_on)
            held, offset, goes_on = data[cut:], offset + cut, False
        elif len(data) >= BLOCK:
            yield _Piece(offset, data, goes_on)
            held, offset, goes_on = data[-OVERLAP:], offset + len(data) - OVERLAP, True
        else:
            held = data
    if held:
        yield _Piece(offset, held, goes_on)


class _Lines:
    """Which line of a piece a place is on. Asked in ascending order, it walks over the piece once."""

    def __init__(self, raw: bytes, shown: bytes) -> None:
        self._raw = raw
        self._shown = shown
        self._number = 0
        self._at = 0
        self._start = 0

    def of(self, place: int) -> tuple[int, int]:
        """Number of the line within the piece, from 0, and where it begins in the piece as it was read.

        ``place`` is one in the text as it is shown: taking colours out changes places, not lines.
        """
        passed = self._shown.count(b"\n", self._at, place)
        self._at = place
        self._number += passed
        for _ in range(passed):
            self._start = self._raw.find(b"\n", self._start) + 1
        return self._number, self._start


def _match(signature: Signature, data: bytes, match: Any, line: int, offset: int) -> Match:
    start = data.rfind(b"\n", 0, match.start()) + 1
    end = data.find(b"\n", match.start())
    end = len(data) if end < 0 else end
    head = b""
    if end - start > WIDTH:
        around = max(start, match.start() - (WIDTH - HEAD) // 2)
        if around - start > HEAD:
            head, start = data[start : start + HEAD] + b" ... ", around
        end = min(end, start + WIDTH - len(head))
    return Match(
        signature,
        line,
        offset,
        _text(match[0]),
        _text(head + data[start:end]),
        {name.decode(): _text(value) for name, value in match.groupdict().items() if value},
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip("\r\n")
