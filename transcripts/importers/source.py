"""What is imported: a file or a folder, and what can be told from its beginning. Nothing reads all of it at
once.

Every record comes with its place (``{"file","offset","bytes"}``): these bytes of the file, as it
decompresses, are the record.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from transcripts.importers.walk import Walk

LINE_LIMIT = 64 << 20
"""Bytes of one line, or of one element of a document. A longer one is passed over and counted."""
_HEAD = 1 << 20
_BLOCK = 1 << 20
_SAID = 5
"""Lines that may stand before a document."""
_LISTS = {"messages", "history", "trajectory", "loglines", "input", "output"}
_SEEN = 64
"""Records that a format is told from."""
_UNPACKED = 8 << 30
_RATIO = 1000
"""How much more than itself a compressed file may unpack to, beyond :data:`LINE_LIMIT`."""
_ZSTD = b"\x28\xb5\x2f\xfd"
_SQLITE = b"SQLite format 3\0"

Shape = Literal["folder", "database", "lines", "document", "other"]


class ImportingError(Exception):
    """Nothing can be imported from a source. One line: which, what was expected, what to do."""


class Record(NamedTuple):
    """One line, or one element. ``problem``: why there is no value (``malformed``, ``too_long``)."""

    value: Any
    source: dict[str, Any]
    key: str | None = None
    """Of a document that is an object: under which of its keys."""
    problem: str | None = None


@dataclass(frozen=True)
class Source:
    path: Path
    name: str
    """How places in it are named: the path from the folder that was imported."""

    @cached_property
    def shape(self) -> Shape:
        if self.path.is_dir():
            return "folder"
        head = self.head
        if head.startswith(_SQLITE):
            return "database"
        text = head[self.preamble :].removeprefix(codecs.BOM_UTF8).lstrip()
        first, newline, rest = text.partition(b"\n")
        if text[:1] not in (b"{", b"["):
            # A line may be damaged; the others count.
            return (
                "lines"
                if any(line.lstrip().startswith(b"{") for line in rest.split(b"\n")[:_SEEN])
                else "other"
            )
        value = _parsed(first)
        if text[:1] == b"[" and (value is None or not rest.strip()):
            return "document"
        if isinstance(value, dict):
            return "lines" if rest.strip() or {"type", "role", "record_type"} & value.keys() else "document"
        if newline and any(isinstance(_parsed(line), dict) for line in rest.split(b"\n")[:_SEEN]):
            return "lines"
        # One line that is longer than what is looked at: by the first of its keys.
        return "lines" if not newline and {"uuid", "payload", "sessionId"} & self.keys else "document"

    @cached_property
    def preamble(self) -> int:
        """Bytes of what a program said before the JSON document that it was asked for; 0 where nothing is."""
        offset = 0
        for line in self.head.split(b"\n", _SAID)[:_SAID]:
            if line.strip() in (b"{", b"["):
                return offset
            if line.lstrip()[:1] in (b"{", b"["):
                return 0
            offset += len(line) + 1
        return 0

    @cached_property
    def head(self) -> bytes:
        """The beginning, decompressed. Raises :class:`ImportingError`."""
        with self.opened() as file:
            return file.read(_HEAD)

    @cached_property
    def first(self) -> list[Any]:
        """The first values: of lines, or the elements of a list; of an object the object itself, as far as it
        was read, with lists under its keys shortened."""
        if self.shape == "lines":
            lines = self.head.removeprefix(codecs.BOM_UTF8).split(b"\n")
            return [value for line in lines[:_SEEN] if (value := _parsed(line)) is not None]
        if self.shape != "document":
            return []
        walk = self._beginning()
        found: dict[str, Any] = {}
        values: list[Any] = []
        for key, value, _, _ in walk.members():
            if key is None:
                values.append(value)
            elif walk.listed:
                # The key may have stood there before, and as something else.
                listed = found[key] if isinstance(found.get(key), list) else []
                found[key] = [*listed, value]
            else:
                found[key] = value
            if max(len(values), len(found[key]) if walk.listed and key else 0) >= _SEEN:
                break
        for key in walk.begun:
            found.setdefault(key, [])
        return [found] if found else values

    def _beginning(self) -> Walk:
        return Walk(io.BytesIO(self.head[self.preamble :]), _LISTS)

    @property
    def keys(self) -> set[str]:
        """The first keys of a document that is an object."""
        walk = self._beginning()
        found = {key for key, *_ in walk.members() if key is not None}
        return found | walk.begun

    @contextmanager
    def opened(self) -> Generator[BinaryIO, None, None]:
        """The bytes, decompressed where they are packed. Raises :class:`ImportingError`."""
        try:
            with self.path.open("rb") as raw:
                packed = raw.read(4) == _ZSTD
                raw.seek(0)
                if not packed:
                    yield raw
                    return
                import zstandard  # not needed for what is not packed

                size = self.path.stat().st_size
                reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
                try:
                    yield io.BufferedReader(_Unpacked(reader, max(LINE_LIMIT, size * _RATIO)), _BLOCK)
                except zstandard.ZstdError as error:
                    raise ImportingError(
                        f"{self.path}: cannot be decompressed ({error}); copy the file again"
                    ) from error
        except OSError as error:
            raise ImportingError(f"cannot read {self.path} ({error.strerror or error})") from error

    def lines(self) -> Iterator[Record]:
        """Lines as records; empty ones are passed over."""
        with self.opened() as file:
            offset = 0
            while line := file.readline(LINE_LIMIT):
                size = len(line)
                if size == LINE_LIMIT and not line.endswith(b"\n"):
                    del line
                    while more := file.readline(_BLOCK):
                        size += len(more)
                        if more.endswith(b"\n"):
                            break
                    yield Record(None, self.place(offset, size), problem="too_long")
                elif body := line.strip():
                    start = offset + (0 if line[:1].strip() else len(line) - len(line.lstrip()))
                    if offset == 0 and body.startswith(codecs.BOM_UTF8):
                        body, start = body[3:], start + 3
                    value = _parsed(body)
                    problem = "malformed" if value is None else None
                    yield Record(value, self.place(start, len(body)), problem=problem)
                offset += size

    def members(self, *arrays: str) -> Iterator[Record]:
        """Of a document: the elements of a list; the members of an object, those under ``arrays`` one by one.
        A document that is damaged or cut off ends with a record whose ``problem`` is ``truncated``."""
        with self.opened() as file:
            walk = Walk(file, set(arrays))
            walk.offset = len(file.read(self.preamble))
            for key, value, offset, size in walk.members():
                yield Record(value, self.place(offset, size), key)
            if walk.problem is not None:
                yield Record(None, self.place(walk.offset, 0), problem=walk.problem)

    def place(self, offset: int, size: int) -> dict[str, Any]:
        return {"file": self.name, "offset": offset, "bytes": size}

    def below(self, path: Path) -> Source:
        """A file of a folder."""
        return Source(
            path, f"{self.name}/{path.relative_to(self.path).as_posix()}" if self.name else path.name
        )


class _Unpacked(io.RawIOBase):
    """A decompressing reader that refuses to give more than it may."""

    def __init__(self, reader: Any, most: int) -> None:
        self._reader = reader
        self._left = min(most, _UNPACKED)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._reader.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise ImportingError("it unpacks to far more than it is; unpack it yourself and import that")
        buffer[: len(data)] = data
        return len(data)


def _parsed(line: bytes) -> Any:
    """A line as JSON; None where it is none."""
    try:
        return json.loads(line)
    except UnicodeDecodeError:
        try:
            return json.loads(line.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            return None
    except (ValueError, RecursionError):
        return None
