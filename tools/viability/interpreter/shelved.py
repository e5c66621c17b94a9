"""Bodies of functions as text, which are parsed again when somebody looks into them.

A parsed statement takes thirty times the room of its text, and of what a module holds few functions are ever
followed.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

SHORT = 6
"""Lines up to which a body stays as it is."""


class Body(list[ast.stmt]):
    """The statements of a function: its text until then."""

    __slots__ = ("_before", "_text")

    def __init__(self, text: str, line: int) -> None:
        """``text`` are whole lines, of which the first is ``line``."""
        super().__init__()
        self._text, self._before = text, line - 2

    def _read(self) -> None:
        if self._text:
            # Under a test, so that it may be indented; on its lines, so that it knows its places.
            text, self._text = "\n" * self._before + "if 1:\n" + self._text, ""
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (test,) = ast.parse(text).body
            assert isinstance(test, ast.If)
            super().extend(test.body)

    def __iter__(self) -> Iterator[ast.stmt]:
        self._read()
        return super().__iter__()

    def __reversed__(self) -> Iterator[ast.stmt]:
        self._read()
        return super().__reversed__()

    def __len__(self) -> int:
        self._read()
        return super().__len__()

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        self._read()
        return super().__getitem__(index)

    def __contains__(self, item: object) -> bool:
        self._read()
        return super().__contains__(item)


def shelve(statements: Iterable[ast.stmt], lines: Sequence[str]) -> None:
    """Put the long bodies of functions and methods away. ``lines``: all of the file that they are of."""
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _shelve(statement, lines)
        elif isinstance(statement, (ast.ClassDef, ast.If)):
            shelve((*statement.body, *getattr(statement, "orelse", ())), lines)
        elif isinstance(statement, ast.Try):
            shelve((*statement.body, *statement.orelse, *statement.finalbody), lines)


def _shelve(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: Sequence[str]) -> None:
    top = function.body[0]
    first = min([top.lineno, *(one.lineno for one in getattr(top, "decorator_list", ()))])
    last = function.end_lineno or first
    head = max([function.lineno, *(getattr(part, "end_lineno", 0) or 0 for part in _heads(function))])
    alone = all(not lines[number - 1].rstrip().endswith("\\") for number in range(head, first))
    if first > head and first > 1 and alone and last - first >= SHORT:
        function.body = Body("\n".join(lines[first - 1 : last]), first)


def _heads(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """What stands in front of a function's body."""
    yield from ast.walk(function.args)
    yield from filter(None, [function.returns])
