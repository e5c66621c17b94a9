"""Kernels that a library fetches when it runs: for which architectures they are, where the tree holds them.

What is fetched has a name that ends as the name of a file does which some package of the tree brings along.
In the folder of that file, or in one around it, lie the kernels (``*.cubin``). Where the sources keep
only some targets of what they fetch, those tell (``sifted``).
"""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit

from memory.architecture import Architecture, ArchitectureError, images
from tools.binaries.cubin import target_of
from tools.binaries.elf import BinaryError, read_elf
from tools.binaries.library import mapped
from tools.source.files import walk
from tools.source.tree import SourceTree
from tools.viability.interpreter.records import Fetch
from tools.viability.sifted import keeps

KERNELS = ".cubin"
LEAST_PARTS = 3
"""Parts of a path that tell a file: its name and two folders around it."""


class FetchedCode:
    """What the packages of a tree hold of what would be fetched."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._found = cache(self._find)
        self._named = cache(self._files)
        self._targets = cache(self._targets_in)

    def kept(self, fetch: Fetch) -> str | None:
        """The file of the tree that is fetched, where kernels lie around it."""
        found = self._found(fetch.names)
        return found[0] if found is not None else None

    def runs_on(self, fetch: Fetch, arch: tuple[int, int]) -> bool | None:
        """Whether a kernel that belongs to what is fetched runs on ``arch``; None where that is not known."""
        sifted = keeps(fetch, Architecture(*arch))
        if sifted is not None:
            return sifted
        found = self._found(fetch.names)
        targets = self._targets(found[1]) if found is not None else None
        return None if targets is None else Architecture(*arch) in targets

    def _find(self, names: tuple[str, ...]) -> tuple[str, str] | None:
        """Of the files called so one that the tree holds, and the folder of its kernels."""
        for name in names:
            parts = urlsplit(name).path.strip("/").split("/")
            for length in range(len(parts), LEAST_PARTS - 1, -1):
                tail = "/".join(["", *parts[-length:]])
                for file in self._named(parts[-1]):
                    folder = self._around(file, length) if f"/{file}".endswith(tail) else None
                    if folder is not None:
                        return file, folder
        return None

    def _files(self, name: str) -> tuple[str, ...]:
        return tuple(file for file in walk(self._tree, suffixes=(name,)) if file.rpartition("/")[2] == name)

    def _around(self, file: str, length: int) -> str | None:
        """The nearest folder around a file, no further out than its name goes, that holds kernels."""
        for _ in range(length - 1):
            file = file.rpartition("/")[0]
            if any((self._tree.root / file).glob(f"*{KERNELS}")):
                return file
        return None

    def _targets_in(self, folder: str) -> frozenset[Architecture] | None:
        """The architectures that the kernels in a folder run on; None where one cannot be told."""
        found: set[str] = set()
        for file in sorted((self._tree.root / folder).glob(f"*{KERNELS}")):
            try:
                with mapped(file) as data:
                    found.add(target_of(read_elf(data)))
            except BinaryError:
                return None
        try:
            return frozenset(arch for target in found for arch in images(target))
        except ArchitectureError:
            return None
