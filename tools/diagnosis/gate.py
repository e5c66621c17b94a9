"""The gate in the source that a traceback ends at: its frames found in the packages of an environment.

A frame names a file as it lay where the engine ran, and a line. It counts as found only where that line reads
the same, or where the same line stands elsewhere in the file: anything else is another version.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from memory.vocabulary import Contract, Evidence
from tools.logs import Frame
from tools.source.files import PARSE_LIMIT
from tools.source.parse import parse_python
from tools.source.tree import SourceError, SourceTree

GUARDS = 3
"""Tests around the line that raised which are told."""
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Place:
    """A frame in the tree. ``moved``: the line stands elsewhere there than the traceback says."""

    frame: int
    file: str
    line: int
    moved: bool


class Gate(Contract):
    """The innermost line of a traceback that lies in the packages at hand."""

    raised: Evidence
    guards: tuple[Evidence, ...] = ()
    """The tests that it stands under, the nearest first."""
    function: str
    frame: int
    """Which of the traceback's frames it is, from 0."""
    innermost: bool
    """Whether it raised itself; else what it called did, which was not read."""
    moved: bool


def find_gate(tree: SourceTree, frames: Sequence[Frame]) -> Gate | None:
    """The gate, None where no frame is found: the traceback is of other packages or versions."""
    for number in range(len(frames) - 1, -1, -1):
        place = find_frame(tree, frames[number], number)
        if place is not None:
            return _gate(tree, place, frames)
    return None


def find_frame(tree: SourceTree, frame: Frame, number: int = 0) -> Place | None:
    """Where a frame stands in ``tree``; None where it does not."""
    file = _file(tree, frame.file)
    if file is None:
        return None
    try:
        lines = tree.lines(file)
    except (SourceError, OSError):
        return None
    if not frame.text:
        named = 1 <= frame.line <= len(lines) and _function_at(tree, file, frame.line) == frame.function
        return Place(number, file, frame.line, moved=False) if named else None
    if frame.line <= len(lines) and lines[frame.line - 1].strip() == frame.text:
        return Place(number, file, frame.line, moved=False)
    same = [at for at, line in enumerate(lines, 1) if line.strip() == frame.text]
    inside = [at for at in same if _function_at(tree, file, at) == frame.function]
    if not inside:
        return None
    return Place(number, file, min(inside, key=lambda at: abs(at - frame.line)), moved=True)


def _file(tree: SourceTree, path: str) -> str | None:
    """The file of the tree that a path ends in, the longest such end first."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    if not parts or ".." in parts or not path.endswith(".py"):
        return None
    for start in range(1 if parts[0] == "/" else 0, len(parts) - 1):
        end = "/".join(parts[start:])
        try:
            if tree.resolve(end).is_file():
                return tree.name_of(end)
        except (SourceError, OSError, ValueError):
            continue
    return None


def _gate(tree: SourceTree, place: Place, frames: Sequence[Frame]) -> Gate:
    statement, guards, function = _around(tree, place.file, place.line)
    line, end = statement or (place.line, place.line)
    return Gate(
        raised=tree.evidence(place.file, line, end, idiom="traceback"),
        guards=tuple(
            tree.evidence(place.file, first, last, idiom="guard") for first, last in guards[:GUARDS]
        ),
        function=function or frames[place.frame].function,
        frame=place.frame,
        innermost=place.frame == len(frames) - 1,
        moved=place.moved,
    )


def _function_at(tree: SourceTree, file: str, line: int) -> str:
    return _around(tree, file, line)[2]


def _around(
    tree: SourceTree, file: str, line: int
) -> tuple[tuple[int, int] | None, list[tuple[int, int]], str]:
    """The smallest statement at a line, the tests around it within its function (the nearest first), and the
    function's name as tracebacks write it."""
    path = tree.resolve(file)
    try:
        if path.stat().st_size > PARSE_LIMIT:
            return None, [], ""
        node: ast.AST = parse_python(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None, [], ""
    function, guards = "<module>", list[tuple[int, int]]()
    statement: tuple[int, int] | None = None
    while True:
        inner = next((one for one in _statements(node) if one.lineno <= line <= (one.end_lineno or 0)), None)
        if inner is None:
            return statement, guards, function
        if isinstance(inner, _NAMED):
            function, guards = inner.name, []
        elif isinstance(inner, ast.If | ast.While) and line > (inner.test.end_lineno or 0):
            guards.insert(0, (inner.lineno, inner.test.end_lineno or inner.lineno))
        last = inner.end_lineno or inner.lineno
        bodies = list(_statements(inner))
        statement = (inner.lineno, last if not bodies else max(inner.lineno, bodies[0].lineno - 1))
        node = inner


def _statements(node: ast.AST) -> list[ast.stmt]:
    """The statements right within a node, decorated definitions from their ``def`` on."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found += _statements(child)
    return found
