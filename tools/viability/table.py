"""Options whose values are names in a table: what stands there is made, and used for what it is."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tools.viability.discover import Discovery
from tools.viability.drivers import run_driver
from tools.viability.facts import Facts
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import global_name
from tools.viability.interpreter.records import Choice, Condition, Frame
from tools.viability.interpreter.values import (
    Bound,
    ClassValue,
    Instance,
    Kind,
    Open,
    Site,
    Taint,
    Union,
    bare,
)
from tools.viability.nominal import all_tensors, arguments
from tools.viability.runs import Passage, Run, attempt, limited
from tools.viability.vendor import foreign_import, foreign_name


def run_registered(discovery: Discovery, facts: Facts, place: tuple[str, str]) -> Run:
    """Make what a table holds under the option's value, and call what its base class says it is for."""
    driver = discovery.driver(place) if facts.model is not None else None
    driven = run_driver(driver, facts) if driver is not None else None
    if driven is not None and driven.refused is not None and driven.refused.proven:
        return driven
    m = Machine(discovery.world, facts)
    m.gates.extend(driven.machine.gates if driven is not None else ())
    result = Run(m, None, chosen=f"{place[0]}.{place[1]}")
    module = discovery.world.module(place[0])
    if module is None:
        return result
    maker = global_name(m, module, place[1])
    site = Site(module.file, getattr(getattr(bare(maker), "node", None), "lineno", 1), "call")
    m.consulted.append(site)
    frame = Frame(module, {})
    chosen = Condition(Taint(frozenset({Kind.OPTION})), site, direct=False)
    with limited(result):
        with m.under(frame, chosen):
            made = attempt(m, result, "create", maker, [Open("runner")], {})
        if result.refused is None:
            use(m, result, made, discovery, lambda: m.under(frame, chosen))
    return result


def use(
    m: Machine,
    result: Run,
    made: Any,
    discovery: Discovery,
    because: Callable[[], AbstractContextManager[None]] = nullcontext,
    others: Callable[[Machine, ClassValue], list[str]] = lambda *_: [],
) -> None:
    """Each alternative's entry points; refused only if every alternative is.

    ``because``: what holds while they are called; ``others``: those of a class that has no ``forward``.
    """
    value = bare(made)
    options = [bare(option) for option in value.options] if isinstance(value, Union) else [value]
    classes = [option.cls for option in options if isinstance(option, Instance)]
    needs = [foreign_import(m, cls) or foreign_name(cls) for cls in classes]
    result.foreign = needs[0] if needs and all(needs) else None
    ends: list[list[Passage]] = []
    choice = Choice(m.doubts, [])
    for option in options:
        if not isinstance(option, Instance):
            continue
        here = Run(m, None)
        with m.way(choice):
            for name in entry_points(m, option.cls) or others(m, option.cls):
                if here.refused is None:
                    with because():
                        _enter(m, here, option, name)
        ends.append(here.passages)
    if len(options) > 1:
        for side in choice.sides:
            _doubt(m, *side)
        m.note(choice)
    passed = [end for end in ends if not any(passage.raised for passage in end)]
    result.passages.extend((passed or ends or [[]])[0])


def _enter(m: Machine, result: Run, instance: Instance, name: str) -> None:
    """Call an entry point with what it cannot do without; where that is not enough, with all tensors."""
    found, _ = class_attribute(m, instance.cls, name)
    for given in (arguments(m, instance.cls, name, None), all_tensors(m, instance.cls, name)):
        tried = Choice(m.doubts, [])
        with m.way(tried):
            attempt(m, result, name, Bound(found, instance), [], given)
        if result.passages[-1].cut is None:
            return
        _doubt(m, *tried.sides[0])  # with these arguments it is not called
        cut = result.passages.pop()
    result.passages.append(cut)


def _doubt(m: Machine, crossings: range, choices: range) -> None:
    """What was called and chosen there may not be."""
    for number in crossings:
        m.crossings[number].doubts += 1
    for number in choices:
        m.choices[number].doubts += 1


def entry_points(m: Machine, cls: ClassValue) -> list[str]:
    """Methods that the inherited ``forward`` hands on to, else ``forward`` itself."""
    found, owner = class_attribute(m, cls, "forward")
    node = getattr(bare(found), "node", None)
    if node is None or owner is None:
        return []
    called = [
        part.func.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id == "self"
        and part.func.attr.startswith("forward")
    ]
    own = [name for name in dict.fromkeys(called) if class_attribute(m, cls, name)[1] is not owner]
    return own or ["forward"]
