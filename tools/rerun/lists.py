"""A listing made again: which files and folders are there now."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Any

from memory.terms import Drift
from tools.rerun.recorded import Recorded
from tools.rerun.verdict import Verdict, changed, not_comparable
from tools.source.files import glob_filter, is_part, walk
from tools.source.tree import SourceTree

_LONG = re.compile(r"[-dlbcps][-rwxsStT]{9}\S*\s+\d+\s+\S+\s+\S+\s+\S+\s+\S+\s+\S+\s+\S+\s+(.*)")
_PASSED = re.compile(r"(?:^|/)(?:__pycache__|\.[^/.][^/]*|\.\.?)(?:/|$)")
"""Hidden and compiled things are no part of an environment."""


def list_again(tree: SourceTree, path: str, name: str, fields: dict[str, Any], seen: Recorded) -> Verdict:
    """What has become of a listing of ``path``, which is ``name`` in the environment."""
    if seen.cut:
        return not_comparable("the record is cut")
    if any(key in fields for key in ("filters", "exclude_filters", "exclude", "exclude_paths", "paths")):
        return not_comparable("the listing was narrowed in a way that is not made again")
    limit = fields.get("limit") or fields.get("limit_tail")
    if limit is not None and len(seen.lines) >= limit:
        return not_comparable(f"the output was cut at {limit} lines; in which order is not fixed")
    folder = tree.root / name
    if not folder.exists():
        return Verdict(Drift.GONE, why=f"no {name}")
    tool = fields.get("tool")
    if tool == "ls":
        before = {found[1] if (found := _LONG.fullmatch(line)) else line for line in seen.lines}
        before = {entry.rstrip("/*@") for entry in before if entry and not re.match(r"total \d", entry)}
        now = _entries(folder) if folder.is_dir() else {path}
    elif tool == "find":
        before = {_below(line, path) for line in seen.lines}
        now = _found(tree, name, fields)
    elif tool == "glob":
        before = {_below(line, path) for line in seen.lines}
        keep = glob_filter(str(fields["glob"]))
        start = f"{name}/" if name else ""
        below = {file.removeprefix(start) for file in walk(tree, name)}
        now = {file for file in below if keep(file)}
    else:
        return not_comparable(f"a listing with {tool or 'another tool'} is not made again")
    before = {entry for entry in before if entry and not _PASSED.search(entry)}
    now.discard("")
    if before == now:
        return Verdict(Drift.SAME)
    if before and not now:
        return Verdict(Drift.GONE, why="nothing of it is left")
    return changed(sorted(before), sorted(now))


def _entries(folder: os.PathLike[str]) -> set[str]:
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if is_part(entry)}


def _below(line: str, path: str) -> str:
    plain = path.rstrip("/")
    return line.removeprefix(plain).lstrip("/") if line.startswith(plain) else line


def _found(tree: SourceTree, name: str, fields: dict[str, Any]) -> set[str]:
    """What ``find`` finds: files and folders below, relative to where it began."""
    start = f"{name}/" if name else ""
    files = [file.removeprefix(start) for file in walk(tree, name)]
    folders = {file.rsplit("/", depth)[0] for file in files for depth in range(1, file.count("/") + 1)}
    kind = fields.get("type")
    every = set(files) if kind == "f" else folders if kind == "d" else folders | set(files)
    deepest = fields.get("maxdepth")
    globs = fields.get("globs") or [fields[key] for key in ("glob",) if key in fields]
    path_glob = fields.get("path_glob")
    return {
        one
        for one in every
        if (not isinstance(deepest, int) or one.count("/") < deepest)
        and (not globs or any(fnmatch.fnmatchcase(one.rpartition("/")[2], glob) for glob in globs))
        and (path_glob is None or fnmatch.fnmatchcase(f"{start}{one}", path_glob))
    }
