"""Who uses an option that no layer asks for: the engine's own classes and functions, found by the names that
its value goes by.

A value is read by its field's name, given by functions that read it, kept in a module's global by those that
start the engine, or stored under a name of its own in an object of the running engine. Whoever reads it
there, and is none of those, uses it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.viability.interpreter.modules import Module
from tools.viability.layers import Layer
from tools.viability.readers import Reader, functions_of

if TYPE_CHECKING:
    from tools.viability.discover import Discovery

ROUNDS = 4
"""How often a value may be handed on under another name."""

CLASS, FUNCTION = "class", "function"
"""What a user is."""


@dataclass
class Users:
    """Who uses an option, those first that are built or called most often, and who puts its value where."""

    layers: list[Layer] = field(default_factory=list)
    checks: list[Layer] = field(default_factory=list)
    """Of those the functions that tell the value, where nobody who asks them expects a refusal."""
    stored: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Attribute of an object of the running engine → ``(module, function)`` that gives what is put there."""


def find_users(discovery: Discovery, option: str) -> Users:
    """Users of the option with this field, where the engine reads it outside of what settles its options."""
    search = _Search(discovery, option)
    for _ in range(ROUNDS):
        known = search.size
        search.look()
        if search.size == known:
            break
    built = discovery.built
    ranked = sorted(
        search.found, key=lambda item: (item[2] != CLASS, item[:2] in search.gives, -built[item[1]], item)
    )
    layers = [Layer(name, ((module, name),), (), user=what) for module, name, what in ranked]
    checks = [
        layer
        for layer in layers
        if layer.classes[0] in search.gives and layer.classes[0][1] not in search.expected
    ]
    return Users(layers, checks, search.stored)


class _Search:
    """The names that an option's value goes by, as far as they are known."""

    def __init__(self, discovery: Discovery, option: str) -> None:
        self._discovery = discovery
        self._configs = discovery.option_table.configs
        self._held = {
            key
            for key, (value, _) in self._configs.given.items()
            if any(_is_read(part, option) for part in ast.walk(value))
        }
        self._attributes = {option}
        fields = self._configs.fields
        self._held_fields = {(owner, fields[owner][name]) for owner, name in self._held}
        self.gives: set[tuple[str, str]] = set()
        """``(module, function)`` that give the value."""
        self._kept: set[tuple[str, str]] = set()
        """``(module, global)`` that hold it."""
        self.stored: dict[str, tuple[str, str]] = {}
        self.found: set[tuple[str, str, str]] = set()
        self.expected: set[str] = set()
        """Functions that are called where what they raise is caught."""

    @property
    def size(self) -> int:
        return len(self._attributes) + len(self.gives) + len(self._kept)

    def look(self) -> None:
        """Look at everybody who reads one of the names."""
        for module, function, owner in list(self._readers()):
            inside = list(ast.walk(function))
            if not any(self._reads(module, part) for part in inside):
                continue
            self.expected |= {
                call.func.id
                for part in inside
                if isinstance(part, ast.Try)
                for call in ast.walk(ast.Module(part.body, []))
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            }
            kept = {name for part in inside if isinstance(part, ast.Global) for name in part.names}
            stores = {
                part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            }
            self._kept |= {(module.name, name) for name in kept & stores}
            self._store(module, function, inside)
            if owner is not None:
                self.found.add((module.name, owner.name, CLASS))
                continue
            if not kept & stores:
                self.found.add((module.name, function.name, FUNCTION))
            if _gives(function, inside):
                self.gives.add((module.name, function.name))

    def _readers(self) -> Iterator[Reader]:
        homes = self._discovery.readers.homes
        beside = tuple(parent + "/" for home in homes if (parent := home.rpartition("/")[0]).count("/") >= 2)
        needles = [f".{name}" for name in self._attributes | {name for _, name in self._held}]
        needles += [f"{name}(" for _, name in self.gives]
        modules = {
            module.name: module
            for needle in needles
            for module in self._discovery.modules_with(needle.encode())
        }
        for name, _ in self._kept:
            if name not in modules and (own := self._discovery.world.module(name)) is not None:
                modules[name] = own
        for name in sorted(modules):
            # Where options are declared and settled nobody uses them.
            file = modules[name].file
            if file.rpartition("/")[0] not in homes and not file.startswith(beside):
                for owner, function in functions_of(modules[name].tree):
                    yield modules[name], function, owner

    def _reads(self, module: Module, part: ast.AST) -> bool:
        match part:
            case ast.Attribute(attr=name, ctx=ast.Load()):
                return name in self._attributes or self._configs.find(part) in self._held_fields
            case ast.Call(func=ast.Name(id=name)):
                return any(name == given for _, given in self.gives)
            case ast.Name(id=name, ctx=ast.Load()):
                return (module.name, name) in self._kept
        return False

    def _store(self, module: Module, function: ast.FunctionDef, inside: list[ast.AST]) -> None:
        """Note what is put into an attribute of an object that the function was handed."""
        handed = {one.arg for one in function.args.args} - {"self", "cls"}
        for part in inside:
            match part:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id=holder), attr=name)],
                    value=ast.Call(func=ast.Name(id=maker)),
                ) if holder in handed and "_" in name:
                    place = next((one for one in sorted(self.gives) if one[1] == maker), None)
                    if place is not None:
                        self._attributes.add(name)
                        self.stored[name] = place


def _is_read(part: ast.AST, option: str) -> bool:
    return isinstance(part, ast.Attribute) and part.attr == option


def _gives(function: ast.FunctionDef, inside: list[ast.AST]) -> bool:
    """Whether a function is there to tell something: it returns it, and is handed no data to work on."""
    given = [*function.args.args, *function.args.kwonlyargs]
    works = any(one.annotation is not None and "Tensor" in ast.unparse(one.annotation) for one in given)
    returns = [part for part in inside if isinstance(part, ast.Return) and part.value is not None]
    return "_" in function.name and not works and bool(returns)
