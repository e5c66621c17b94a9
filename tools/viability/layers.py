"""Layers: classes that ask a quantisation for their method, and who chooses among them or makes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.viability.interpreter.modules import Module


@dataclass(frozen=True)
class Layer:
    """A family of layers: one root class that asks for its method, the subclasses, and who chooses."""

    root: str
    classes: tuple[tuple[str, str], ...]
    """``(module, class)``, the one that the engine's models build most often first."""
    selectors: tuple[tuple[str, str], ...]
    """``(module, function)`` that return one of the classes."""
    makers: tuple[tuple[str, str], ...] = ()
    """``(module, function)`` that models call instead of a class: they build the layer and what it needs."""
    kind: str = ""
    """A flag of the constructor that some models set: the layer is then of another kind."""

    unsuited: bool = False
    """A backend was tried with it, and with all others, and is refused by each."""
    user: str = ""
    """``class`` or ``function``: no layer of a model, but what the engine itself builds or calls."""

    @property
    def name(self) -> str:
        marks = [self.user, self.kind, "unsuited" if self.unsuited else ""]
        return " ".join(
            [self.root, *(f"{module}.{name}" for module, name in self.classes[:1] if self.user), *marks]
        ).strip()


def hands_on(modules: list[Module], factory: str) -> frozenset[str]:
    """Functions that call ``factory`` with a layer that they were given themselves."""
    return frozenset(
        statement.name
        for module in modules
        for statement in module.tree.body
        if isinstance(statement, ast.FunctionDef)
        and any(
            isinstance(layer, ast.Name) and layer.id in {a.arg for a in statement.args.args}
            for layer in _asked_for(statement, {factory})
        )
    )


def asks(statement: ast.ClassDef, factories: set[str]) -> bool:
    """Whether an object of the class, while it is built, asks for the method of ``self``."""
    methods = {part.name: part for part in statement.body if isinstance(part, ast.FunctionDef)}
    todo, seen = ["__init__"], set[str]()
    while todo:
        name = todo.pop()
        if name in seen or name not in methods:
            continue
        seen.add(name)
        for layer in _asked_for(methods[name], factories):
            if isinstance(layer, ast.Name) and layer.id == "self":
                return True
        todo += [
            part.func.attr
            for part in ast.walk(methods[name])
            if isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and isinstance(part.func.value, ast.Name)
            and part.func.value.id == "self"
        ]
    return False


def _asked_for(node: ast.AST, factories: set[str]) -> Iterator[ast.expr]:
    """First or second arguments of calls to one of the factories: what the method is asked for."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        if getattr(call.func, "attr", getattr(call.func, "id", None)) in factories:
            yield from call.args[:2]


def makes(function: ast.FunctionDef, names: set[str]) -> bool:
    """Whether a function takes a quantisation and calls one of the classes, by name or by another name."""
    if "quant_config" not in {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}:
        return False
    known = set(names)
    for part in ast.walk(function):
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name) and part.value.id in known:
            known |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in known
        for part in ast.walk(function)
    )


def kinds(statement: ast.ClassDef) -> list[str]:
    """Flags of a class's constructor that are off unless a model says otherwise."""
    found: list[str] = []
    for part in statement.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            spec = part.args
            positional = [*spec.posonlyargs, *spec.args]
            pairs = [*zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True)]
            pairs += [(a, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None]
            found += [
                a.arg
                for a, default in pairs
                if isinstance(default, ast.Constant)
                and default.value is False
                and isinstance(a.annotation, ast.Name)
                and a.annotation.id == "bool"
            ]
    return found


def returned_only(function: ast.FunctionDef, names: set[str]) -> bool:
    """Whether a function does nothing but return one of the classes."""
    returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return bool(returns) and all(isinstance(value, ast.Name) and value.id in names for value in returns)


CLASS = re.compile(rb"^class (\w+)\(([^)]*)\)", re.M)
