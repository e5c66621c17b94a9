"""A read of lines made again: the same, elsewhere, changed or gone."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memory.terms import Drift
from tools.errors import ToolError
from tools.rerun.posix import to_python
from tools.rerun.recorded import Recorded
from tools.rerun.verdict import Verdict, changed, not_comparable
from tools.source.search_source import SearchInput, search_tree
from tools.source.tree import SourceError, SourceTree

TELLING = 12
"""Letters and digits that a block must have to be recognised elsewhere."""


def read_again(
    tree: SourceTree, name: str, fields: dict[str, Any], seen: Recorded, *, numbered: bool = False
) -> Verdict:
    """What has become of lines of the file ``name``, of which ``seen`` is on record.

    ``numbered``: the numbers in the record are the file's, and say best which lines they are.
    """
    seen = replace(seen, lines=_trimmed(seen.lines))
    if not seen.lines:
        return not_comparable("nothing was shown")
    try:
        now = _lines(tree, name)
    except (SourceError, OSError) as error:
        elsewhere = _elsewhere(tree, name, seen.lines)
        if elsewhere is not None:
            return elsewhere
        if not (tree.root / name).exists():
            return Verdict(Drift.GONE, why=f"no {name}")
        return not_comparable(str(error))
    if numbered and seen.first is not None:
        fields = {"start": seen.first, "end": seen.first + len(seen.lines) - 1}
    span = _span(fields, now)
    if isinstance(span, str):
        return not_comparable(span)
    start, end = span
    there = now[start - 1 : end]
    if seen.cut:
        if _is_same(there[: len(seen.lines)], seen.lines):
            return not_comparable(f"the record is cut: its first {len(seen.lines)} lines are the same")
    elif _is_same(_trimmed(there), seen.lines):
        return Verdict(Drift.SAME, where=_place(name, start, len(there)))
    found = _nearest(now, seen.lines, start)
    if found is not None:
        place = _place(name, found, len(seen.lines))
        if found != start:
            return Verdict(Drift.MOVED, where=place)
        # The same lines at the same place, but not as many: the file ends elsewhere, say.
        return changed(seen.lines, there, _place(name, start, len(there)))
    if _is_mostly_there(now, seen.lines):
        return _changed(name, now, seen.lines, start)
    return _elsewhere(tree, name, seen.lines) or _changed(name, now, seen.lines, start)


def _is_mostly_there(now: Sequence[str], block: Sequence[str]) -> bool:
    """Whether most lines of a block still stand in the file: it was changed there, and did not move out."""
    telling = [line for line in block if len(line.strip()) > 8]
    there = set(now)
    return 2 * sum(line in there for line in telling) > len(telling)


def _trimmed(lines: list[str]) -> list[str]:
    """Without blank lines at the end, which tools take off."""
    size = len(lines)
    while size and not lines[size - 1].strip():
        size -= 1
    return lines[:size]


def _is_same(now: Sequence[str], before: Sequence[str]) -> bool:
    """Whether lines are the same; tools take off the blanks that an output begins with."""
    if len(now) != len(before):
        return False
    first = not before or now[0].lstrip() == before[0].lstrip()
    return first and list(now[1:]) == list(before[1:])


def _lines(tree: SourceTree, name: str) -> list[str]:
    lines = tree.lines(name)
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _span(fields: dict[str, Any], now: Sequence[str]) -> tuple[int, int] | str:
    """The lines that the same command shows now, 1-based and inclusive; or why that cannot be told."""
    total = len(now)
    if "bytes" in fields:
        return "bytes were read, not lines"
    start, end = fields.get("start", 1), fields.get("end")
    if "start_pattern" in fields or "end_pattern" in fields:
        return _pattern_span(fields, now)
    if start is None:
        start = 1
    if start < 0:
        start = max(total + start + 1, 1)
    if end is None:
        end = total
    elif end < 0:
        end = total + end + 1
    return int(start), min(int(end), total)


def _pattern_span(fields: dict[str, Any], now: Sequence[str]) -> tuple[int, int] | str:
    """From the first line that fits one pattern to the next that fits another."""
    first, last = fields.get("start_pattern"), fields.get("end_pattern")
    try:
        begin = re.compile(to_python(first, extended=False)) if first else None
        plain = last is None or re.match(r"[+~]?\d", last)
        close = None if plain else re.compile(to_python(str(last), extended=False))
    except re.error as error:
        return f"a pattern is not understood ({error})"
    starts = [number for number, line in enumerate(now, 1) if begin is None or begin.search(line[:4000])]
    if not starts:
        return "no line fits the first pattern now"
    start = starts[0]
    if last and last.startswith("+"):
        return start, min(start + int(last[1:]), len(now))
    if close is None:
        return start, len(now)
    ends = (number for number in range(start + 1, len(now) + 1) if close.search(now[number - 1][:4000]))
    return start, next(ends, len(now))


def _nearest(now: Sequence[str], block: Sequence[str], start: int) -> int | None:
    """The line where a telling block stands in a file, the nearest to ``start``."""
    if sum(character.isalnum() for line in block for character in line) < TELLING:
        return None
    size = len(block)
    ends = range(size, len(now) + 1)
    places = [end - size + 1 for end in ends if _is_same(now[end - size : end], block)]
    return min(places, key=lambda number: (abs(number - start), number), default=None)


def _elsewhere(tree: SourceTree, name: str, block: Sequence[str]) -> Verdict | None:
    """The one other file of the same package that holds the block."""
    line = max(block, key=lambda text: sum(character.isalnum() for character in text))
    if sum(character.isalnum() for character in line) < TELLING or len(line) > 500:
        return None
    top = name.split("/", 1)[0]
    try:
        hits = search_tree(
            tree, SearchInput(environment="", pattern=line.strip(), regex=False, path=top, limit=200)
        ).hits
    except ToolError:
        return None
    found = []
    for file in dict.fromkeys(hit.file for hit in hits if hit.file != name):
        place = _nearest(_lines(tree, file), block, 1)
        if place is not None:
            found.append(_place(file, place, len(block)))
    return Verdict(Drift.MOVED, where=found[0]) if len(found) == 1 else None


def _changed(name: str, now: Sequence[str], block: Sequence[str], start: int) -> Verdict:
    """The diff to the part of the file that is most like the block."""
    matcher = difflib.SequenceMatcher(None, block, now, autojunk=len(now) > 4000)
    same = [one for one in matcher.get_matching_blocks() if one.size]
    telling = [one for one in same if any(len(line.strip()) > 3 for line in block[one.a : one.a + one.size])]
    if not telling:
        there = now[start - 1 : start - 1 + len(block)]
        return changed(block, there, _place(name, start, max(len(there), 1)))
    longest = max(telling, key=lambda one: one.size)
    begin = max(longest.b - longest.a, 0)
    room = len(block) // 2 + 5
    inside = [one for one in telling if begin - room <= one.b <= begin + len(block) + room]
    first = min(one.b - one.a for one in inside if one.a == inside[0].a)
    end = max(one.b + one.size + (len(block) - one.a - one.size) for one in inside[-1:])
    first, end = max(first, 0), min(max(end, first + 1), len(now))
    return changed(block, now[first:end], _place(name, first + 1, end - first))


def _place(name: str, start: int, count: int) -> str:
    return f"{name}:{start}" if count <= 1 else f"{name}:{start}-{start + count - 1}"
