"""Walking an environment's files: which there are, in one order, never outside the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tools.source.tree import SourceTree

SKIPPED_FOLDERS = frozenset({"__pycache__", ".git", "node_modules"})
PARSE_LIMIT = 8_000_000
"""Bytes above which a Python file is not parsed: generated tables, not declarations."""


def walk(tree: SourceTree, under: str = "", suffixes: tuple[str, ...] = ()) -> Iterator[str]:
    """Relative names (with ``/``) of the files below ``under``, sorted; links out of the tree are skipped.

    ``suffixes`` keeps only names that end so. Raises ``SourceError`` if ``under`` is not in the tree.
    """
    start = tree.resolve(under) if under else tree.root
    if start.is_file():
        yield start.relative_to(tree.root).as_posix()
        return
    yield from sorted(_below(tree, start, suffixes))


def _below(tree: SourceTree, start: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    root = str(tree.root)
    pending = [str(start)]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                # A link to a folder could make a cycle; a link to a file counts if it stays inside.
                target = Path(entry.path).resolve()
                if not target.is_file() or tree.root not in target.parents:
                    continue
            elif entry.is_dir():
                if entry.name not in SKIPPED_FOLDERS:
                    pending.append(entry.path)
                continue
            if not suffixes or entry.name.endswith(suffixes):
                yield entry.path[len(root) + 1 :].replace(os.sep, "/")


def read_bytes(tree: SourceTree, file: str) -> bytes:
    """All bytes of ``file``, or none where it cannot be read: one bad file must not stop a walk."""
    try:
        return (tree.root / file).read_bytes()
    except OSError:
        return b""
