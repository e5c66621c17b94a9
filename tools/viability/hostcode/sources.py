"""C++ and CUDA sources of a tree: which functions, constants and exported names they hold."""

from __future__ import annotations

import ast
import posixpath
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import tree_sitter
import tree_sitter_cuda

from tools.source.tree import SourceTree
from tools.viability.profile import libraries

SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp", ".inl")
FILES_LIMIT, BYTES_LIMIT = 80, 4_000_000
"""How many files are read for one function, and how long one may be."""

_INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([\w./-]+)[>"]', re.MULTILINE)
_CONSTANT = re.compile(
    rb"\b(?:constexpr|const)\b[^=;(){}\n]*?\b(\w+)\s*(?:=\s*|\{\s*)(\d[\d\s+*()-]*)\}?\s*;"
)
_DEFINED = re.compile(rb"^\s*#\s*define\s+(\w+)\s+\(?(\d+)\)?\s*$", re.MULTILINE)
_EXPORT = re.compile(rb"\b[A-Z_]*EXPORT[A-Z_]*\(\s*(\w+)\s*,\s*&?([\w:]+)\s*\)")
_DEF = re.compile(rb'\.(?:def|impl)\(\s*"(\w+)[^"]*"\s*,\s*(?:[\w:]+\s*,\s*)?&?([\w:]+)\s*[,)]')

Node = Any
"""A node of tree-sitter."""


@dataclass(frozen=True)
class Definition:
    """One function with a body, and the class that it belongs to."""

    file: str
    node: Node
    owner: str | None

    @property
    def parameters(self) -> tuple[tuple[str | None, Node | None], ...]:
        """Names of its parameters, each with the value that it has where none is given."""
        declarator = self.node.child_by_field_name("declarator")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator") or next(
                (part for part in declarator.named_children if part.type.endswith("declarator")), None
            )
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        return tuple(
            (name_of(part.child_by_field_name("declarator")), part.child_by_field_name("default_value"))
            for part in (listed.named_children if listed is not None else ())
            if part.type.endswith("parameter_declaration") and part.text != b"void"
        )


@dataclass
class Text:
    """What one file holds."""

    file: str
    functions: dict[str, list[Definition]] = field(default_factory=dict)
    constants: dict[str, int | None] = field(default_factory=dict)
    exports: dict[str, str] = field(default_factory=dict)
    includes: tuple[str, ...] = ()


def _worked_out(text: str) -> int | None:
    """The number that a constant is given: a literal, or sums and products of literals.

    None for all else: a name may be that of a template's parameter.
    """
    if text.isdigit():
        return int(text)
    try:
        return _of_parts(ast.parse(text, mode="eval").body) if len(text) < 200 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _of_parts(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            first, second = _of_parts(left), _of_parts(right)
            if first is None or second is None:
                return None
            return {ast.Add: first + second, ast.Sub: first - second, ast.Mult: first * second}[type(op)]
    return None


def name_of(node: Node | None) -> str | None:
    """The last identifier of a declarator or of a qualified name."""
    while node is not None:
        if node.type in ("identifier", "field_identifier", "type_identifier", "destructor_name"):
            return str(node.text.decode(errors="replace"))
        following = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if following is None:
            following = next(
                (part for part in node.named_children if part.type.endswith(("identifier", "declarator"))),
                None,
            )
        node = following
    return None


class Sources:
    """The files of a tree, each read once."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
        self.text = cache(self._text)
        self.files = cache(self._files)
        self._place = cache(self._near)

    def _files(self, named: tuple[str, ...]) -> tuple[Text, ...]:
        """The named files, then what they include as far as it lies near them."""
        todo, seen = list(named), set(named)
        found: list[Text] = []
        for file in todo:
            if len(found) >= FILES_LIMIT:
                break
            text = self.text(file)
            found.append(text)
            for name in text.includes:
                place = self._place(file.rpartition("/")[0], name)
                if place is not None and place not in seen:
                    seen.add(place)
                    todo.append(place)
        return tuple(found)

    def _near(self, folder: str, name: str) -> str | None:
        """Where a file that ``folder`` includes lies: below one around it, or among the includes there."""
        parts = folder.split("/")
        for depth in range(len(parts), 0, -1):
            for below in ("", *libraries()["host"]["includes"]):
                place = posixpath.normpath("/".join(part for part in (*parts[:depth], below, name) if part))
                if not place.startswith("..") and (self._tree.root / place).is_file():
                    return place
        return None

    def _text(self, file: str) -> Text:
        found = Text(file)
        path = self._tree.root / file
        try:
            data = path.read_bytes() if path.stat().st_size <= BYTES_LIMIT else b""
        except OSError:
            return found
        found.includes = tuple(name.decode() for name in _INCLUDE.findall(data))
        for pattern in (_CONSTANT, _DEFINED):
            for name, value in pattern.findall(data):
                key = name.decode()
                number = _worked_out(value.decode(errors="replace").strip())
                if number is not None:
                    found.constants[key] = number if found.constants.get(key, number) == number else None
        for pattern in (_EXPORT, _DEF):
            for name, function in pattern.findall(data):
                found.exports.setdefault(name.decode(), function.decode())
        self._enter(found, self._parser.parse(data).root_node, None)
        return found

    def _enter(self, found: Text, root: Node, owner: str | None) -> None:
        todo = [(root, owner)]
        while todo:
            node, within = todo.pop()
            if node.type == "function_definition":
                name = name_of(node.child_by_field_name("declarator"))
                if name is not None and node.child_by_field_name("body") is not None:
                    owned = within or _qualifier(node)
                    found.functions.setdefault(name, []).append(Definition(found.file, node, owned))
                continue
            if node.type in ("class_specifier", "struct_specifier"):
                within = name_of(node.child_by_field_name("name")) or within
            todo += [(part, within) for part in reversed(node.named_children) if part.type not in _LEAVES]


_LEAVES = frozenset({"comment", "expression_statement", "using_declaration", "alias_declaration"})


def _qualifier(node: Node) -> str | None:
    """``A`` of ``void A::f() {}``."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "qualified_identifier":
        declarator = declarator.child_by_field_name("declarator")
    return name_of(declarator.child_by_field_name("scope")) if declarator is not None else None
