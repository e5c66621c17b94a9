"""Walking an environment's files: which there are, in one order, never outside the folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.source.tree import SourceTree

SKIPPED_FOLDERS = frozenset({"__pycache__", ".git", "node_modules"})
PARSE_LIMIT = 2_000_000
"""Bytes above which a Python file is not parsed: generated tables, not declarations."""


def walk(tree: SourceTree, under: str = "", suffixes: tuple[str, ...] = ()) -> Iterator[str]:
    """Relative names (with ``/``) of the files below ``under``, sorted; links are not followed.

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
                continue  # what it leads to is found where it lies, or is outside
            if entry.is_dir():
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


def glob_filter(glob: str) -> Callable[[str], bool]:
    """A test for relative names: ``*.py`` looks at the last part, ``a/**/b*.py`` at all of the name."""
    whole = "/" in glob
    pattern = re.compile(_as_regex(glob.removeprefix("./")), re.DOTALL)
    return lambda file: pattern.fullmatch(file if whole else file.rsplit("/", 1)[-1]) is not None


def _as_regex(glob: str) -> str:
    out, index = [], 0
    while index < len(glob):
        if glob.startswith("**/", index):
            out.append("(?:.*/)?")
            index += 3
        elif glob.startswith("**", index):
            out.append(".*")
            index += 2
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(glob[index], re.escape(glob[index])))
            index += 1
    return "".join(out)
