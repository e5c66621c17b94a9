"""What the statements of a body bind: names, with the tests around them, and the parameters of functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

MUTATORS = frozenset({"append", "extend", "update", "add", "insert", "setdefault", "register"})


@dataclass(frozen=True, slots=True)
class Guard:
    """What must hold for a statement to have run: an ``if`` test and its polarity, or a part of a ``try``."""

    kind: str
    """``if``, ``try`` (the body) or ``except``."""
    node: ast.expr | ast.Try
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Binding:
    statement: ast.stmt
    guards: tuple[Guard, ...]
    mutates: bool = False
    """Changes what the name already holds (``X.update(...)``, ``X += …``) instead of binding it."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, in order, and the defaults of those that have one."""

    positional: tuple[str, ...]
    by_keyword: tuple[str, ...]
    defaults: dict[str, ast.expr]
    rest: str | None
    """What takes the other positional arguments."""
    keywords: str | None


def index_body(
    body: list[ast.stmt],
    guards: tuple[Guard, ...],
    found: dict[str, list[Binding]],
    stars: list[tuple[ast.ImportFrom, tuple[Guard, ...]]],
) -> None:
    """Enter every binding of ``body`` into ``found``, and every star import into ``stars``."""
    for statement in body:
        for name, value in _walruses(statement):
            found.setdefault(name, []).append(Binding(ast.copy_location(ast.Expr(value), value), guards))
        if isinstance(statement, ast.If):
            index_body(statement.body, (*guards, Guard("if", statement.test)), found, stars)
            index_body(statement.orelse, (*guards, Guard("if", statement.test, False)), found, stars)
        elif isinstance(statement, ast.Try):
            index_body(statement.body, (*guards, Guard("try", statement)), found, stars)
            index_body(statement.orelse, (*guards, Guard("try", statement)), found, stars)
            for handler in statement.handlers:
                index_body(handler.body, (*guards, Guard("except", statement)), found, stars)
            index_body(statement.finalbody, guards, found, stars)
        elif isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
            stars.append((statement, guards))
        else:
            for name, mutates in names_bound(statement):
                found.setdefault(name, []).append(Binding(statement, guards, mutates))


def _walruses(statement: ast.stmt) -> list[tuple[str, ast.NamedExpr]]:
    """Names that a test, or an expression alone, binds in passing."""
    match statement:
        case ast.If(test=held) | ast.While(test=held) | ast.Assert(test=held) | ast.Expr(value=held):
            parts = ast.walk(held)
            return [(part.target.id, part) for part in parts if isinstance(part, ast.NamedExpr)]
    return []


def names_bound(statement: ast.stmt) -> list[tuple[str, bool]]:
    """Names that a statement binds (False) or changes in place (True)."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [(name, False)]
        case ast.Import(names=names):
            return [(alias.asname or alias.name.split(".")[0], False) for alias in names]
        case ast.ImportFrom(names=names):
            return [(alias.asname or alias.name, False) for alias in names]
        case ast.Assign(targets=targets):
            return [item for target in targets for item in _targets(target)]
        case ast.AnnAssign(target=target, value=value):
            return _targets(target) if value is not None else []
        case ast.AugAssign(target=ast.Name(id=name)):
            return [(name, True)]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))):
            return [(name, True)] if attr in MUTATORS else []
        case ast.For() | ast.While() | ast.With():
            stored: dict[str, bool] = {}
            for part in ast.walk(statement):
                if isinstance(part, ast.stmt) and part is not statement:
                    for name, mutates in names_bound(part):
                        stored[name] = stored.get(name, True) and mutates
            return list(stored.items())
    return []


def _targets(target: ast.expr) -> list[tuple[str, bool]]:
    match target:
        case ast.Name(id=name):
            return [(name, False)]
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return [item for element in elts for item in _targets(element)]
        case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)):
            return [(name, True)]
        case ast.Starred(value=value):
            return _targets(value)
    return []


def signature_of(spec: ast.arguments) -> Signature:
    positional = tuple(one.arg for one in (*spec.posonlyargs, *spec.args))
    by_keyword = tuple(one.arg for one in spec.kwonlyargs)
    last = positional[len(positional) - len(spec.defaults) :]
    defaults = dict(zip(last, spec.defaults, strict=True))
    named = zip(by_keyword, spec.kw_defaults, strict=True)
    defaults.update({name: default for name, default in named if default is not None})
    rest, keywords = (one.arg if one is not None else None for one in (spec.vararg, spec.kwarg))
    return Signature(positional, by_keyword, defaults, rest, keywords)


def registers(node: ast.expr) -> bool:
    """Whether it is a call of something named ``register…``."""
    function = node.func if isinstance(node, ast.Call) else None
    return "register" in getattr(function, "id", getattr(function, "attr", ""))


def yields(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    todo: list[ast.AST] = list(function.body)
    while todo:
        part = todo.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(part))
    return False
