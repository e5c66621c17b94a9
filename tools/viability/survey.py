"""Where and with which sizes a model builds layers: its class's constructor, run on its config.

The layers themselves are not built: what their constructors are given is written down. Only plain numbers and
words count, whose way from ``config.json`` or from the model's source is known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tools.viability.checkpoint import CONFIG, OBJECT, Checkpoint
from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.dispatch import call
from tools.viability.interpreter.machine import BudgetError, Machine
from tools.viability.interpreter.names import global_name
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import (
    NOT_NONE,
    UNKNOWN,
    ClassValue,
    Function,
    Instance,
    Kind,
    Open,
    Raised,
    Site,
    Tainted,
    Tensor,
    Union,
    Unknown,
    bare,
    strip,
    taint,
)
from tools.viability.layers import Layer

STEPS = 400_000
"""What constructing one model may take; what was seen until then counts."""

QUANTISED = "quant_config"
"""The parameter of a layer that says how it is quantised."""

FIRST = 8
"""Layers of a model that are built before its last: more kinds in a row no model has."""

MOST = 400
"""Constructions that are written down."""


@dataclass(frozen=True)
class Built:
    """One construction of a layer by the model."""

    place: Site
    """Where the model's source asks for it."""
    made: tuple[str, str]
    """``(module, class or function)`` that was called."""
    arguments: Mapping[str, Any]
    """Parameter → number or word, with what it depends on."""
    sized: bool = True
    """The model's config is known; else only what its class alone makes certain is."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others: the place, the class and the values."""
        told = {name: value for name, value in self.arguments.items() if not name.endswith(("prefix", "_id"))}
        values = tuple(sorted((name, repr(bare(value))) for name, value in told.items()))
        return (self.place.file, self.place.line, self.made, values)


def survey(
    discovery: Discovery, facts: Facts, layer: Layer, checkpoint: Checkpoint | None, model: tuple[str, str]
) -> list[Built]:
    """Constructions of the layer's family, in order, while ``model`` (``(module, class)``) is built.

    Where only the class is known (``checkpoint`` is None), no size counts: what the class itself tells a
    layer is of which kind it is (flags, words, and tensors that are there).
    """
    m = Machine(discovery.world, facts, limit=STEPS)
    found: list[Built] = []
    classes, makers = set(layer.classes), set(layer.makers)
    usual = None if checkpoint is not None else 1

    def note(f: Function, args: list[Any], kwargs: dict[str, Any], site: Site | None) -> Any:
        receiver = bare(args[0]) if args else None
        if f.name == "__init__":
            made = receiver.cls if isinstance(receiver, Instance) else None
            name = (made.module.name, made.name) if made is not None else ("", "")
            args = args[1:]
            if name not in classes:
                return NotImplemented
        else:
            name = (f.module.name, f.name)
            if name not in makers:
                return NotImplemented
        sized = checkpoint is not None
        given = _arguments(f, args, kwargs, _told if sized else _of_class, bound=f.name == "__init__")
        if given is not None and len(found) < MOST and (sized or not m.uncertain):
            found.append(Built(site or Site("", 1, "call"), name, given, sized))
        return None if f.name == "__init__" else NOT_NONE

    def watch(m_: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], site: Site | None) -> Any:
        if len(args) == 1 and not kwargs and isinstance(bare(args[0]), ClassValue) and f.name != "__init__":
            return args[0]  # a decorator: what it wraps around a part of a model does not change its sizes
        _dress(m_, f, args, kwargs)
        noted = note(f, args, kwargs, site)
        return noted if noted is not NotImplemented else _each_layer(m_, f, args, kwargs, usual)

    facts.watch = watch
    module = discovery.world.module(model[0])
    cls = bare(global_name(m, module, model[1])) if module is not None else None
    if isinstance(cls, ClassValue):
        with suppress(Raised, BudgetError, RecursionError):  # what was built until then was built
            config = checkpoint.opened() if checkpoint is not None else _config(m, facts)
            call(m, cls, [], _given(m, cls, config), Frame(cls.module, {}), None)
    return found


def _config(m: Machine, facts: Facts) -> Any:
    return facts.model.config(m, text=False) if facts.model is not None else UNKNOWN


def _each_layer(m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], usual: int | None) -> Any:
    """A function that is handed a number and a function inside another makes so many layers: make the first
    and the last. What it does with them is nothing that tells their sizes. ``usual`` stands for a number that
    is not known.
    """
    values = [bare(value) for value in (*args, *kwargs.values())]
    maker = next((value for value in values if isinstance(value, Function) and _makes_layers(value)), None)
    count = next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)
    count = count if count is not None else usual
    if maker is None or count is None or maker is f:
        return NotImplemented
    prefix = bare(kwargs.get("prefix"))
    prefix = prefix if isinstance(prefix, str) and prefix else "model.layers"
    names = [one.arg for one in maker.node.args.args]
    for index in sorted({*range(min(count, FIRST)), count - 1}):
        given = {name: f"{prefix}.{index}" if "prefix" in name else index for name in names}
        with suppress(Raised):  # the other layers are built all the same
            call(m, maker, [], given, Frame(maker.module, {}), None)
    return UNKNOWN


def _makes_layers(function: Function) -> bool:
    """A function inside another that takes a layer's name or number, and nothing else."""
    names = [one.arg for one in function.node.args.args]
    inside = isinstance(function.node, ast.Lambda) or function.closure is not None
    return inside and bool(names) and all(re.search(r"prefix|idx|index|^i$|layer_id", name) for name in names)


def _dress(m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Give a config the engine's own class for it, which a parameter is annotated with.

    What the file leaves out is then what the class computes, or takes where nothing is said.
    """
    parameters = [*f.node.args.args, *f.node.args.kwonlyargs]
    for parameter, value in zip(parameters, args, strict=False):
        _dress_one(m, f, parameter, value)
    for parameter in parameters:
        _dress_one(m, f, parameter, kwargs.get(parameter.arg))


def _dress_one(m: Machine, f: Function, parameter: ast.arg, value: Any) -> None:
    config = bare(value)
    if not isinstance(config, Open) or config.name != OBJECT or config.cls is not None:
        return
    if not isinstance(parameter.annotation, ast.Name):
        return
    try:
        cls = bare(global_name(m, f.module, parameter.annotation.id))
    except (KeyError, Raised):
        return
    if not isinstance(cls, ClassValue):
        return
    config.cls = cls
    spec = getattr(getattr(bare(class_attribute(m, cls, "__init__")[0]), "node", None), "args", None)
    named = [*spec.posonlyargs, *spec.args] if spec is not None else []
    for one, default in zip(
        reversed(named), reversed(spec.defaults if spec is not None else []), strict=False
    ):
        if isinstance(default, ast.Constant) and default.value is not None:
            config.attrs.setdefault(one.arg, Tainted(default.value, CONFIG))


def _given(m: Machine, cls: ClassValue, config: Any) -> dict[str, Any]:
    """Arguments of the model's constructor: the config, and objects of the engine."""
    function = bare(class_attribute(m, cls, "__init__")[0])
    spec = getattr(getattr(function, "node", None), "args", None)
    if spec is None:
        return {}
    given: dict[str, Any] = {}
    for parameter in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
        name = parameter.arg
        if name == "config":
            given[name] = config
        elif name == "prefix":
            given[name] = ""
        elif name.endswith("config"):
            given[name] = Open(name, {QUANTISED: Open(QUANTISED)})
    return given


def _arguments(
    f: Function, args: list[Any], kwargs: dict[str, Any], take: Callable[[Any], bool], *, bound: bool
) -> dict[str, Any] | None:
    """What a layer is given, as far as it counts; None where it is not known whether it is quantised."""
    spec = f.node.args
    names = [one.arg for one in (*spec.posonlyargs, *spec.args)][int(bound) :]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    found = {name: taint(_whole(value), CONFIG) for name, value in given.items() if take(value)}
    if QUANTISED in names or QUANTISED in {one.arg for one in spec.kwonlyargs}:
        how, why = strip(given.get(QUANTISED))
        if isinstance(how, (Unknown, Union)) and not (isinstance(how, Unknown) and how.runtime):
            return None
        if how is None and Kind.SOFT not in why.kinds:
            found[QUANTISED] = None  # the model builds this one in full precision, whatever the others are
    return found


def _plain(value: Any) -> bool:
    inner, why = strip(value)
    return isinstance(inner, (bool, int, float, str)) and not why.kinds & {Kind.UNKNOWN, Kind.SOFT}


def _told(value: Any) -> bool:
    return _plain(value) or _of_class(value)


def _of_class(value: Any) -> bool:
    """A flag, a word, or a tensor that is there: no size."""
    inner, why = strip(value)
    told = isinstance(inner, (bool, str, Tensor)) or (
        isinstance(inner, Instance) and inner.tensor is not None
    )
    return told and not why.kinds & {Kind.UNKNOWN, Kind.SOFT}


def _whole(value: Any) -> Any:
    """A value as another run may have it: a tensor is one of any size."""
    inner, why = strip(value)
    return taint(Tensor(), why) if isinstance(inner, (Tensor, Instance)) else value
