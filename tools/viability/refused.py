"""Rows of cells that are refused.

A refusal is believed only if the guard in front of it looks at a fact of the scenario and nothing on the
way is unknown, *and* a contrast shows that the fact makes the difference: the same place is passed on
another architecture (then the architecture is the cause) or with another value of the option. A place
that refuses everybody says nothing about the backend: there the analyser does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.vocabulary import Because, HypothesisState, Row, Verdict
from tools.source.tree import SourceTree
from tools.viability.cell import AUTOMATIC, Cell, Judgement, RunCell
from tools.viability.evidence import first_gate, story
from tools.viability.interpreter.records import RaiseRecord
from tools.viability.interpreter.values import Kind
from tools.viability.needed import needed
from tools.viability.runs import Run
from tools.viability.undecided import unknown


def refused_row(
    cell: Cell,
    run: Run,
    refusal: RaiseRecord,
    again: RunCell,
    others: list[str],
    archs: list[tuple[int, int]],
    tree: SourceTree,
    otherwise: Otherwise = (),
) -> Judgement:
    """``otherwise``: the same run with one fact of the target changed, and what that fact is."""
    text = f"{refusal.exception}: {refusal.message}" if refusal.message else refusal.exception
    if not refusal.proven:
        return unknown(
            cell,
            f"may be refused at {refusal.site.file}:{refusal.site.line} ({text}), not proven",
            run,
            tree,
            again,
        )
    if run.layer is not None and run.layer.unsuited and refusal.cause == "raise":
        return unknown(
            cell,
            f"refused by every kind of layer that was tried ({text}): another may be needed",
            run,
            tree,
            again,
        )
    sized = _size(run, refusal, otherwise) or _class_alone(run, refusal, otherwise)
    because = sized or _cause(cell, run, refusal, again, others, archs)
    if because is None:
        return unknown(
            cell,
            f"{refusal.site.file}:{refusal.site.line} refuses on every architecture and for every value "
            "of the option: the analyser does not fit here",
            run,
            tree,
            again,
        )
    if because is Because.DEPENDENCY and refusal.cause == "import":
        # Not in the environment and not among what the engine requires: another vendor's, or an extra.
        verdict = Verdict.NOT_APPLICABLE if _only_here(cell, again, others) else Verdict.UNKNOWN
        why = f"needs {refusal.message or 'a package'}, which the engine does not require on this platform"
        if verdict is Verdict.UNKNOWN:
            return unknown(cell, why, run, tree, again)
        because = Because.VENDOR
    else:
        elsewhere = because in (Because.MODEL, Because.VENDOR) and sized is None
        verdict = Verdict.NOT_APPLICABLE if elsewhere else Verdict.BLOCKED
    settled = cell.backend in AUTOMATIC or (run.passages and run.passages[-1].stage == "start")
    if settled and sized is None and because is not Because.ARCHITECTURE:
        # What the engine does to options before this point (aliases, defaults) was not followed.
        return unknown(cell, f"start-up does not know the value as it stands ({text})", run, tree, again)
    needs = needed(refusal, tree) if sized is not None else ()
    # What a number is computed with is no list that it is tested against.
    computed = bool(needs) and not any("in" in one.op for one in needs)
    evidence, hops = story(refusal, tree, tested=not computed)
    row = Row(
        component=cell.component,
        backend=cell.backend,
        arch=cell.arch_name,
        verdict=verdict,
        because=because,
        conditions=needs,
        first_gate=first_gate(cell, run, again),
        state=HypothesisState.PREDICTED,
        evidence=evidence,
    )
    return Judgement(row, hops, [text])


Otherwise = Sequence[tuple[Because, Callable[[], Run]]]


def _size(run: Run, refusal: RaiseRecord, otherwise: Otherwise) -> Because | None:
    """The fact of the target whose change opens a gate that looks at a model's sizes, if one does."""
    kinds = refusal.guard.kinds
    if not {Kind.CONFIG, Kind.PARALLELISM, Kind.QUANTISATION} & kinds:
        return None
    because = next((because for because, changed in otherwise if opens(changed(), run, refusal)), None)
    if because is Because.MODEL and Kind.CONFIG not in kinds:
        return Because.QUANTISATION  # what the config says of that, not of the model
    return because


def _class_alone(run: Run, refusal: RaiseRecord, otherwise: Otherwise) -> Because | None:
    """Whether a backend is refused where only the model's class leads, and a model of another gets past."""
    led = any(Kind.MODEL in condition.taint.kinds for condition in refusal.conditions)
    if not led or Kind.OPTION not in refusal.guard.kinds:
        return None
    changed = next((changed for because, changed in otherwise if because is Because.MODEL), None)
    return Because.MODEL if changed is not None and opens(changed(), run, refusal) else None


_STRONGER = frozenset({Kind.ARCH, Kind.DEPENDENCY, Kind.QUANTISATION})
"""Facts that say more about a refusal than that it looks at the vendor as well."""


def _cause(
    cell: Cell,
    run: Run,
    refusal: RaiseRecord,
    again: RunCell,
    others: list[str],
    archs: list[tuple[int, int]],
) -> Because | None:
    """Which fact makes the difference at the place of refusal, found by changing it."""

    if Kind.MODEL in refusal.guard.kinds and not {Kind.ARCH, Kind.OPTION} & refusal.guard.kinds:
        return Because.MODEL
    if Kind.VENDOR in refusal.guard.kinds and not _STRONGER & refusal.guard.kinds:
        return Because.VENDOR

    if Kind.ARCH in refusal.guard.kinds:
        for arch in archs:
            if arch == cell.arch:
                continue
            there = again(cell.backend, arch)
            if opens(there, run, refusal) or _otherwise_only(there, refusal):
                return Because.ARCHITECTURE
    for other in others:
        there = again(other, cell.arch)
        if other != cell.backend and opens(there, run, refusal):
            decisive = refusal.guard.kinds
            return (
                Because.QUANTISATION
                if Kind.QUANTISATION in decisive and Kind.OPTION not in decisive
                else (Because.DEPENDENCY if refusal.cause in ("import", "name") else Because.OPTION)
            )
    if Kind.ARCH in refusal.guard.kinds and Kind.OPTION not in refusal.guard.kinds:
        # Everything is refused on this architecture by the same gate; another must pass it.
        for arch in archs:
            there = again(cell.backend, arch)
            if arch != cell.arch and _passes(there, refusal) and _reached(there, run):
                return Because.ARCHITECTURE
    return None


def opens(other: Run, run: Run, refusal: RaiseRecord) -> bool:
    """Whether the place that refuses ``run`` lets ``other`` through."""
    return _gets_past(other, refusal) or (_passes(other, refusal) and _reached(other, run))


def _passes(other: Run, refusal: RaiseRecord) -> bool:
    there = other.refused
    if other.problem is not None:
        return False
    if there is None:
        return True
    same = (there.site.file, there.site.line) == (refusal.site.file, refusal.site.line)
    return there.proven and not same


def _otherwise_only(other: Run, refusal: RaiseRecord) -> bool:
    """Whether the same place refuses ``other`` too, but for nothing that the device has to do with."""
    there = other.refused
    return (
        there is not None
        and there.proven
        and (there.site, there.cause) == (refusal.site, refusal.cause)
        and Kind.ARCH not in there.guard.kinds
    )


def _gets_past(other: Run, refusal: RaiseRecord) -> bool:
    """The very test that refuses here was passed there."""
    guards = [site for site in refusal.guard.sites if site.role == "guard"][-1:]
    return any(gate.passed and gate.site in guards for gate in other.machine.gates)


def _reached(other: Run, run: Run) -> bool:
    """The contrast got past that stage: refused later, or not at all."""
    if other.refused is None:
        return len(other.passages) >= len(run.passages)
    return len(other.passages) > len(run.passages)


def _only_here(cell: Cell, again: RunCell, others: list[str]) -> bool:
    return any(again(other, cell.arch).refused is None for other in others if other != cell.backend)
