"""A compiled file as lines, so that what it holds can be cited, hashed and looked up again like source.

The listing is computed from the file whenever it is asked for, and nothing else goes into it: the same file
gives the same lines.
"""

from __future__ import annotations

from pathlib import Path

from tools.binaries.fatbin import Kind
from tools.binaries.launched import operator_listing
from tools.binaries.library import Compiled, read_compiled

_ORDER = (Kind.SASS, Kind.PTX, Kind.OTHER)
_WORDS = {Kind.SASS: "machine code", Kind.PTX: "PTX", Kind.OTHER: "intermediate code"}


def listing(path: Path, operator: str | None = None) -> list[str]:
    """The lines of a compiled file, or of one operator in it.

    Raises :class:`~tools.binaries.elf.BinaryError`.
    """
    return operator_listing(path, operator) if operator else lines_of(read_compiled(path))


def lines_of(compiled: Compiled) -> list[str]:
    """First all targets in one line, then how much there is for each, machine code before PTX."""
    if not compiled.targets:
        return ["no device code"]
    total = sum(compiled.targets.values())
    lines = [f"{total} images in {compiled.units} fat binaries"]
    there: dict[Kind, list[str]] = {}
    for (kind, target), count in sorted(compiled.targets.items(), key=lambda one: _ORDER.index(one[0][0])):
        there.setdefault(kind, []).append(target)
        lines.append(f"{_WORDS[kind]} for {target}: {count} images")
    short = [f"{_WORDS[kind]} for {', '.join(targets)}" for kind, targets in there.items()]
    short += [f"no {_WORDS[kind]}" for kind in _ORDER[:2] if kind not in there]
    return ["; ".join(short), *lines]
