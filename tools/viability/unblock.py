"""What would open the gate that refuses a cell: the same gate, run again with one fact changed.

Nothing is looked up: an architecture, another value of the option, an environment variable, another option
that the gate reads, another quantisation counts if the run that has it gets past the very place that refuses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from memory.architecture import known_architectures
from memory.vocabulary import Contract, Verdict
from tools.viability.cell import Cell, Judgement
from tools.viability.compiled import IDIOM, no_code_row
from tools.viability.interpreter.records import RaiseRecord
from tools.viability.interpreter.values import Kind
from tools.viability.profile import scenarios
from tools.viability.refused import opens
from tools.viability.runs import Run
from tools.viability.sizes import RANKS

if TYPE_CHECKING:
    from tools.viability.analysis import Analysis

TRIES = 24
"""How many variables and settings are tried, each for itself, of those that the way asked for."""

RANKS_TRIED = ("1", "2", "4", "8", "16")

SWITCHES = ("1", "0")
"""What a variable is tried with."""


class Opening(Contract):
    """One change of one fact under which the gate that decides lets the backend through."""

    kind: Literal["architecture", "option", "variable", "setting", "quantisation", "parallelism", "build"]
    name: str
    """What is changed: a flag, a variable, a library."""
    value: str
    verdict: Verdict | None = None
    """What the whole way then says: behind the gate another may stand. None of a build, which is not here."""


def openings(
    analysis: Analysis, cell: Cell, scenario: Mapping[str, str], models: Sequence[str], judged: Judgement
) -> tuple[Opening, ...]:
    """What opens the deciding gate of a cell that is ``blocked``; nothing for other cells."""
    run, again, option = judged.run, judged.again, analysis.option(cell.component)
    if judged.row.verdict is not Verdict.BLOCKED or run is None or again is None or option is None:
        return ()
    found = list(_builds(judged))
    refusal = run.refused

    def passed(there: Run, arch: tuple[int, int]) -> bool:
        if refusal is not None:
            return opens(there, run, refusal)
        at = replace(cell, arch=arch)
        return there.refused is None and no_code_row(at, there, again, analysis.code) is None

    def verdict(other: Cell) -> Verdict:
        return analysis.judge(other, scenario, models).row.verdict

    for known in known_architectures():
        there = replace(cell, arch=(known.major, known.minor))
        if there != cell and passed(again(cell.backend, there.arch), there.arch):
            found.append(Opening(kind="architecture", name="arch", value=known.name, verdict=verdict(there)))
    for value in option.values:
        there = replace(cell, backend=value.value)
        if there != cell and passed(again(value.value, cell.arch), cell.arch):
            name = option.flag or option.field
            found.append(Opening(kind="option", name=name, value=value.value, verdict=verdict(there)))
    if refusal is not None:
        found += _by_scenario(analysis, cell, scenario, models, run, refusal)
    return tuple(found)


def _builds(judged: Judgement) -> Iterator[Opening]:
    for item in judged.row.evidence:
        if item.idiom == IDIOM:
            yield Opening(kind="build", name=item.file, value=f"compiled for {judged.row.arch}")


def _by_scenario(
    analysis: Analysis,
    cell: Cell,
    scenario: Mapping[str, str],
    models: Sequence[str],
    run: Run,
    refusal: RaiseRecord,
) -> Iterator[Opening]:
    """Changes of the scenario, one at a time, each judged anew."""
    for kind, name, changed in _changes(analysis, cell, scenario, run, refusal):
        there = analysis.judge(cell, changed, models)
        if there.run is not None and opens(there.run, run, refusal):
            value = changed[name]
            yield Opening(kind=kind, name=name.removeprefix("$"), value=value, verdict=there.row.verdict)


def _changes(
    analysis: Analysis, cell: Cell, scenario: Mapping[str, str], run: Run, refusal: RaiseRecord
) -> Iterator[tuple[Literal["variable", "setting", "quantisation", "parallelism"], str, dict[str, str]]]:
    guards = refusal.guard.kinds.union(*(one.taint.kinds for one in refusal.conditions))
    if Kind.VARIABLE in guards:
        for name in sorted(run.machine.facts.variables)[:TRIES]:
            for value in SWITCHES:
                yield "variable", f"${name}", {**scenario, f"${name}": value}
    for field in _fields_read(analysis, refusal):
        declared = next((one for one in analysis.options if one.field == field), None)
        for other in declared.values[:TRIES] if declared is not None else ():
            if scenario.get(field) != other.value:
                yield "setting", field, {**scenario, field: other.value}
    if RANKS in scenario and {Kind.PARALLELISM, Kind.CONFIG} & refusal.guard.kinds:
        for count in RANKS_TRIED:
            if scenario[RANKS] != count:
                yield "parallelism", RANKS, {**scenario, RANKS: count}
    if Kind.QUANTISATION in refusal.guard.kinds:
        given = {key: value for key, value in scenario.items() if key not in ("quantisation", "quantization")}
        for scheme in scenarios():
            changed = analysis.scenario(cell.component, scheme, given)
            if "checkpoint" in scenarios()[scheme] and scenario["quantisation"] != changed["quantisation"]:
                yield "quantisation", "quantisation", changed


def _fields_read(analysis: Analysis, refusal: RaiseRecord) -> list[str]:
    """Options, other than the one under test, that the deciding test reads by name."""
    found: list[str] = []
    for site in [one for one in refusal.guard.sites if one.role == "guard"][-1:]:
        module = analysis.world.module(analysis.world.dotted(site.file))
        for node in ast.walk(module.tree) if module is not None else ():
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Attribute) and site.line <= line <= max(site.end_line, site.line):
                found.append(node.attr)
    fields = analysis.discovery.option_table.fields
    return [name for name in dict.fromkeys(found) if name in fields and "_" in name][:TRIES]
