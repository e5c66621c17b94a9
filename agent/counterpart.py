"""What became of a line of source in another version of the same file."""

from __future__ import annotations

import ast
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from memory.vocabulary import Evidence
    from tools.source.tree import SourceTree

ALIKE = 0.5
"""How alike two lines must be, of 1, for the one to be what became of the other."""

Span = tuple[int, int]
"""First line and the one after the last, from 0."""


class Counterpart(NamedTuple):
    file: str
    line: int
    text: str
    same: bool
    """Word for word."""


def counterpart(evidence: Evidence, here: SourceTree, there: SourceTree) -> Counterpart | None:
    """The first cited line as it stands in ``there``; None if it is gone.

    ``evidence`` cites ``here``. The line is looked for in the definition of the same name.
    """
    from tools.source.tree import SourceError

    try:
        old, new = here.lines(evidence.file), there.lines(evidence.file)
    except SourceError:
        return None
    first = evidence.line - 1
    name, (start, end) = _within(old, first)
    span = _definitions(new).get(name) if name else (0, len(new))
    if span is None:
        return None
    before = [line.strip() for line in old[start:end]]
    after = [line.strip() for line in new[slice(*span)]]
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if not i <= first - start < j:
            continue
        if tag == "equal":
            found = k + first - start - i
        elif tag == "replace":
            wanted = before[first - start]
            likeness = {
                at: SequenceMatcher(None, wanted, after[at], autojunk=False).ratio() for at in range(k, m)
            }
            found = max(likeness, key=lambda at: (likeness[at], -at))
            if likeness[found] < ALIKE:
                return None
        else:
            return None
        place = span[0] + found
        return Counterpart(evidence.file, place + 1, after[found], tag == "equal")
    return None


def _within(lines: list[str], line: int) -> tuple[str, Span]:
    """The innermost definition around a line; the name is empty where there is none."""
    around = [(name, span) for name, span in _definitions(lines).items() if span[0] <= line < span[1]]
    return min(around, key=lambda one: one[1][1] - one[1][0], default=("", (0, len(lines))))


def _definitions(lines: list[str]) -> dict[str, Span]:
    """Dotted name → where a function or class stands, with its decorators; the first of a name counts."""
    found: dict[str, Span] = {}

    def walk(node: ast.AST, prefix: str) -> None:
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{part.name}"
                first = min([part.lineno, *(one.lineno for one in part.decorator_list)])
                found.setdefault(name, (first - 1, part.end_lineno or part.lineno))
                walk(part, f"{name}.")
            else:
                walk(part, prefix)

    try:
        walk(ast.parse("\n".join(lines)), "")
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return found
