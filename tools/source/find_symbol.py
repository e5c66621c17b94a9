"""Find where a function, class or constant is defined."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

from pydantic import BaseModel, Field

from memory.vocabulary import Effect
from tools.base import tool
from tools.source._candidates import holding
from tools.source._open import locate, open_tree
from tools.source.files import PARSE_LIMIT, glob_filter, read_bytes, walk
from tools.source.parse import parse_python
from tools.source.tree import SourceTree, decode

Kind = Literal["function", "method", "class", "constant", "attribute"]


class FindInput(BaseModel):
    environment: str = Field(description="Name or folder of the environment")
    name: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", max_length=200, description="name or Class.name"
    )
    path: str = Field(default="", description="Folder or file to look in; empty for all packages")
    include: str | None = None
    limit: int = Field(default=100, ge=1, le=1000)


class Symbol(BaseModel):
    name: str
    """Qualified within its file, e.g. ``ServerArgs.add_cli_args``."""
    kind: Kind
    file: str
    line: int
    end_line: int
    text: str
    """The line that defines it."""
    parsed: bool = True
    """False: the file is not valid Python here; the line was found by its look."""


class FindResult(BaseModel):
    symbols: list[Symbol]
    """Sorted by file, then line."""
    truncated: bool
    """There are more: give the class around it, a path, or a higher limit."""


@tool(effect=Effect.READS)
def find_symbol(args: FindInput, context: Any) -> FindResult:
    """Find where a Python function, class, method or constant is defined, with file, line and kind."""
    tree = open_tree(args.environment, context)
    # One more than shown tells that there are more; a name like forward is defined thousands of times.
    found = list(islice(symbols_named(tree, args.name, args.path, args.include), args.limit + 1))
    return FindResult(symbols=found[: args.limit], truncated=len(found) > args.limit)


def symbols_named(
    tree: SourceTree, name: str, path: str = "", include: str | None = None
) -> Iterator[Symbol]:
    """Definitions of ``name`` (the parts before the last must be what is around it)."""
    last = name.rsplit(".", 1)[-1]
    under, _ = locate(tree, path)
    keep = glob_filter(include) if include else None
    files = [file for file in walk(tree, under, (".py", ".pyi")) if keep is None or keep(file)]
    for file in holding(tree, files, last):
        data = read_bytes(tree, file)
        if len(data) > PARSE_LIMIT or not may_define(data, last.encode()):
            continue
        lines = decode(data).split("\n")
        found = _parsed(file, data, last, lines)
        yield from (s for s in found if s.name == name or s.name.endswith("." + name))


def may_define(data: bytes, word: bytes) -> bool:
    """Whether a line could define ``word``: after ``def`` or ``class``, before ``=``, first and before ``:``.

    Parsing all that only uses it would cost seconds. Linear in ``data``, whatever stands in it.
    """
    line_end = sign = -1
    for match in re.finditer(rb"\b%s\b" % re.escape(word), data):
        first = match.start() > line_end
        if first:
            line_start = data.rfind(b"\n", 0, match.start()) + 1
            line_end = data.find(b"\n", match.end())
            line_end = len(data) if line_end < 0 else line_end
            found = re.compile(rb"[=#]").search(data, line_start, line_end)
            sign = found.start() if found else -1
            if _ANNOTATED.match(data, match.end()) and not data[line_start : match.start()].strip():
                return True
        if sign >= match.end() and data[sign : sign + 1] == b"=":
            return True
        if _DEFINES.search(data, max(0, match.start() - 27), match.start()):
            return True
    return False


_ANNOTATED = re.compile(rb"[ \t]*+:")
_DEFINES = re.compile(rb"\b(?:def|class)[ \t]{1,20}\Z")


def _parsed(file: str, data: bytes, last: str, lines: list[str]) -> list[Symbol]:
    try:
        syntax = parse_python(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _by_look(file, last, lines)
    found: list[Symbol] = []
    pending: list[tuple[ast.AST, tuple[str, ...], str]] = [(syntax, (), "module")]
    while pending:
        node, around, inside = pending.pop()
        names, kind = _defined(node, inside)
        if last in names:
            line = node.lineno  # type: ignore[attr-defined]
            found.append(
                Symbol(
                    name=".".join((*around, last)),
                    kind=kind,
                    file=file,
                    line=line,
                    end_line=getattr(node, "end_lineno", None) or line,
                    text=lines[line - 1].strip()[:400],
                )
            )
        if isinstance(node, ast.ClassDef):
            around, inside = (*around, node.name), "class"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            around, inside = (*around, node.name), "function"
        pending.extend(
            (child, around, inside)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        )
    return sorted(found, key=lambda symbol: symbol.line)


def _defined(node: ast.AST, inside: str) -> tuple[list[str], Kind]:
    """Names that a statement defines, and of what kind. Locals of functions define nothing."""
    match node:
        case ast.ClassDef(name=name):
            return [name], "class"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name], "method" if inside == "class" else "function"
        case ast.Assign(targets=targets) if inside != "function":
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            return names, "attribute" if inside == "class" else "constant"
        case ast.AnnAssign(target=ast.Name(id=name)) if inside != "function":
            return [name], "attribute" if inside == "class" else "constant"
    return [], "constant"


def _by_look(file: str, last: str, lines: list[str]) -> list[Symbol]:
    look = re.compile(rf"\s*(?:async\s+)?(def|class)\s+{re.escape(last)}\b|{re.escape(last)}\s*(?::[^=]+)?=")
    found = []
    for number, line in enumerate(lines, 1):
        match = look.match(line)
        if match:
            kind: Kind = {"def": "function", "class": "class"}.get(match[1] or "", "constant")  # type: ignore[assignment]
            found.append(
                Symbol(
                    name=last,
                    kind=kind,
                    file=file,
                    line=number,
                    end_line=number,
                    text=line.strip()[:400],
                    parsed=False,
                )
            )
    return found
