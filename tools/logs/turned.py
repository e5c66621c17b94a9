"""Logs whose newest lines come first, as ``journalctl -r``, ``tac`` and the pages of log services give them.

Either every line was turned, so that a traceback ends with its head, or whole records were: then what is
behind a line with a time goes with it.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from tools.logs import drawn
from tools.logs.dressing import plain, undress
from tools.logs.tracebacks import HEADER, is_frame

LOOKED_AT = 1 << 20
"""Bytes of a log by which its order is told."""
MOST = 256 << 20
"""Bytes of a log that is turned."""
BLOCK = 1 << 20
LONGEST = 1 << 16
"""Bytes of a line that are kept: of a longer one its beginning says what it is."""
TIMES = 4
"""Times that are too few to tell an order by."""

_TIME = re.compile(r"(?:\d{4}-)?\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d")
_BEFORE = 60
"""Characters of a line in which the time of its record stands."""


@contextmanager
def in_order(log: BinaryIO) -> Iterator[tuple[BinaryIO, Sequence[int] | None]]:
    """The log with its oldest line first; with the number, from 1, that each line had where it was turned,
    else None. ``log`` can be read twice."""
    log.seek(0)
    lines = log.read(LOOKED_AT).decode("utf-8", "replace").split("\n")
    size = log.seek(0, 2)
    log.seek(0)
    by_line = _heads_behind(lines)
    if size > MOST or not (by_line or _times_fall(lines)):
        yield log, None
        return
    with tempfile.TemporaryFile() as file:
        numbers = array("L")
        for record in _records(log, size, by_line=bool(by_line)):
            for number, line in record:
                numbers.append(number)
                file.write(line[:LONGEST] + b"\n")
        last = max(numbers, default=0)
        # Counted from the end, since that is where it was begun.
        placed = array("L", (last + 1 - number for number in numbers))
        file.seek(0)
        yield file, placed


def _heads_behind(lines: Sequence[str]) -> bool | None:
    """Whether tracebacks end with their heads; None where there are none."""
    before = behind = 0
    for number, line in enumerate(lines):
        if HEADER[:-1] not in line:
            continue
        text = undress(line).text
        if not text.endswith(HEADER) or drawn.head(text) is not None:
            continue
        before += number + 1 < len(lines) and is_frame(undress(lines[number + 1]).text)
        behind += number > 0 and is_frame(undress(lines[number - 1]).text)
    return behind > before if before or behind else None


def _times_fall(lines: Sequence[str]) -> bool:
    """Whether the times of a log go back, and never forth."""
    found = [match[0] for line in lines if (match := _TIME.search(plain(line)[:_BEFORE]))]
    if len(found) < TIMES or found[0] == found[-1] or len({len(one) for one in found}) > 1:
        return False
    return all(one >= other for one, other in itertools.pairwise(found))


def _records(log: BinaryIO, size: int, *, by_line: bool) -> Iterator[list[tuple[int, bytes]]]:
    """From the end of the log on: a line each, or what belongs together, in its own order. Lines are numbered
    from the last one, from 1."""
    record: list[tuple[int, bytes]] = []
    for number, line in enumerate(_backwards(log, size), start=1):
        record.append((number, line))
        if by_line or _TIME.search(plain(line[:400].decode("utf-8", "replace"))[:_BEFORE]):
            yield record[::-1]
            record = []
    if record:
        yield record[::-1]


def _backwards(log: BinaryIO, size: int) -> Iterator[bytes]:
    """The lines of a file, the last one first."""
    held = b""
    at = size
    while at > 0:
        step = min(BLOCK, at)
        at -= step
        log.seek(at)
        data = log.read(step) + held
        if at + step == size and data.endswith(b"\n"):
            data = data[:-1]
        head, newline, rest = data.partition(b"\n")
        if newline and at > 0:
            yield from reversed(rest.split(b"\n"))
            held = head
        elif at > 0:
            held = data[:LONGEST] if len(data) > (BLOCK << 2) else data
        else:
            yield from reversed(data.split(b"\n"))
