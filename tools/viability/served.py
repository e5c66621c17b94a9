"""The model that a question names, as the running engine sees it.

Its configuration object names the class that serves it, and is made by a class of its own: the one that the
engine has under the model's name, or the one that the model's constructor is annotated with. It holds what
the model's ``config.json`` says, where that was given, and what its class takes for what is left out there.
Of a model of which only the class is known, everything else in it is any model's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.engines.models import Registered, plain
from tools.viability.checkpoint import NAMES, OBJECT, Checkpoint, value_of
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.dispatch import evaluate
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import World
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import NOT_BOUND, Frame
from tools.viability.interpreter.values import (
    ClassValue,
    External,
    Function,
    Kind,
    Native,
    Open,
    Raised,
    Tainted,
    bare,
    of,
)

MODEL = of(Kind.MODEL)
CONFIG_CLASS = re.compile(rb"^class (\w+)\(", re.M)


@dataclass(frozen=True)
class Served:
    """A model by the class that serves it. Make it with :func:`served`."""

    architecture: str
    module: str | None
    name: str
    """The class itself, where its file is known."""
    configs: tuple[tuple[str, str], ...] = ()
    """``(module, class)`` of what the engine calls the configuration of a model of this name."""
    quantisation: Mapping[str, Any] | None = field(default=None, compare=False)
    """What its checkpoint says of that."""
    checkpoint: Checkpoint | None = field(default=None, compare=False, repr=False)
    """Its own config, where that was given."""
    known: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The names of all classes that the engine can load models by."""

    def config(self, m: Machine, *, text: bool) -> Tainted:
        """The object that the engine reads the model's configuration from, or its part on text."""
        whole = self._class(m)
        told = self.checkpoint.data if self.checkpoint is not None else None
        made = self._object(m, _part(m, whole), _part_of(told)) if text else self._object(m, whole, told)
        return Tainted(made, MODEL)

    def _object(
        self, m: Machine, made_by: ClassValue | External | None, told: Mapping[str, Any] | None
    ) -> Open:
        parts: list[Tainted] = []

        def part() -> Tainted:
            if not parts:
                parts.append(Tainted(self._object(m, _part(m, made_by), _part_of(told)), MODEL))
            return parts[0]

        def supply(name: str) -> Any:
            if name in NAMES["text"]:
                return Native(name, lambda *_: part())
            if name in NAMES["parts"] and (_has_parts(made_by) or _part_of(told) is not told):
                return part()
            if name in NAMES["quantisation"][:1]:
                held = self.quantisation
                return Tainted(dict(held) if held else None, of(Kind.QUANTISATION))
            if isinstance(made_by, ClassValue) and name == NAMES["type"]:
                value = class_attribute(m, made_by, name)[0]
                return NotImplemented if value is NOT_BOUND else Tainted(bare(value), MODEL)
            return NotImplemented

        cls = made_by if isinstance(made_by, ClassValue) else None
        attrs = {name: Tainted(value, MODEL) for name, value in _usual(m, cls).items()} if told else {}
        attrs |= {name: value_of(value, MODEL) for name, value in _own(told).items()}
        attrs[NAMES["classes"]] = Tainted([Tainted(self.architecture, MODEL)], MODEL)
        return Open(OBJECT, attrs, supply, cls, nominal=told is None, made_by=made_by)

    def _class(self, m: Machine) -> ClassValue | External | None:
        """The class of the configuration, where the sources tell it."""
        for place in self.configs if len(self.configs) == 1 else ():
            named = _global(m, *place)
            if isinstance(named, ClassValue):
                return named
        model = _global(m, self.module, self.name) if self.module is not None else None
        init = bare(class_attribute(m, model, "__init__")[0]) if isinstance(model, ClassValue) else None
        for parameter in _parameters(init):
            if parameter.arg == NAMES["config"] and parameter.annotation is not None:
                assert isinstance(init, Function)
                try:
                    value = bare(evaluate(m, parameter.annotation, Frame(init.module, {})))
                except Raised:
                    return None
                return value if isinstance(value, (ClassValue, External)) else None
        return None


def served(world: World, texts: Mapping[str, bytes], item: Registered, known: frozenset[str]) -> Served:
    """A model by what the engine registers for it; ``texts`` are its files, ``known`` all classes."""
    named = plain(f"{item.family}{NAMES['config']}")
    configs = tuple(
        (world.dotted(file), name.decode())
        for file, data in sorted(texts.items())
        for name in CONFIG_CLASS.findall(data)
        if plain(name.decode()) == named
    )
    module = world.dotted(item.class_file) if item.class_file is not None else None
    return Served(item.architecture, module, item.class_name, configs, known=known)


def _global(m: Machine, module_name: str, name: str) -> Any:
    module = m.world.module(module_name)
    try:
        return bare(global_name(m, module, name)) if module is not None else None
    except (Raised, UnboundError):
        return None


def _parameters(function: Any) -> list[ast.arg]:
    spec = getattr(getattr(function, "node", None), "args", None)
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs] if spec is not None else []


def _part(m: Machine, whole: ClassValue | External | None) -> ClassValue | External | None:
    """The class of the part on text of what a class makes; the class itself where there are no parts."""
    if not isinstance(whole, ClassValue):
        return whole
    declared = bare(class_attribute(m, whole, NAMES["parts_of"])[0])
    if isinstance(declared, dict):
        parts = (bare(declared[name]) for name in NAMES["parts"] if name in declared)
        part = next(parts, None)
        return part if isinstance(part, (ClassValue, External)) else (None if _has_parts(whole) else whole)
    return None if _has_parts(whole) else whole


def _part_of(told: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The part on text of what a config says, or all of it."""
    part = next((told[name] for name in NAMES["parts"] if name in told), told) if told is not None else None
    return part if isinstance(part, dict) else told


def _own(told: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a config says, without its parts and what it says of the quantisation."""
    apart = {*NAMES["parts"], *NAMES["quantisation"]}
    return {name: value for name, value in told.items() if name not in apart} if told is not None else {}


def _usual(m: Machine, cls: ClassValue | None) -> dict[str, Any]:
    """What a class of configurations takes where nothing is said."""
    init = bare(class_attribute(m, cls, "__init__")[0]) if cls is not None else None
    spec = getattr(getattr(init, "node", None), "args", None)
    if spec is None:
        return {}
    named = [*spec.posonlyargs, *spec.args]
    pairs = [*zip(reversed(named), reversed(spec.defaults), strict=False)]
    pairs += zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    return {one.arg: default.value for one, default in pairs if isinstance(default, ast.Constant)}


def _has_parts(whole: ClassValue | External | None) -> bool:
    """Whether a configuration's constructor makes a part on text."""
    return isinstance(whole, ClassValue) and any(
        isinstance(part, ast.Attribute) and part.attr in NAMES["parts"] and isinstance(part.ctx, ast.Store)
        for base in whole.mro()
        if isinstance(base, ClassValue)
        for part in ast.walk(base.node)
    )
