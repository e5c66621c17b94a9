"""The row of a cell that the sources do not decide, with the reason."""

from __future__ import annotations

from memory.vocabulary import Evidence, HypothesisState, Row, Verdict
from tools.source.tree import SourceTree
from tools.viability.cell import Cell, Judgement, RunCell
from tools.viability.evidence import evidence_at, first_gate
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
