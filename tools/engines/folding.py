"""Constant folding: the literal values that an expression stands for, each with the line it is written on.

Understands what engines build option values from: list, tuple, set and dict displays, ``*stars``,
``a + b``, ``a | b``, ``list(x)``, ``x.keys()``, ``Literal[...]`` and aliases of it, ``Enum`` classes and
comprehensions over them, names in scope, imports from other modules, attributes of classes and
modules, calls of functions that only return such an expression. Whatever else is met makes the
result incomplete; nothing is guessed and nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tools.engines.modules import Function, Module, Modules, Scope

DEPTH_LIMIT = 24
STEPS = 50_000
"""Expressions folded for one question: what builds on itself doubles with each name."""
SEQUENCES = frozenset({"list", "tuple", "set", "frozenset", "sorted", "get_args"})
ENUM_BASES = frozenset({"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"})


@dataclass(frozen=True)
class LiteralValue:
    """One value as written: where, and by which idiom it was declared."""

    value: str | int
    file: str
    line: int
    idiom: str
    key: str | None = None
    """The member's name, where an ``Enum`` member stands behind the value."""


@dataclass(frozen=True)
class Folded:
    """What an expression folds to. ``complete`` is False where a part of it could not be followed."""

    values: tuple[LiteralValue, ...] = ()
    complete: bool = True
    symbols: tuple[tuple[str, str], ...] = ()
    """(file, name) of the containers that were read on the way: where an adder would add."""

    def __add__(self, other: Folded) -> Folded:
        return _sum((self, other))


UNKNOWN = Folded(complete=False)


class Folder:
    """Folds expressions of one tree. ``registered`` gives the keys registered by functions of some names."""

    def __init__(
        self,
        modules: Modules,
        registered: Callable[[Iterable[str]], tuple[LiteralValue, ...]] = lambda names: (),
    ) -> None:
        self.modules = modules
        self.registered = registered
        self._steps = 0

    def fold(self, node: ast.expr, scope: Scope, idiom: str = "choices-list", depth: int = 0) -> Folded:
        """The values of ``node`` as a collection; a constant counts as a collection of one."""
        self._steps = self._steps + 1 if depth else 0
        if depth > DEPTH_LIMIT or self._steps > STEPS:
            return UNKNOWN

        def again(inner: ast.expr) -> Folded:
            return self.fold(inner, scope, idiom, depth + 1)

        match node:
            case ast.Constant(value=str() | int() as value) if not isinstance(value, bool):
                return Folded((LiteralValue(value, scope.module.file, node.lineno, idiom),))
            case ast.Constant(value=None):
                return Folded()
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return _sum(again(part) for part in parts)
            case ast.Dict(keys=keys):
                return _sum(again(key) if key is not None else UNKNOWN for key in keys)
            case ast.Starred(value=inner) | ast.NamedExpr(value=inner):
                return again(inner)
            case ast.BinOp(left=left, op=ast.Add() | ast.BitOr(), right=right):
                return again(left) + again(right)
            case ast.IfExp(body=left, orelse=right) | ast.BoolOp(values=[left, right]):
                return again(left) + again(right)
            case ast.Subscript(value=head, slice=inner) if last_name(head) == "Literal":
                return self.fold(inner, scope, "literal-alias", depth + 1)
            case ast.Call():
                return self._fold_call(node, scope, idiom, depth, again)
            case ast.Name(id=name):
                return self._fold_name(name, scope, idiom, depth)
            case ast.Attribute(value=owner, attr=attr):
                return self._fold_attribute(owner, attr, scope, idiom, depth)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._fold_comprehension(node, scope, idiom, depth)
        return UNKNOWN

    def resolve(self, node: ast.expr, scope: Scope) -> tuple[ast.AST | Module, Scope] | None:
        """The definition or expression that a dotted name stands for, or None."""
        match node:
            case ast.Name(id=name):
                found = self.modules.look_up(name, scope)
                return (found.node, found.scope) if found else None
            case ast.Attribute(value=owner, attr=attr):
                base = self.resolve(owner, scope)
                if base is None:
                    return None
                target, at = base
                if isinstance(target, Module):
                    found = self.modules.member(target, attr)
                elif isinstance(target, ast.ClassDef):
                    found = self.modules.class_member(target, attr, at)
                else:
                    return None
                return (found.node, found.scope) if found else None
        return None

    def is_enum(self, node: ast.ClassDef, scope: Scope, depth: int = 0) -> bool:
        """Whether a class is an ``Enum``, through the classes it is derived from."""
        for base in node.bases:
            if last_name(base) in ENUM_BASES:
                return True
            found = self.resolve(base, scope) if depth < DEPTH_LIMIT else None
            if found and isinstance(found[0], ast.ClassDef) and self.is_enum(found[0], found[1], depth + 1):
                return True
        return False

    def enum_members(self, node: ast.ClassDef, scope: Scope) -> Folded:
        """Members of an ``Enum`` by value; by name if a value is no word that a person could type."""
        by_value: list[LiteralValue] = []
        by_name: list[LiteralValue] = []
        file = scope.module.file
        lowered = any(last_name(base) == "StrEnum" for base in node.bases)
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                    by_name.append(LiteralValue(name, file, statement.lineno, "enum", name))
                    match value:
                        case ast.Constant(value=str() as text) if _is_word(text):
                            by_value.append(LiteralValue(text, file, value.lineno, "enum", name))
                        case ast.Call(func=func, args=[]) if lowered and last_name(func) == "auto":
                            by_value.append(LiteralValue(name.lower(), file, statement.lineno, "enum", name))
        return Folded(tuple(by_value if len(by_value) == len(by_name) else by_name))

    def _fold_call(
        self, node: ast.Call, scope: Scope, idiom: str, depth: int, again: Callable[[ast.expr], Folded]
    ) -> Folded:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="keys" | "copy"), args=[]):
                return again(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr="union"), args=parts):
                return _sum([again(owner), *(again(part) for part in parts)])
            case ast.Call(func=func, args=[inner]) if last_name(func) in SEQUENCES:
                return again(inner)
            case ast.Call(func=func, args=[]) if last_name(func) in SEQUENCES | {"dict"}:
                return Folded()
        found = self.resolve(node.func, scope)
        if found and isinstance(found[0], ast.FunctionDef):
            return self._fold_function(found[0], found[1], idiom, depth)
        return UNKNOWN

    def _fold_function(self, function: Function, scope: Scope, idiom: str, depth: int) -> Folded:
        """The value of a function whose returns are all foldable; what it computes otherwise is unknown."""
        returned = [
            inner.value for inner in ast.walk(function) if isinstance(inner, ast.Return) and inner.value
        ]
        if not returned:
            return UNKNOWN
        inside = scope.inside(function)
        return _sum(self.fold(value, inside, idiom, depth + 1) for value in returned)

    def _fold_name(self, name: str, scope: Scope, idiom: str, depth: int) -> Folded:
        found = self.modules.look_up(name, scope)
        if found is None:
            return UNKNOWN
        folded = self._fold_found(found.node, found.scope, idiom, depth)
        if not folded.values and folded.complete:
            # An empty container is filled somewhere: by a function that a decorator or a call names.
            folded = Folded(self.registered(_fillers(name, found.scope.module)), complete=False)
        complete = folded.complete and not _changed_in_function(name, found.scope)
        return replace(
            folded,
            complete=complete,
            symbols=(*folded.symbols, (found.scope.module.file, name)),
        )

    def _fold_attribute(self, owner: ast.expr, attr: str, scope: Scope, idiom: str, depth: int) -> Folded:
        if attr == "__members__":
            return self.fold(owner, scope, idiom, depth + 1)
        base = self.resolve(owner, scope)
        if base is None:
            return UNKNOWN
        target, at = base
        if isinstance(target, Module):
            return self._fold_name(attr, Scope(target), idiom, depth)
        if isinstance(target, ast.ClassDef):
            if self.is_enum(target, at):
                return Folded(tuple(m for m in self.enum_members(target, at).values if m.key == attr))
            found = self.modules.class_member(target, attr, at)
            if found:
                return self._fold_found(found.node, found.scope, idiom, depth)
        if attr in ("value", "name"):
            return self.fold(owner, scope, idiom, depth + 1)
        return UNKNOWN

    def _fold_found(self, node: ast.AST | Module, scope: Scope, idiom: str, depth: int) -> Folded:
        if isinstance(node, ast.ClassDef):
            return self.enum_members(node, scope) if self.is_enum(node, scope) else UNKNOWN
        return self.fold(node, scope, idiom, depth + 1) if isinstance(node, ast.expr) else UNKNOWN

    def _fold_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope, idiom: str, depth: int
    ) -> Folded:
        """``[m.value for m in E]``, ``[m.name.lower() for m in E]``, ``[x for x in xs]``."""
        if len(node.generators) != 1 or not isinstance(node.generators[0].target, ast.Name):
            return UNKNOWN
        loop = node.generators[0]
        source = self.fold(loop.iter, scope, idiom, depth + 1)
        shape = ast.unparse(node.elt).removeprefix(node.generators[0].target.id)
        change = _ELEMENTS.get(shape)
        if change is None:
            return UNKNOWN
        return replace(
            source,
            values=tuple(change(value) for value in source.values),
            complete=source.complete and not loop.ifs,
        )


_ELEMENTS: dict[str, Callable[[LiteralValue], LiteralValue]] = {
    "": lambda v: v,
    ".value": lambda v: v,
    ".name": lambda v: replace(v, value=v.key or v.value),
    ".lower()": lambda v: replace(v, value=str(v.value).lower()),
    ".value.lower()": lambda v: replace(v, value=str(v.value).lower()),
    ".name.lower()": lambda v: replace(v, value=(v.key or str(v.value)).lower()),
}


def _sum(parts: Iterable[Folded]) -> Folded:
    """All parts in one pass: adding up two by two is quadratic in a long list."""
    values: dict[str | int, LiteralValue] = {}
    symbols: list[tuple[str, str]] = []
    complete = True
    for part in parts:
        for value in part.values:
            values.setdefault(value.value, value)
        symbols += part.symbols
        complete = complete and part.complete
    return Folded(tuple(values.values()), complete, tuple(dict.fromkeys(symbols)))


def last_name(node: ast.expr) -> str | None:
    """``b`` of ``a.b``, ``a`` of ``a``, else None."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _is_word(text: str) -> bool:
    return bool(text) and all(c.isalnum() or c in "_-+" for c in text)


def _changed_in_function(name: str, scope: Scope) -> bool:
    """Whether the function that owns local ``name`` also adds to it (``name.add(...)``, ``name += ...``)."""
    if not scope.around:
        return False
    for node in ast.walk(scope.around[-1]):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=owner), attr="add" | "append" | "extend" | "update")
            ) if owner == name:
                return True
            case ast.AugAssign(target=ast.Name(id=owner)) if owner == name:
                return True
    return False


def _fillers(name: str, module: Module) -> list[str]:
    """Functions of ``module`` that store into ``name[...]``: what registers under it."""
    return [
        function.name
        for function in module.syntax.body
        if isinstance(function, ast.FunctionDef)
        and any(
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and last_name(node.value) == name
            for node in ast.walk(function)
        )
    ]
