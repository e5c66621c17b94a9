"""A search made again: its hits as a set, since the order of files is nobody's promise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from memory.terms import Drift
from tools.errors import ToolError
from tools.rerun.posix import to_python
from tools.rerun.recorded import Recorded
from tools.rerun.verdict import Verdict, changed, not_comparable
from tools.source.search_source import PATTERN_LIMIT, SearchInput, search_tree
from tools.source.tree import SourceTree

Hit = tuple[str, int, str]
"""File, line, text."""

_GREPS = {"grep", "egrep", "fgrep", "git grep", "rg", "ag", "ack"}
_FLAGS = {
    *("-n", "-r", "-R", "-i", "-E", "-F", "-P", "-w", "-H", "-h", "-s", "-S", "-I", "-a", "-l", "-N", "-x"),
    *("-G", "--no-heading", "--line-number"),
}
"""Flags that are understood here; with any other the output is another."""
MOST = 1000
_NUMBER = re.compile(r"(?:(?P<file>[^:\n]+):)?(?P<line>\d+):(?P<text>.*)", re.DOTALL)


def search_again(tree: SourceTree, names: dict[str, str], fields: dict[str, Any], seen: Recorded) -> Verdict:
    """What has become of the hits of a search. ``names``: its paths → the environment's names of them."""
    why = _not_understood(fields)
    if why:
        return not_comparable(why)
    if seen.cut:
        return not_comparable("the record is cut")
    limit = fields.get("limit")
    if limit is not None and len(seen.lines) >= limit:
        return not_comparable(f"the output was cut at {limit} lines; which files come first is not fixed")
    gone = [name for name in names.values() if not (tree.root / name).exists()]
    if len(gone) == len(names):
        return Verdict(Drift.GONE, why=f"no {gone[0]}")
    if not 0 < len(fields["pattern"]) <= PATTERN_LIMIT:
        return not_comparable(f"a pattern that is empty or longer than {PATTERN_LIMIT} characters")
    try:
        now = {hit for name in names.values() if name not in gone for hit in _hits(tree, name, fields)}
    except (ToolError, ValidationError) as error:
        why = str(error) if isinstance(error, ToolError) else "the pattern becomes too long in this program"
        return not_comparable(why)
    if len(now) >= MOST:
        return not_comparable(f"{MOST} hits or more")
    return _compared(names, fields, seen, now)


def _not_understood(fields: dict[str, Any]) -> str | None:
    flags = set(fields.get("flags", ()))
    if fields.get("tool") not in _GREPS or not isinstance(fields.get("pattern"), str):
        return f"a search with {fields.get('tool') or 'another tool'} is not made again"
    if flags - _FLAGS:
        return f"{' '.join(sorted(flags - _FLAGS))} gives another kind of output"
    for name in ("patterns", "type", "read_tail", "read_head", "start", "rev", "limit_tail", "max_count"):
        if name in fields:
            return f"the search was narrowed ({name})"
    return None


def _hits(tree: SourceTree, name: str, fields: dict[str, Any]) -> Iterable[Hit]:
    """The hits below one path. Raises :class:`ToolError` for a pattern that is none."""
    flags = set(fields.get("flags", ()))
    tool, pattern = fields["tool"], fields["pattern"]
    fixed = "-F" in flags or tool == "fgrep"
    if not fixed and "-P" not in flags and tool in {"grep", "egrep", "git grep"}:
        pattern = to_python(pattern, extended="-E" in flags or tool == "egrep")
    if "-w" in flags or "-x" in flags:
        body = re.escape(pattern) if fixed else f"(?:{pattern})"
        pattern, fixed = (rf"^{body}$" if "-x" in flags else rf"(?<!\w){body}(?!\w)"), False
    ignore = "-i" in flags or (tool in {"rg", "ag"} and "-S" in flags and pattern == pattern.lower())
    for include in fields.get("include") or [None]:
        asked = SearchInput(
            environment="",
            pattern=pattern,
            regex=not fixed,
            ignore_case=ignore,
            path=name,
            include=include,
            limit=MOST,
        )
        for hit in search_tree(tree, asked).hits:
            yield hit.file, hit.line, tree.lines(hit.file)[hit.line - 1]


def _compared(names: dict[str, str], fields: dict[str, Any], seen: Recorded, now: set[Hit]) -> Verdict:
    flags = set(fields.get("flags", ()))
    excluded = [re.escape(glob).replace(r"\*", ".*") for glob in fields.get("exclude", ())]
    now = {hit for hit in now if not any(re.fullmatch(one, hit[0].rpartition("/")[2]) for one in excluded)}
    if "-l" in flags:
        before = {_renamed(line, names) for line in seen.lines if line}
        if not all(_is_below(file, names) for file in before):
            return not_comparable("the output names files in another way than the search did")
        files = {file for file, _, _ in now}
        return _of_sets(before, files, "")
    single = _is_one_file(names, flags)
    numbered = bool({"-n", "--line-number"} & flags)
    recorded: set[tuple[str, int | None, str]] = set()
    for line in seen.lines:
        parsed = _parsed(line, names, numbered=numbered, single=single)
        if parsed is None:
            return not_comparable(f"a line of the output is no hit: {line[:60]!r}")
        if not _is_below(parsed[0], names):
            return not_comparable("the output names files in another way than the search did")
        recorded.add(parsed)
    if any(re.search(r"[\\\[\](){}*+?|^$.]", one) for one in _filters(fields)):
        return not_comparable("the output was filtered by patterns that are not understood here")
    kept = {hit for hit in now if _passes(fields, hit, single)}
    if numbered and recorded == kept:
        return Verdict(Drift.SAME)
    texts_before = {(file, text.strip()) for file, _, text in recorded}
    texts_now = {(file, text.strip()) for file, _, text in kept}
    if texts_before == texts_now:
        moved = sorted(f"{file}:{line}" for file, line, _ in kept - recorded)
        return Verdict(Drift.MOVED, where=moved[0]) if numbered and moved else Verdict(Drift.SAME)
    return _of_sets({f"{a}: {b}" for a, b in texts_before}, {f"{a}: {b}" for a, b in texts_now}, "hit")


def _of_sets(before: set[str], now: set[str], what: str) -> Verdict:
    if before == now:
        return Verdict(Drift.SAME)
    if before and not now:
        return Verdict(Drift.GONE, why=f"no {what or 'such file'} is left")
    return changed(sorted(before), sorted(now))


def _is_one_file(names: dict[str, str], flags: set[str]) -> bool:
    (path, *others) = names
    recursive = bool({"-r", "-R"} & flags) or names[path].rpartition("/")[2].count(".") == 0
    return not others and not recursive and "-H" not in flags


def _parsed(
    line: str, names: dict[str, str], *, numbered: bool, single: bool
) -> tuple[str, int | None, str] | None:
    only = next(iter(names.values()))
    if numbered:
        found = _NUMBER.fullmatch(line)
        if found is None:
            return None
        file = _renamed(found["file"], names) if found["file"] else only
        return file, int(found["line"]), found["text"]
    if single:
        return only, None, line
    file, colon, text = line.partition(":")
    return (_renamed(file, names), None, text) if colon else None


def _renamed(file: str, names: dict[str, str]) -> str:
    """A file as the session named it, as the environment does."""
    for path, name in names.items():
        plain = path.rstrip("/")
        if file == plain:
            return name
        if plain == "." or file.startswith(plain + "/"):
            rest = file.removeprefix("./") if plain == "." else file[len(plain) + 1 :]
            return f"{name}/{rest}" if name else rest
    return file


def _is_below(file: str, names: dict[str, str]) -> bool:
    return any(not name or file == name or file.startswith(name + "/") for name in names.values())


def _filters(fields: dict[str, Any]) -> list[str]:
    return [*fields.get("filters", ()), *fields.get("exclude_filters", ())]


def _passes(fields: dict[str, Any], hit: Hit, single: bool) -> bool:
    """Later ``| grep WORD`` and ``| grep -v WORD``, which see the file's name too."""
    line = hit[2] if single else f"{hit[0]}:{hit[1]}:{hit[2]}"
    wanted = all(one in line for one in fields.get("filters", ()))
    return wanted and not any(one in line for one in fields.get("exclude_filters", ()))
