"""Sources that are named for compiling: which of the values at hand are files of the tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from tools.source.tree import SourceTree
from tools.viability.hostcode.sources import SUFFIXES
from tools.viability.interpreter.asked import Word, plain_type, whole
from tools.viability.interpreter.values import Instance, bare

DEPTH = 3
"""How deep in what is at hand a name may stand: in a list that an object holds."""


def named_sources(
    tree: SourceTree, values: Iterable[Any]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The files among ``values``, and the pairs of texts."""
    files: dict[str, None] = {}
    pairs: dict[tuple[str, str], None] = {}
    for value in values:
        for leaf in _leaves(value, DEPTH):
            if isinstance(leaf, tuple):
                pairs[leaf] = None
                continue
            path = PurePosixPath(leaf)
            file = str(path).removeprefix("/")
            if path.is_absolute() and path.suffix in SUFFIXES and (tree.root / file).is_file():
                files[file] = None
    return tuple(files), tuple(pairs)


def _leaves(value: Any, depth: int) -> Iterator[str | PurePosixPath | tuple[str, str]]:
    value = bare(value)
    if isinstance(value, Word):
        if value.startswith("/"):
            yield whole(value)
    elif isinstance(value, (str, PurePosixPath)):
        yield value
    elif depth and isinstance(value, (list, tuple)):
        inner = [bare(item) for item in value]
        if isinstance(value, tuple) and len(inner) == 2 and all(plain_type(item) is str for item in inner):
            yield whole(inner[0]), whole(inner[1])
        for item in inner:
            yield from _leaves(item, depth - 1)
    elif depth and isinstance(value, Instance):
        for item in value.attrs.values():
            yield from _leaves(item, depth - 1)
