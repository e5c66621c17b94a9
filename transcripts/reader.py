"""Reading a transcript as plain JSON: streaming, a page, the end, the chain. No pydantic here.

A last line without its newline is torn: its writer was stopped, or is writing just now. Readers stop
before it; :func:`check_chain` reports it; opening for append cuts it off.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from memory.home import Home
from transcripts.chain import LogError, link, parse

FORMAT = 1
"""The newest format that this program reads (``transcripts.events.FORMAT``; a test compares them)."""

GENESIS = "0" * 64

LINE_LIMIT = 64 << 20
"""Bytes of one line. Bodies are capped far below; a longer line is no transcript."""

_BLOCK = 1 << 16

_CONCLUDED = re.compile(
    rb'"exit_reason":"([a-z_]+)","kind":"concluded","summary":"(?:[^"\\]|\\.)*"\},'
    rb'"hash":"[0-9a-f]{64}","prev":"[0-9a-f]{64}","seq":[0-9]+\}\n\Z'
)
"""The end of a log that is concluded. Nothing within a string or a nested object looks so."""
_ENDING_BYTES = 4096


@dataclass(frozen=True)
class Record:
    """One event as read. ``end`` is the byte offset after its line."""

    seq: int
    at: str
    data: dict[str, Any]
    prev: str
    hash: str
    end: int


@dataclass(frozen=True)
class Problem:
    """Something wrong with a log. ``event`` is the number that the line has or should have."""

    event: int
    message: str

    def __str__(self) -> str:
        return f"event {self.event}: {self.message}"


def transcript_path(home: Home, name: str) -> Path:
    """The file of a transcript: ``name`` is an investigation's id, or a path where it looks like one."""
    if "/" in name or name.endswith(".jsonl"):
        return Path(name)
    return home.transcripts / f"{name}.jsonl"


def records(
    path: Path, *, offset: int = 0, seq: int = 0, prev: str = GENESIS
) -> Generator[Record, None, None]:
    """Events one by one, each checked against the chain; memory holds one at a time.

    To go on after an event, give the ``end`` of its record as ``offset``, the next ``seq`` and its hash
    as ``prev``. Raises :class:`LogError` at the first line that is not what the chain says.
    """
    if offset == 0:
        _check_first(path)
    for line, end in _lines(path, offset):
        problem, found = _check_line(line, seq, prev)
        if problem is not None or found is None:
            raise LogError(f"{path}: event {seq}: {problem}")
        yield Record(seq, found["at"], found["data"], prev, found["hash"], end)
        seq, prev = seq + 1, found["hash"]


def read_raw(path: Path, *, start: int = 0, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Events as they stand in the file, from number ``start``: for pages. The chain is not checked."""
    _check_first(path)
    lines = _lines(path, _offset_of(path, start))
    for number, (line, _) in enumerate(islice(lines, limit), start):
        value = parse(line)
        if value is None:
            raise LogError(f"{path}: event {number}: not JSON; the log is damaged")
        yield value


def first_raw(path: Path) -> dict[str, Any]:
    """The event `opened` that a transcript starts with. Raises :class:`LogError` where it is none."""
    value = _check_first(path)
    assert value is not None, "what is not lenient raises"
    return value


def ending(path: Path) -> str | None:
    """How an investigation ended; None while it goes on, or where it was killed. Neither chain nor shape is
    checked. What it concluded stands before how, and may be long: it is not read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _ENDING_BYTES))
            found = _CONCLUDED.search(file.read())
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    if found is not None:
        return found[1].decode()
    data = tail_raw(path)[0].get("data")
    if not isinstance(data, dict) or data.get("kind") != "concluded":
        return None
    return str(data.get("exit_reason"))


def line_of(path: Path, number: int) -> bytes:
    """The line of event ``number``, without newline. Raises :class:`LogError` where there is none."""
    _check_first(path)
    count = 0
    for line, _ in _lines(path):
        if count == number:
            return line
        count += 1
    raise LogError(f"{path} has {count} events, numbered from 0; there is no event {number}")


def tail_raw(path: Path, count: int = 1) -> list[dict[str, Any]]:
    """The last ``count`` whole events, oldest first, read from the end of the file."""
    _check_first(path)
    lines = last_lines(path, count)
    values = [parse(line) for line in lines]
    if None in values:
        raise LogError(f"{path}: one of the last {len(lines)} lines is not JSON; the log is damaged")
    return [value for value in values if value is not None]


def last_lines(path: Path, count: int) -> list[bytes]:
    """The last ``count`` lines that end with a newline, without it, oldest first.

    Raises :class:`LogError` where they are longer than any transcript's.
    """
    if count < 1:
        return []
    longest = (count + 1) * LINE_LIMIT  # a torn line may follow them
    try:
        with path.open("rb") as file:
            end = position = file.seek(0, os.SEEK_END)
            blocks: list[bytes] = []
            newlines = 0
            # One newline more than lines wanted: the one before the first of them.
            while position > 0 and newlines <= count:
                if end - position > longest:
                    raise _too_long(path)
                size = min(_BLOCK << min(len(blocks), 8), position)
                position -= size
                file.seek(position)
                block = file.read(size)
                newlines += block.count(b"\n")
                blocks.append(block)
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    whole, newline, _ = b"".join(reversed(blocks)).rpartition(b"\n")
    lines = whole.split(b"\n") if newline else []
    return lines[-count:]


def torn_bytes(path: Path) -> int:
    """Bytes after the last newline: 0 in a log whose last event is whole."""
    size = path.stat().st_size
    with path.open("rb") as file:
        position = size
        while position > 0:
            step = min(_BLOCK, position)
            position -= step
            file.seek(position)
            found = file.read(step).rfind(b"\n")
            if found >= 0:
                return size - (position + found + 1)
    return size


def check_chain(path: Path) -> Iterator[Problem]:
    """Every place where the file is not an unbroken chain. It shows accidents, not forgery.

    Raises :class:`LogError` where the file is no transcript at all.
    """
    _check_first(path, lenient=True)
    seq, prev = 0, GENESIS
    for line, _ in _lines(path):
        problem, _found = _check_line(line, seq, prev)
        if problem is not None:
            yield Problem(seq, problem)
        here = link(line)
        # Go on from what stands there, so that one accident is one problem and not one for each line after.
        if here is not None and (here.intact or here.seq >= seq):
            seq, prev = here.seq + 1, here.hash
        else:
            seq, prev = seq + 1, ""
    if torn := torn_bytes(path):
        yield Problem(seq, f"its line is torn ({torn} bytes without a newline); its writer was stopped")


def _check_line(line: bytes, seq: int, prev: str) -> tuple[str | None, dict[str, Any] | None]:
    """What is wrong with a line that should be event ``seq`` after ``prev`` ("": not known), or its value."""
    here = link(line)
    if here is None:
        return "not a line of a transcript; the log is damaged", None
    if not here.intact:
        return "its content does not match its hash; the log was changed", None
    if here.seq != seq:
        return f"the line says it is event {here.seq}; events are missing or out of order", None
    if prev and here.prev != prev:
        return "does not follow the event before it; the log was changed", None
    value = parse(line)
    if value is None or not isinstance(value.get("data"), dict) or not isinstance(value.get("at"), str):
        return "not an event as format 1 writes it", None
    return None, value


def _check_first(path: Path, *, lenient: bool = False) -> dict[str, Any] | None:
    """The first event. Raise unless this is a transcript to read; ``lenient``: leave a damaged first event to
    the caller, and give None."""
    try:
        # A pipe can be read once, and not from its end; to open one may wait for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise LogError(f"cannot read {path}: it is no file; expected a transcript")
        with path.open("rb") as file:
            line = file.readline(LINE_LIMIT)
    except FileNotFoundError:
        raise LogError(f"no transcript {path}") from None
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    if not line:
        raise LogError(f"{path} is empty; a transcript starts with the event `opened`")
    if not line.endswith(b"\n"):
        if parse(line) is None and not line.startswith(b'{"at":'):
            raise LogError(f"{path} is no transcript: its first line is not JSON")
        raise LogError(f"{path} ends within its first event; there is nothing to read in it")
    here = link(line)
    value = parse(line)
    if lenient and _damaged(line, value):
        return None
    if value is None:
        damaged = "its first event is damaged" if here is not None else "it is no transcript"
        raise LogError(f"{path}: {damaged}: line 1 is not JSON")
    data = value.get("data")
    if not isinstance(data, dict) or data.get("kind") != "opened":
        raise LogError(f"{path} is JSON lines of another kind; a transcript starts with the event `opened`")
    written = data.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise LogError(
            f"{path} is written in format {written}; this program reads up to {FORMAT}: upgrade assay-agent"
        )
    if written != FORMAT:
        raise LogError(f"{path}: its first event names no format; expected {FORMAT}")
    return value


def _damaged(line: bytes, value: dict[str, Any] | None) -> bool:
    """A first line that was ours: it ends as ours do and does not match, or begins so and lost its end."""
    here = link(line)
    if here is not None:
        return not here.intact
    if not line.startswith(b'{"at":"'):
        return False
    data = None if value is None else value.get("data")
    return value is None or (isinstance(data, dict) and data.get("format") == FORMAT)


def _offset_of(path: Path, number: int) -> int:
    """The byte at which line ``number`` begins; the end of the file where there are fewer."""
    offset = 0
    try:
        with path.open("rb") as file:
            while number > 0 and (block := file.read(1 << 20)):
                ends = block.count(b"\n")
                if ends < number:
                    number, offset = number - ends, offset + len(block)
                    continue
                at = 0
                for _ in range(number):
                    at = block.index(b"\n", at) + 1
                return offset + at
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    return offset


def _lines(path: Path, offset: int = 0) -> Iterator[tuple[bytes, int]]:
    """Whole lines from byte ``offset`` without their newline, each with the offset after it."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while line := file.readline(LINE_LIMIT):
                offset += len(line)
                if not line.endswith(b"\n"):
                    if len(line) >= LINE_LIMIT:
                        raise _too_long(path)
                    return
                yield line[:-1], offset
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error


def _too_long(path: Path) -> LogError:
    return LogError(f"{path}: a line of more than {LINE_LIMIT >> 20} MiB; no transcript")
