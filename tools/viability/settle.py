"""The checks that an engine makes of its options before it starts."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.machine import BudgetError, Machine
from tools.viability.interpreter.names import global_name
from tools.viability.interpreter.values import CLEAN, UNKNOWN, Bound, ClassValue, Kind, Open, bare, of, strip
from tools.viability.kept import Kept
from tools.viability.runs import Run, attempt

VALIDATOR_STEPS = 60_000
"""What one check may take: those that only look at options take far less."""


def run_options(discovery: Discovery, facts: Facts, kept: Kept[Run], key: Hashable, plain: Facts) -> Run:
    """The checks that the engine makes of its options before it starts, each on its own.

    One that takes too many steps is passed over: it says nothing either way. That it does so under ``plain``
    is enough, so that it is not tried for every value and architecture. Each is kept under ``key``.
    """
    result = Run(Machine(discovery.world, facts), None)
    for validator in discovery.readers.validators(facts.field) if facts.field else []:
        work = partial(_checked, discovery, validator)
        usual = kept.of((key, validator), plain.anew(), work)
        if usual.problem is not None:
            result.machine.misfits.append(usual.problem)
            continue
        own = facts.anew()
        here = kept.of((key, validator), own, work)
        facts.asked.update(own.asked)
        facts.given |= here.looked_at
        if here.problem is not None:
            result.machine.misfits.append(here.problem)
            continue
        if here.refused is not None and here.refused.proven:
            return here
        result.settled |= here.settled
        puts = here.puts
        if facts.value is None:
            # Where nobody chose, a check that notes something down may be one that start-up does not come to.
            puts = [value for value in puts if value == here.settled.get(facts.field or "")]
        if facts.model is None or not result.puts:  # where all that decides is known, the first does
            result.puts += [value for value in puts if value not in result.puts]
        result.machine.gates.extend(here.machine.gates)
        result.doubts += [one for one in here.machine.doubted if Kind.OPTION in one.guard.kinds]
        result.passages.extend(here.passages[:1])
    return result


def _checked(discovery: Discovery, validator: tuple[str, str | None, str], facts: Facts) -> Run:
    module_name, owner, name = validator
    m = Machine(discovery.world, facts, limit=VALIDATOR_STEPS)
    here = Run(m, None)
    module = discovery.world.module(module_name)
    if module is None:
        return here
    options, gives = facts.options_object(m), None
    try:
        if owner is None:
            gives = attempt(m, here, "options", global_name(m, module, name), [options], {})
        else:
            cls = bare(global_name(m, module, owner))
            if isinstance(cls, ClassValue):
                options.cls = cls
                method = Bound(class_attribute(m, cls, name)[0], options)
                gives = attempt(m, here, "options", method, [], {})
    except (BudgetError, RecursionError) as error:
        here = Run(Machine(discovery.world, facts), None)
        here.problem = f"{module.file}:{name}: {error}"
    else:
        texts = {name: bare(value) for name, value in options.attrs.items() if facts.is_unset(m, name)}
        here.settled = {name: whole(value) for name, value in texts.items() if isinstance(value, str)}
        here.puts = _puts(m, options, gives, facts)
    here.looked_at = frozenset(facts.given)
    m.rest()
    return here


def _puts(m: Machine, options: Open, gives: Any, facts: Facts) -> list[str]:
    """What a check certainly puts in the place of the value under test, because of it or of the model: into
    the options object, into what it notes down there, or into what it ``gives``."""
    field = facts.field or ""
    # What start-up notes down of the options holds, whatever it looked at.
    held = [(options.attrs.get(field), CLEAN), (_noted(m, options).get(field), of(Kind.OPTION))]
    for decided in [*(value for value in options.attrs.values() if id(bare(value)) not in m.notes), gives]:
        inner, depends = strip(decided)
        held += [(one.get(field), depends) for one in _within(m, inner)]
    found = []
    own = facts.under_test().value
    for value, depends in held:
        put, why = strip(value)
        kinds = why.kinds | depends.kinds
        decisive = Kind.OPTION in kinds or (facts.model is not None and Kind.MODEL in kinds)
        if isinstance(put, str) and decisive and Kind.UNKNOWN not in kinds and put != own:
            found.append(whole(put))
    return found


def _noted(m: Machine, options: Open) -> dict[str, Any]:
    """What start-up certainly decided and noted down: of each option, what it came to last."""
    decided: dict[str, Any] = {}
    for value in options.attrs.values():
        for one in _within(m, value) if id(bare(value)) in m.notes else ():
            decided.update({name: UNKNOWN if id(one) in m.maybe else put for name, put in one.items()})
    return decided


def _within(m: Machine, value: Any) -> list[dict[Any, Any]]:
    """The dictionaries in a value whose content is known."""
    value = bare(value)
    if not isinstance(value, (list, tuple, dict)) or m.is_lost(value):
        return []
    if isinstance(value, dict):
        return [value]
    return [one for part in value for one in _within(m, part)]
