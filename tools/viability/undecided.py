"""Rows of cells that the sources do not decide, or that the model has no use for, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memory.vocabulary import Because, Evidence, HypothesisState, Row, Verdict
from tools.engines.models import ModelUse
from tools.source.tree import SourceTree
from tools.viability.cell import Cell, Judgement, RunCell
from tools.viability.evidence import evidence_at, first_gate
from tools.viability.interpreter.records import RaiseRecord
from tools.viability.interpreter.values import Site
from tools.viability.runs import Run


def unknown(
    cell: Cell, why: str, run: Run | None = None, tree: SourceTree | None = None, again: RunCell | None = None
) -> Judgement:
    evidence: tuple[Evidence, ...] = ()
    first = None
    hops: list[tuple[Site, str]] = []
    if run is not None and tree is not None:
        first = first_gate(cell, run, again) if again is not None else None
        if run.refused is not None:
            evidence = (evidence_at(tree, run.refused.site, "refusal"),)
            hops = [(site, "calls") for site in run.refused.stack]
    row = Row(
        component=cell.component,
        backend=cell.backend,
        arch=cell.arch_name,
        verdict=Verdict.UNKNOWN,
        first_gate=first,
        state=HypothesisState.INCONCLUSIVE,
        evidence=evidence,
    )
    return Judgement(row, hops, [why])


def unused_row(cell: Cell, models: Sequence[ModelUse], layer: str) -> Judgement:
    """Nothing that the model's classes are built of uses the layer that would ask for the backend."""
    row = Row(
        component=cell.component,
        backend=cell.backend,
        arch=cell.arch_name,
        verdict=Verdict.NOT_APPLICABLE,
        because=Because.MODEL,
        state=HypothesisState.PREDICTED,
        evidence=tuple(model.definition for model in models),
    )
    return Judgement(row, [], [f"nothing that the model's class is built of uses {layer} or a kind of it"])


def doubtful(cell: Cell, record: RaiseRecord) -> Judgement:
    """What else reads the option may refuse the backend here; whether it comes to that is not known."""
    text = f"{record.exception}: {record.message}" if record.message else record.exception
    why = f"may be refused at {record.site.file}:{record.site.line} ({text}), where not all starts come by"
    return unknown(cell, why)


def alike(judged: Iterable[Judgement]) -> bool:
    """Whether the same is said for every class that may serve a model."""
    return len({(one.row.verdict, one.row.runs_instead) for one in judged}) == 1


def divided(cell: Cell, judged: Mapping[str, Judgement]) -> Judgement:
    """What is said for the classes that may serve a model, where they are not alike."""
    said = "; ".join(f"{one.row.verdict} for {model}" for model, one in judged.items())
    found = unknown(cell, f"which class serves the model decides: {said}")
    found.hops = next((one.hops for one in judged.values() if one.row.verdict is Verdict.BLOCKED), [])
    return found


def rests_on_class(row: Row) -> bool:
    """Whether what is said may be otherwise for a model of another class, where the class was looked at: a
    refusal for another reason is everybody's."""
    refused = row.verdict in (Verdict.BLOCKED, Verdict.NOT_APPLICABLE)
    return not refused or row.because is Because.MODEL
