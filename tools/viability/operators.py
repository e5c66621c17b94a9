"""Operators of torch that an engine makes out of its own functions: ``torch.ops.NAMESPACE.NAME``."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tools.viability.interpreter.modules import Module

Place = tuple[str, str]
"""``(module, function)``."""
DECORATOR = "custom_op"
"""``torch.library.custom_op("namespace::name", ...)``, also as a decorator."""


def operators(modules: Iterable[Module], registration: str) -> dict[str, Place]:
    """Name of an operator → the function that does its work.

    ``registration`` is the engine's own function that is told a name and a function, by position or by word.
    """
    found: dict[str, Place] = {}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    name = _named(decorator) if isinstance(decorator, ast.Call) else None
                    if name is not None and _called(decorator) == DECORATOR:
                        found.setdefault(name.rpartition("::")[2], (module.name, node.name))
            elif isinstance(node, ast.Call) and _called(node) == registration:
                given = [*node.args, *(word.value for word in node.keywords)]
                name, function = (
                    _named(node),
                    next((arg.id for arg in given if isinstance(arg, ast.Name)), None),
                )
                if name is not None and function is not None:
                    found.setdefault(name, (module.name, function))
    return found


def _called(node: ast.expr) -> str | None:
    function = node.func if isinstance(node, ast.Call) else node
    name = getattr(function, "attr", getattr(function, "id", None))
    return name if isinstance(name, str) else None


def _named(node: ast.Call) -> str | None:
    """The first string that a call is given."""
    for arg in [*node.args, *(word.value for word in node.keywords)]:
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
            return arg.value
    return None
