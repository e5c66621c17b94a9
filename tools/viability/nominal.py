"""Stand-ins for the arguments of a layer: what a call needs in order to be followed, and no more."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.values import (
    NOT_NONE,
    UNKNOWN,
    ClassValue,
    External,
    Kind,
    Open,
    Tainted,
    Tensor,
    bare,
    of,
    taint,
)
from tools.viability.profile import libraries

SOFT = of(Kind.SOFT)
MODELS = of(Kind.SOFT, Kind.MODEL)
"""What only some models give."""


OPTIONAL = re.compile(r"^(typing\.)?Optional\[|\|\s*None\b|\bNone\s*\|")
"""Annotations of what may be left out, although no default says so."""


USUAL: int = libraries()["nominal"]["size"]

PARALLEL = re.compile(
    r"(^|_)(tp|ep|dp|pp|cp|dcp|pcp|sp|world|local|global|node|parallel|group)_rank$|"
    r"(^|_)(tp|ep|dp|pp|cp|dcp|world)_size$"
)
ALONE = {"rank": 0, "size": 1}
"""Places in a group of one, the default where the scenario does not say otherwise."""


DATA = ("x", "hidden_states", "input_", "q", "k", "v", "query", "key", "value")
"""Names of parameters that carry tensors, where nothing is annotated."""


def arguments(
    m: Machine, cls: ClassValue, method: str, config: Any, usual: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Nominal arguments for the parameters without a default and for those that callers usually give."""
    found, _ = class_attribute(m, cls, method)
    function = bare(found)
    if not hasattr(function, "node"):
        return {"quant_config": config} if method == "__init__" else {}
    spec = function.node.args
    given = arguments_of(spec, config, usual, bound=True)
    if spec.vararg or spec.kwarg:
        # The signature is forwarded: the base class's is the one that counts.
        for base in cls.mro()[1:]:
            if isinstance(base, ClassValue) and method in {
                s.name for s in base.node.body if isinstance(s, ast.FunctionDef)
            }:
                return {**arguments(m, base, method, config, usual), **given}
    return given


def arguments_of(
    spec: ast.arguments, config: Any, usual: frozenset[str] = frozenset(), *, bound: bool = False
) -> dict[str, Any]:
    """The same for a signature; the first parameter of a ``bound`` one is the receiver."""
    given: dict[str, Any] = {}
    positional = [*spec.posonlyargs, *spec.args][int(bound) :]
    required = positional[: len(positional) - len(spec.defaults)] if spec.defaults else positional
    for parameter in [*positional, *spec.kwonlyargs]:
        if parameter.arg == "quant_config":
            given["quant_config"] = config
        elif parameter.arg == "prefix":
            given["prefix"] = "model.layers.0.part"
        elif parameter in required:
            given[parameter.arg] = nominal(parameter)
        elif parameter.arg in usual and _is_none(spec, parameter):
            given[parameter.arg] = taint(nominal(parameter), MODELS)
    return given


def all_tensors(m: Machine, cls: ClassValue, method: str) -> dict[str, Any]:
    """The same with every tensor that the method may be given."""
    found, _ = class_attribute(m, cls, method)
    node = getattr(bare(found), "node", None)
    parameters = [*node.args.args, *node.args.kwonlyargs] if node is not None else []
    tensors = {
        parameter.arg
        for parameter in parameters
        if parameter.annotation is not None and "Tensor" in ast.unparse(parameter.annotation)
    }
    return arguments(m, cls, method, None, frozenset(tensors))


def annotated_types(function: Any) -> dict[str, str]:
    """Parameters that are annotated with one name, and that name."""
    node = getattr(bare(function), "node", None)
    if node is None:
        return {}
    return {
        parameter.arg: parameter.annotation.id
        for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if isinstance(parameter.annotation, ast.Name)
    }


@cache
def alone(name: str) -> int | None:
    """What a name that tells a place in a group of devices stands for in a group of one."""
    return ALONE[name.rpartition("_")[2]] if PARALLEL.search(name) else None


def _is_none(spec: ast.arguments, parameter: ast.arg) -> bool:
    """Whether a parameter's default is None."""
    positional = [*spec.posonlyargs, *spec.args]
    defaults = dict(zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True))
    defaults.update({a: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None})
    default = defaults.get(parameter)
    return isinstance(default, ast.Constant) and default.value is None


SIZES: list[tuple[str, int]] = [tuple(one) for one in libraries()["nominal"]["sizes"]]


def _usual_size(name: str) -> int:
    return next((size for word, size in SIZES if word in name), USUAL)


def nominal(parameter: ast.arg) -> Any:
    """A stand-in for an argument: sizes are soft numbers, tensors are tensors, the rest is unknown."""
    name = parameter.arg
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    if "Tensor" in annotation or name in DATA:
        shape = (Tainted(64, SOFT), Tainted(4096, SOFT))
        tensor = Tensor(shape, External("torch.bfloat16"))
        return taint(tensor, MODELS) if OPTIONAL.search(annotation) else tensor
    if annotation == "bool":
        return False
    if (
        annotation == "int"
        or name.endswith(("size", "dim", "_id"))
        or name.startswith("num_")
        or name == "top_k"
    ):
        if name.endswith("_id"):
            return 0
        here = alone(name)
        return Tainted(_usual_size(name) if here is None else here, SOFT)
    if annotation == "str":
        return UNKNOWN
    return NOT_NONE if annotation == "" or annotation.startswith("Optional") else Open(name)
