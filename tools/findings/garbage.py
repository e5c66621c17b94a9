"""Files of a home that nothing refers to. What a transcript names stays, whatever the database says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memory.home import Home

_NAMED = re.compile(rb"[0-9a-f]{64}")
_BLOCK = 1 << 20
AGE = 3600.0
"""Seconds that a file must be old: what is being written now is referred to a moment later."""


@dataclass(frozen=True)
class Garbage:
    path: Path
    bytes: int
    what: str


def garbage(home: Home) -> list[Garbage]:
    """What could be removed, in the order of its paths."""
    named = _named(home)
    found = []
    for path in sorted(home.artifacts.glob("[0-9a-f][0-9a-f]/*")):
        if path.name.startswith(".part-"):
            found.append((path, "left by a writer that was stopped"))
        elif f"{path.parent.name}{path.name}".encode() not in named:
            found.append((path, "an artifact that no transcript names"))
    for path in sorted(home.root.glob("findings.db.*")):
        if ".damaged-" in path.name:
            found.append((path, "a damaged database that was put aside"))
        elif ".schema-" in path.name:
            found.append((path, "the database before an upgrade"))
        elif path.name.endswith(".part"):
            found.append((path, "left by a writer that was stopped"))
    parts = sorted(home.transcripts.glob(".*.part"))
    found += [(path, "left by a writer that was stopped") for path in parts]
    return [one for path, what in found for one in _old(path, what)]


def remove(home: Home, found: list[Garbage]) -> None:
    """Remove what was found. Raises ``OSError`` where something cannot be."""
    for one in found:
        one.path.unlink(missing_ok=True)
        with suppress(OSError):
            if one.path.parent.parent == home.artifacts:
                one.path.parent.rmdir()  # only if that was all


def _old(path: Path, what: str) -> Iterator[Garbage]:
    with suppress(OSError):
        about = path.stat()
        if time.time() - about.st_mtime > AGE:
            yield Garbage(path, about.st_size, what)


def _named(home: Home) -> set[bytes]:
    """Every sha256 that stands in a transcript, or in the file of an imported one."""
    named: set[bytes] = set()
    for folder in (home.transcripts, home.imported):
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            if not path.is_file():
                continue
            with path.open("rb") as file:
                rest = b""
                while block := file.read(_BLOCK):
                    named.update(_NAMED.findall(rest + block))
                    rest = block[-63:]
    return named
