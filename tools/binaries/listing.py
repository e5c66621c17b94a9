"""A compiled file as lines, so that what it holds can be cited, hashed and looked up again like source.

The listing is computed from the file whenever it is asked for, and nothing else goes into it: the same file
gives the same lines. A line of it says for one target how many images there are, or that there are none.
"""

from __future__ import annotations

from pathlib import Path

from tools.binaries.fatbin import Kind
from tools.binaries.library import Compiled, read_compiled

_WORDS = {Kind.SASS: "machine code", Kind.PTX: "PTX", Kind.OTHER: "intermediate code"}


def listing(path: Path) -> list[str]:
    """The lines of a compiled file. Raises :class:`~tools.binaries.elf.BinaryError`."""
    return lines_of(read_compiled(path))


def lines_of(compiled: Compiled) -> list[str]:
    """First how much there is, then each target, machine code before PTX."""
    if not compiled.targets:
        return ["no device code"]
    total = sum(compiled.targets.values())
    lines = [f"device code: {total} images in {compiled.units} fat binaries"]
    for kind in (Kind.SASS, Kind.PTX, Kind.OTHER):
        mine = [(target, count) for (what, target), count in compiled.targets.items() if what is kind]
        lines += [f"{_WORDS[kind]} for {target}: {count} images" for target, count in mine]
        if not mine and kind is not Kind.OTHER:
            lines.append(f"no {_WORDS[kind]}")
    return lines
