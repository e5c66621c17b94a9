"""What an engine does with its options before it starts, step by step.

A step is handed the options object and nothing else, by a statement of another step that holds whatever else
does: it is called with the object, or named beside it to a function that runs steps. The first are methods of
the options' own class: what makes it whole, and what hands it to a function that has many steps.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import import_target

Step = tuple[str, str | None, str]
"""``(module, class or None, function)``."""
Place = tuple[Module, ast.ClassDef | None, ast.FunctionDef]
MANY = 8
"""A function that hands the options to so many others is what settles them."""


def find_steps(
    classes: Iterable[tuple[Module, ast.ClassDef]], module_of: Callable[[str], Module | None]
) -> frozenset[Step]:
    """Every step, from the classes of the options object on."""
    queue: list[Place] = []
    for module, owner in classes:
        for method in (part for part in owner.body if isinstance(part, ast.FunctionDef)):
            place: Place = (module, owner, method)
            if method.name == "__post_init__" or (_alone(method) and _settles(place, module_of)):
                queue.append(place)
    found: dict[Step, None] = {}
    while queue:
        place = queue.pop()
        for module, cls, function in _steps_of(place, module_of):
            step = (module.name, cls.name if cls else None, function.name)
            if step not in found and _alone(function):
                found[step] = None
                queue.append((module, cls, function))
    return frozenset(found)


def _settles(place: Place, module_of: Callable[[str], Module | None]) -> bool:
    """Whether a method hands its object to a function of another module that has many steps."""
    others = [one for one in _steps_of(place, module_of) if one[1] is None and one[0] is not place[0]]
    return any(len(list(_steps_of(one, module_of))) >= MANY for one in others)


def _alone(function: ast.FunctionDef) -> bool:
    spec = function.args
    return len(spec.args) == 1 and not spec.kwonlyargs and not spec.posonlyargs


def _steps_of(place: Place, module_of: Callable[[str], Module | None]) -> Iterator[Place]:
    module, owner, function = place
    if not function.args.args:
        return
    given = function.args.args[0].arg
    for statement in _always(function.body):
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            continue
        call = statement.value
        names = [arg.id if isinstance(arg, ast.Name) else "" for arg in call.args]
        match call.func:
            case ast.Attribute(value=ast.Name(id=holder), attr=name) if holder == given and owner is not None:
                method = _function(owner.body, name)
                if method is not None and not call.args and not call.keywords:
                    yield module, owner, method
            case ast.Name(id=name) if given in names:
                for one in [name] if names == [given] else [other for other in names if other != given]:
                    target = _resolve(module, function, one, module_of)
                    if target is not None:
                        yield target[0], None, target[1]


def _always(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body that depend on nothing, but that no earlier one leaves it."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.Try, ast.With)):
            yield from _always(statement.body)


def _function(body: list[ast.stmt], name: str) -> ast.FunctionDef | None:
    return next((part for part in body if isinstance(part, ast.FunctionDef) and part.name == name), None)


def _resolve(
    module: Module,
    within: ast.FunctionDef | None,
    name: str,
    module_of: Callable[[str], Module | None],
    depth: int = 3,
) -> tuple[Module, ast.FunctionDef] | None:
    """The function that a name stands for in a module, or in a function of it that imports it itself."""
    own = _function(module.tree.body, name)
    inner = list(ast.walk(within)) if within is not None else []
    for node in [*inner, *([] if own is not None else module.tree.body)]:
        if not isinstance(node, ast.ImportFrom):
            continue
        meant = next((alias.name for alias in node.names if (alias.asname or alias.name) == name), None)
        other = module_of(import_target(module, node)) if meant is not None and depth else None
        if other is not None and meant is not None:
            return _resolve(other, None, meant, module_of, depth - 1)
    return (module, own) if own is not None else None
