"""The engine's own way to what a table holds: the method that looks it up while the engine starts.

What stands around that look-up holds for every value: who makes a backend may ask of which class the model
is, and wrap what the table gave, or refuse it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tools.viability.facts import Facts, enters
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.dispatch import evaluate
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import (
    UNKNOWN,
    Bound,
    ClassValue,
    Function,
    Kind,
    Open,
    Raised,
    bare,
    of,
    taint,
)
from tools.viability.runs import Run, attempt, limited

DEPTH = 8
"""How many calls may lie between a look-up and who needs nothing for it but itself."""


@dataclass(frozen=True)
class Driver:
    """A method that needs no arguments, of the class of an object of the running engine."""

    module: str
    owner: str
    method: str


@dataclass(frozen=True)
class _Place:
    module: Module
    owner: str
    function: ast.FunctionDef

    @property
    def alone(self) -> bool:
        """Whether it needs nothing but the object that it is of, or is handed."""
        spec = self.function.args
        given = len(spec.args) - len(spec.defaults) + sum(one is None for one in spec.kw_defaults)
        return given <= 1

    def calls(self, other: _Place) -> bool:
        """Whether it calls another one: a function by its name, a method of its own class by ``self``."""
        for part in ast.walk(self.function):
            match part:
                case ast.Call(func=ast.Name(id=name)) if name == other.function.name and not other.owner:
                    return True
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
                    name == other.function.name and self.owner == other.owner and self.module is other.module
                ):
                    return True
        return False


def find_driver(modules_with: Callable[[bytes], list[Module]], table: str) -> Driver | None:
    """The outermost method without arguments from which a call of what ``table`` holds is reached; one that
    others may call first."""
    level = [place for place in _places(modules_with(f"{table}[".encode())) if _looks_up(place, table)]
    seen, found = set[ast.FunctionDef](), list[_Place]()
    for _ in range(DEPTH):
        seen |= {place.function for place in level}
        found[:0] = [place for place in level if place.alone and place.owner]
        level = [
            caller
            for called in level
            for caller in _places(modules_with(f"{called.function.name}(".encode()))
            if caller.function not in seen and caller.calls(called) and (caller.alone or not called.alone)
        ]
    last = max(found, key=lambda place: not place.function.name.startswith("_"), default=None)
    return Driver(last.module.name, last.owner, last.function.name) if last is not None else None


def _places(modules: list[Module]) -> Iterator[_Place]:
    for module in modules:
        for statement in module.tree.body:
            if isinstance(statement, ast.FunctionDef):
                yield _Place(module, "", statement)
            elif isinstance(statement, ast.ClassDef):
                for part in statement.body:
                    if isinstance(part, ast.FunctionDef):
                        yield _Place(module, statement.name, part)


def _looks_up(place: _Place, table: str) -> bool:
    """Whether a function calls what the table holds under a name that is not written there."""
    for part in ast.walk(place.function):
        match part:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name), slice=key)) if name == table:
                return not isinstance(key, ast.Constant)
    return False


def table_of(module: Module, definition: str) -> str | None:
    """The table that a decorator of ``definition`` enters it into."""
    functions = {one.name: one for one in module.tree.body if isinstance(one, ast.FunctionDef)}
    decorated = functions.get(definition)
    for decorator in decorated.decorator_list if decorated is not None else []:
        maker = functions.get(getattr(getattr(decorator, "func", None), "id", ""))
        for name in module.bindings if maker is not None else ():
            if maker is not None and enters(maker, name):
                return name
    return None


def run_driver(driver: Driver, facts: Facts) -> Run:
    """Call the method, on an object of its class as a start with these options makes it."""
    m = Machine(facts.world, facts)
    result = Run(m, None)
    module = facts.world.module(driver.module)
    with limited(result):
        cls = bare(global_name(m, module, driver.owner)) if module is not None else None
        if isinstance(cls, ClassValue):
            holder = Open(driver.owner, cls=cls)
            holder.supply = cache(lambda name: _stored(m, facts, cls, holder, name))
            attempt(m, result, "create", Bound(class_attribute(m, cls, driver.method)[0], holder), [], {})
    return result


def _stored(m: Machine, facts: Facts, cls: ClassValue, holder: Open, name: str) -> Any:
    """What a class's constructor stores under a name, if one line of it does, from what it is given there:
    the options, and for the rest what is taken where nothing is given."""
    init = bare(class_attribute(m, cls, "__init__")[0])
    if not isinstance(init, Function) or not isinstance(init.node, ast.FunctionDef):
        return NotImplemented
    stored = [
        part.value
        for part in ast.walk(init.node)
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None and _stores(part, name)
    ]
    if len(stored) != 1:
        return NotImplemented
    spec = init.node.args
    names = [*spec.posonlyargs, *spec.args]
    defaults = dict(zip(reversed(names), reversed(spec.defaults), strict=False))
    defaults.update(
        {one: value for one, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value}
    )
    given: dict[str, Any] = {"self": holder}
    try:
        with m.apart():
            for one in [*names[1:], *spec.kwonlyargs]:
                if (made := facts.options_for(m, one.annotation, init.module)) is not None:
                    given[one.arg] = made
                elif one in defaults:
                    default = evaluate(m, defaults[one], Frame(init.module, {}))
                    given[one.arg] = taint(default, of(Kind.SOFT))
                else:
                    given[one.arg] = UNKNOWN
            value = evaluate(m, stored[0], Frame(init.module, given))
    except (Raised, UnboundError):
        return NotImplemented
    return value


def _stores(statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(
        isinstance(target, ast.Attribute)
        and target.attr == name
        and getattr(target.value, "id", "") == "self"
        for target in targets
    )
