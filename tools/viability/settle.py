"""The checks that an engine makes of its options before it starts."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.machine import BudgetError, Machine
from tools.viability.interpreter.names import global_name
from tools.viability.interpreter.values import Bound, ClassValue, bare
from tools.viability.kept import Kept
from tools.viability.runs import Run, attempt

VALIDATOR_STEPS = 60_000
"""What one check may take: those that only look at options take far less."""


def run_options(discovery: Discovery, facts: Facts, kept: Kept[Run], key: Hashable) -> Run:
    """The checks that the engine makes of its options before it starts, each on its own.

    One that takes too many steps is passed over: it says nothing either way. Each is kept under ``key``.
    """
    result = Run(Machine(discovery.world, facts), None)
    for validator in discovery.readers.validators(facts.field) if facts.field else []:
        own = facts.anew()
        here = kept.of((key, validator), own, partial(_checked, discovery, validator))
        facts.asked.update(own.asked)
        facts.given |= here.looked_at
        if here.problem is not None:
            result.machine.misfits.append(here.problem)
            continue
        if here.refused is not None and here.refused.proven:
            return here
        result.settled |= here.settled
        result.machine.gates.extend(here.machine.gates)
        result.passages.extend(here.passages[:1])
    return result


def _checked(discovery: Discovery, validator: tuple[str, str | None, str], facts: Facts) -> Run:
    module_name, owner, name = validator
    m = Machine(discovery.world, facts, limit=VALIDATOR_STEPS)
    here = Run(m, None)
    module = discovery.world.module(module_name)
    if module is None:
        return here
    options = facts.options_object(m)
    try:
        if owner is None:
            attempt(m, here, "options", global_name(m, module, name), [options], {})
        else:
            cls = bare(global_name(m, module, owner))
            if isinstance(cls, ClassValue):
                options.cls = cls
                attempt(m, here, "options", Bound(class_attribute(m, cls, name)[0], options), [], {})
    except (BudgetError, RecursionError) as error:
        here.problem = f"{module.file}:{name}: {error}"
    else:
        here.settled = {name: value for name, value in options.attrs.items() if facts.is_unset(m, name)}
    here.looked_at = frozenset(facts.given)
    m.rest()
    return here
