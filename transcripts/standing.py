"""How the transcripts in a folder stand to the rows that were folded from them. Nothing heavy is imported.

It reads the end of every log that was folded: one of the same name and length may be another, restored or
redacted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memory.database import Folded

_BLOCK = 1 << 20
_TAIL = 256
"""Bytes that hold the end of an event's line, with its hash."""


@dataclass(frozen=True)
class Standing:
    """``grown``: logs with events that are not folded yet, by name. ``other``: names of transcripts whose
    rows are not of the log that lies there: it was replaced, cut or taken away."""

    grown: tuple[Path, ...] = ()
    other: tuple[str, ...] = ()


def logs(folder: Path) -> dict[str, Path]:
    """The logs in a folder, by name and in the order of their names; none where there is no folder."""
    found = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            # What is no file (a pipe would never end), leads nowhere or in a circle is no log.
            with suppress(OSError):
                if entry.name.endswith(".jsonl") and entry.is_file():
                    found[entry.name.removesuffix(".jsonl")] = folder / entry.name
    return dict(sorted(found.items()))


def standing(folded: Mapping[str, Folded], folder: Path) -> Standing:
    """Compare. Raises ``OSError`` for a folder that cannot be read."""
    there = logs(folder)
    other = {name for name in folded if name not in there}
    grown = []
    for name, path in there.items():
        at = folded.get(name)
        if at is None:
            grown.append(path)
            continue
        with suppress(FileNotFoundError):  # gone since it was listed: next time it is told
            try:
                state = _compare(path, at)
            except OSError:
                grown.append(path)  # folding it says why it cannot be read
                continue
            if state is None:
                other.add(name)
            elif state:
                grown.append(path)
    return Standing(tuple(grown), tuple(sorted(other)))


def is_folded(path: Path, at: Folded) -> bool:
    """Whether the log at ``path`` begins with what was folded, by the hash of the last event of that."""
    with path.open("rb") as file:
        return _ends_there(file.fileno(), at)


def _compare(path: Path, at: Folded) -> bool | None:
    """Whether whole lines follow what was folded; None where that is not in the log."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _ends_there(handle, at):
            return None
        offset = at.offset
        # The rest of a line without its end is nothing yet: its writer was stopped, or writes just now.
        while block := os.pread(handle, _BLOCK, offset):
            if b"\n" in block:
                return True
            offset += len(block)
        return False
    finally:
        os.close(handle)


def _ends_there(handle: int, at: Folded) -> bool:
    start = max(0, at.offset - _TAIL)
    end = os.pread(handle, at.offset - start, start)
    return (
        len(end) == at.offset - start and f'"hash":"{at.last_hash}"'.encode() in end and end.endswith(b"\n")
    )
