"""Kernels that compiled code builds when it runs: for which architectures it has headers.

A header that is written for one architecture says so in its name; one for all has letters in the place of the
number. From some number on such code uses
instructions that only the architecture's own family has; what was written for an earlier one is compiled for
any later one.
"""

from __future__ import annotations

import fnmatch
import re
from functools import cache

from memory.architecture import Architecture
from tools.binaries.elf import BinaryError
from tools.binaries.headers import included
from tools.source.tree import SourceTree
from tools.viability.profile import libraries

_NUMBER = re.compile(r"(?:^|_)sm_?(\d{2,3})[af]?(?=_|\.)")
_ALL = re.compile(r"(?:^|_)sm_?x+(?=_|\.)")
GUARD = "__CUDA_ARCH__"


class BuiltCode:
    """The headers that the libraries of a tree have compiled when they run."""

    def __init__(self, tree: SourceTree) -> None:
        self.headers = cache(self._headers)
        self.named = cache(self._find)
        self._tree = tree
        self._own = int(libraries()["compiled"]["own_instructions"])

    def works(self, file: str, operator: str, arch: Architecture) -> bool | None:
        """Whether a header is for ``arch``; None where none says what it is for."""
        numbers = {number for _, number in self.headers(file, operator)}
        if not numbers:
            return True if self._for_all(file, operator) else None
        return any(self._fits(number, arch) for number in numbers)

    def _fits(self, number: int, arch: Architecture) -> bool:
        if number < self._own:
            return arch.number >= number
        return number // 10 == arch.major and arch.number >= number

    def _headers(self, file: str, operator: str) -> tuple[tuple[str, int], ...]:
        """Each header that is for one architecture, and the number of that."""
        found = self.named(file, operator)
        numbered = ((place, _NUMBER.search(place.rpartition("/")[2])) for place in found)
        return tuple((place, int(number[1])) for place, number in numbered if number)

    def _for_all(self, file: str, operator: str) -> bool:
        found = self.named(file, operator)
        return bool(found) and all(_ALL.search(place.rpartition("/")[2]) for place in found)

    def _find(self, file: str, operator: str) -> tuple[str, ...]:
        """Where the headers lie that an operator's code has compiled."""
        try:
            named = included(self._tree.resolve(file), operator)
        except BinaryError:
            return ()
        return tuple(sorted({place for name in named for place in self._places(file, name)}))

    def _places(self, file: str, name: str) -> list[str]:
        """Where a header that ``file`` names lies: below a folder above it, or among the includes there."""
        folder, _, last = name.replace("{}", "*").rpartition("/")
        parts = file.split("/")[:-1]
        for depth in range(len(parts), 0, -1):
            for below in ("include", ""):
                place = "/".join(part for part in (*parts[:depth], below, folder) if part)
                there = self._tree.root / place
                if "*" not in folder and there.is_dir():
                    found = fnmatch.filter((one.name for one in there.iterdir() if one.is_file()), last)
                    if found:
                        return [f"{place}/{one}" for one in sorted(found)]
        return []

    def guard(self, header: str) -> int:
        """The line of a header that asks what it is compiled for; else its first."""
        lines = enumerate(self._tree.lines(header), 1)
        return next((number for number, line in lines if GUARD in line), 1)
