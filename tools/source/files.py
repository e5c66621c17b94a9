"""Walking an environment's files: which there are, in one order, never outside the folder."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.source.tree import READ_LIMIT, SourceTree

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})
PARSE_LIMIT = 2_000_000
"""Bytes above which a Python file is not parsed: generated tables, not declarations."""


def walk(tree: SourceTree, under: str = "", suffixes: tuple[str, ...] = ()) -> Iterator[str]:
    """Relative names (with ``/``) of the files below ``under``, sorted; links are not followed. What is
    hidden, is no plain file, or has a name that is no UTF-8 is passed over.

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
            if not is_part(entry):
                continue  # what a link leads to is found where it lies, or is outside
            if entry.is_dir():
                pending.append(entry.path)
            elif not suffixes or entry.name.endswith(suffixes):
                yield entry.path[len(root) + 1 :].replace(os.sep, "/")


def is_part(entry: os.DirEntry[str]) -> bool:
    """Whether a file or folder counts as part of an environment: a pipe, say, would block its reader."""
    if entry.name.startswith(".") or not _is_utf8(entry.name):
        return False
    if entry.is_dir(follow_symlinks=False):
        return entry.name not in SKIPPED_FOLDERS
    return entry.is_file(follow_symlinks=False)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_bytes(tree: SourceTree, file: str) -> bytes:
    """All bytes of ``file``; none where it cannot be read or is larger than :data:`READ_LIMIT`: one bad file
    must not stop a walk."""
    path = tree.root / file
    try:
        return path.read_bytes() if path.stat().st_size <= READ_LIMIT else b""
    except OSError:
        return b""


def glob_filter(glob: str) -> Callable[[str], bool]:
    """A test for relative names: ``*.py`` looks at the last part, ``a/**/b*.py`` at all of the name.

    ``*`` and ``?`` stay within a part; a part that is ``**`` stands for any number of them. Part by part,
    so that a pattern of many stars costs no more than its length times that of the name.
    """
    parts = [part for part in glob.removeprefix("./").split("/") if part]
    tests = [None if part == "**" else _part(part) for part in parts]
    if "/" not in glob:
        return lambda file: tests != [] and _fits(tests, [file.rsplit("/", 1)[-1]])
    return lambda file: _fits(tests, file.split("/"))


def _part(glob: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(glob.replace("[", "[[]"))).match


def _fits(tests: list[Callable[[str], object] | None], parts: list[str]) -> bool:
    """Whether the parts of a name fit; ``None`` is ``**``: nothing or more before others, more at the end."""
    reached = {0}
    for number, test in enumerate(tests):
        if test is None:
            least = min(reached, default=len(parts)) + (number == len(tests) - 1)
            reached = set(range(least, len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and test(parts[at])}
    return len(parts) in reached
