"""The life of what the engine itself builds or calls to use an option: no layer, and no entry of a table."""

from __future__ import annotations

import ast
from functools import cache
from typing import Any

from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.dispatch import call
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import NOT_BOUND
from tools.viability.interpreter.values import UNKNOWN, ClassValue, Function, Raised, bare
from tools.viability.layers import Layer
from tools.viability.life import install
from tools.viability.nominal import arguments, arguments_of
from tools.viability.runs import Run, attempt, limited
from tools.viability.table import use


def run_user(discovery: Discovery, facts: Facts, user: Layer) -> Run:
    """Build an object of the class and call what it is for, or call the function."""
    m = Machine(discovery.world, facts)
    module_name, name = user.classes[0]
    result = Run(m, user, chosen=f"{module_name}.{name}")
    stored = discovery.users(facts.field or "").stored

    @cache
    def give(attribute: str) -> Any:
        return _given(m, facts, *stored[attribute])

    facts.stored = dict.fromkeys(stored, give)
    with limited(result):
        install(m, discovery, facts, result)
        m.consulted.clear()
        made = _named(m, module_name, name)
        if made is None:
            result.problem = f"{name} is not there"
        elif result.refused is not None:
            pass
        elif isinstance(made, ClassValue):
            given = arguments(m, made, "__init__", None)
            use(m, result, attempt(m, result, "create", made, [], given), discovery, others=entry_points)
        elif isinstance(made, Function):
            attempt(m, result, "call", made, [], _nominal(m, facts, made))
    return result


def _named(m: Machine, module_name: str, name: str) -> Any:
    """What a module has under a name; None where it has nothing."""
    module = m.world.module(module_name)
    try:
        return bare(global_name(m, module, name)) if module is not None else UNKNOWN
    except UnboundError:
        return None


def _nominal(m: Machine, facts: Facts, function: Function) -> dict[str, Any]:
    """Arguments of a function: the options where its parameter is of their class, else stand-ins."""
    spec = function.node.args
    given = arguments_of(spec, None)
    for one in (*spec.args, *spec.kwonlyargs):
        options = facts.options_for(m, one.annotation, function.module)
        if options is not None:
            given[one.arg] = options
    return given


def _given(m: Machine, facts: Facts, module_name: str, name: str) -> Any:
    """What a function gives that tells an option's value, called as it can be called at the least."""
    function = _named(m, module_name, name)
    try:
        if isinstance(function, Function):
            with m.apart():
                return call(m, function, [], _nominal(m, facts, function), None, None)
    except (Raised, UnboundError):
        pass
    return UNKNOWN


def entry_points(m: Machine, cls: ClassValue) -> list[str]:
    """Methods of a class that no forward pass leads to: its call, else those that are handed tensors."""
    if class_attribute(m, cls, "__call__")[0] is not NOT_BOUND:
        return ["__call__"]
    return [
        part.name
        for part in cls.node.body
        if isinstance(part, ast.FunctionDef)
        and not part.name.startswith("_")
        and any(
            one.annotation is not None and "Tensor" in ast.unparse(one.annotation) for one in part.args.args
        )
    ]
