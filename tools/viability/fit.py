"""Whether the analyser fits the version at hand: what must hold before anything is said of an option.

An engine that is built otherwise than the analyser expects shows it: no way leads from the option's value to
code, or none gets anywhere, not even a plain backend's on a common architecture. Then nothing is said, rather
than something wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tools.engines.options import Option
from tools.viability.cell import AUTOMATIC, RunCell
from tools.viability.discover import Discovery
from tools.viability.interpreter.values import Kind
from tools.viability.runs import Run

LEAST_STEPS = 100
"""A way to a kernel takes at least so many steps, thousands as a rule, whatever the engine."""


def misfit(
    discovery: Discovery,
    option: Option,
    ways: Iterable[tuple[Mapping[str, str], RunCell | None]],
    archs: Sequence[tuple[int, int]],
) -> str | None:
    """Why nothing can be said of the option in this version; None if something can.

    ``ways``: scenarios, one for each kind of model, and what runs a value on an architecture under it;
    ``archs`` are common ones.
    """
    values = [value.value for value in option.values]
    plain = [value for value in values if value not in AUTOMATIC] or values
    why = f"{option.flag} was never seen being read"
    for scenario, way in ways:
        if scenario["quantization"] != "none" and discovery.quantisation_lookup is None:
            return f"{discovery.profile.quantisation_lookup}, which knows quantisations, was not found"
        for run in (way(value, arch) for value in plain for arch in archs) if way is not None else ():
            if not _reads(discovery, option, run):
                continue
            if _passes(run):
                return None
            why = f"no value of {option.flag} gets through on any common architecture"
    return why


def _reads(discovery: Discovery, option: Option, run: Run) -> bool:
    """Whether the option was seen being read: on the way; where its values are names in a table, anywhere."""
    return run.observed and (run.layer is not None or bool(discovery.readers.readers(option.field)))


def _passes(run: Run) -> bool:
    """Whether a run went all the way, or until a package was missing."""
    ended = run.refused
    through = ended is None or ended.cause in ("import", "name") or Kind.DEPENDENCY in ended.guard.kinds
    return run.problem is None and through and run.machine.steps >= LEAST_STEPS
