"""The checks that an engine makes of its options before it starts."""

from __future__ import annotations

from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.machine import BudgetError, Machine
from tools.viability.interpreter.names import global_name
from tools.viability.interpreter.values import Bound, ClassValue, bare
from tools.viability.runs import Run, attempt

VALIDATOR_STEPS = 60_000
"""What one check may take: those that only look at options take far less."""


def run_options(discovery: Discovery, facts: Facts) -> Run:
    """The checks that the engine makes of its options before it starts, each on its own.

    One that takes too many steps is passed over: it says nothing either way.
    """
    result = Run(Machine(discovery.world, facts), None)
    for module_name, owner, name in discovery.readers.validators(facts.field) if facts.field else []:
        module = discovery.world.module(module_name)
        if module is None:
            continue
        m = Machine(discovery.world, facts, limit=VALIDATOR_STEPS)
        here = Run(m, None)
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
            result.machine.misfits.append(f"{module.file}:{name}: {error}")
            continue
        if here.refused is not None and here.refused.proven:
            return here
        result.settled |= {name: value for name, value in options.attrs.items() if facts.is_unset(m, name)}
        result.machine.gates.extend(m.gates)
        result.passages.extend(here.passages[:1])
    return result
