"""From runs to a row: what the refusals, the calls and the reads of a cell prove, and what they do not."""

from __future__ import annotations

from collections.abc import Callable

from tools.source.tree import SourceTree
from tools.viability.cell import Cell, Judgement, RunCell
from tools.viability.compiled import CompiledCode, no_code_row
from tools.viability.passed import passed_row
from tools.viability.refused import Otherwise, refused_row
from tools.viability.runs import Run
from tools.viability.undecided import unknown
from tools.viability.vendor import foreign_call, foreign_row


def judge(
    cell: Cell,
    run: Run,
    again: RunCell,
    others: list[str],
    archs: list[tuple[int, int]],
    tree: SourceTree,
    code: CompiledCode,
    dedicated: Callable[[], bool] = lambda: False,
    otherwise: Otherwise = (),
) -> Judgement:
    """The row of one cell, and the run that it rests on.

    ``others`` are the option's other values, ``archs`` the architectures to contrast with, ``code`` is what
    the tree holds compiled; ``dedicated`` tells whether architectures of every other generation are refused;
    ``otherwise`` is the same cell with another number of ranks, or for no certain model.
    """
    judged = _judge(cell, run, again, others, archs, tree, code, dedicated, otherwise)
    judged.run, judged.again = run, again
    return judged


def _judge(
    cell: Cell,
    run: Run,
    again: RunCell,
    others: list[str],
    archs: list[tuple[int, int]],
    tree: SourceTree,
    code: CompiledCode,
    dedicated: Callable[[], bool],
    otherwise: Otherwise,
) -> Judgement:
    if run.problem is not None:
        return unknown(cell, f"the analyser gave up: {run.problem}")
    if run.foreign is not None:
        return foreign_row(cell, *run.foreign, tree)
    refusal = run.refused
    if refusal is not None:
        return refused_row(cell, run, refusal, again, others, archs, tree, otherwise)
    if not run.observed:
        return unknown(
            cell, "the option was never seen being read on this way: the analyser does not fit here"
        )
    call = foreign_call([crossing for crossing in run.machine.crossings if crossing.by_option])
    if call is not None:
        return foreign_row(cell, call.site, call.name, tree)
    judged = no_code_row(cell, run, again, code) or passed_row(
        cell, run, again, others, tree, code, dedicated
    )
    judged.cut = run.cut is not None
    return judged


__all__ = ["Cell", "Judgement", "RunCell", "judge"]
