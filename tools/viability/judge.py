"""From runs to a row: what the refusals, the calls and the reads of a cell prove, and what they do not.

A refusal is believed only if the guard in front of it looks at a fact of the scenario and nothing on the
way is unknown, *and* a contrast shows that the fact makes the difference: the same place is passed on
another architecture (then the architecture is the cause) or with another value of the option. A place
that refuses everybody says nothing about the backend: there the analyser does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from memory.vocabulary import Because, Condition, Evidence, FirstGate, HypothesisState, Row, Verdict
from tools.source.tree import SourceTree
from tools.viability.drive import Run
from tools.viability.machine import RaiseRecord
from tools.viability.values import Kind, Site

BECAUSE = {
    Kind.ARCH: Because.ARCHITECTURE,
    Kind.QUANTISATION: Because.QUANTISATION,
    Kind.MODEL: Because.MODEL,
    Kind.VENDOR: Because.VENDOR,
    Kind.PARALLELISM: Because.PARALLELISM,
    Kind.DEPENDENCY: Because.DEPENDENCY,
    Kind.OPTION: Because.OPTION,
    Kind.VARIABLE: Because.OPTION,
}
CLAIMS = ("list", "declared", "compare", "guard")


@dataclass(frozen=True)
class Cell:
    """One question: a backend of a component on an architecture. ``arch`` is ``(major, minor)``."""

    component: str
    backend: str
    arch: tuple[int, int]

    @property
    def arch_name(self) -> str:
        return f"sm{self.arch[0]}{self.arch[1]}"


@dataclass
class Judgement:
    """A row and what explains it."""

    row: Row
    hops: list[tuple[Site, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


RunCell = Callable[[str, tuple[int, int]], Run]
"""Runs the same layer and scenario for another backend and architecture (remembered by the caller)."""


def judge(
    cell: Cell, run: Run, again: RunCell, others: list[str], archs: list[tuple[int, int]], tree: SourceTree
) -> Judgement:
    """The row of one cell.

    ``others`` are the option's other values, ``archs`` the architectures to contrast with.
    """
    if run.problem is not None:
        return _unknown(cell, f"the analyser gave up: {run.problem}")
    refusal = run.refused
    if refusal is not None:
        return _refused(cell, run, refusal, again, others, archs, tree)
    if not run.observed:
        return _unknown(
            cell, "the option was never seen being read on this way: the analyser does not fit here"
        )
    return _passed(cell, run, again, others, tree)


# -- refusals ---------------------------------------------------------------------------------------


def _refused(
    cell: Cell,
    run: Run,
    refusal: RaiseRecord,
    again: RunCell,
    others: list[str],
    archs: list[tuple[int, int]],
    tree: SourceTree,
) -> Judgement:
    text = f"{refusal.exception}: {refusal.message}" if refusal.message else refusal.exception
    if not refusal.proven:
        return _unknown(
            cell,
            f"may be refused at {refusal.site.file}:{refusal.site.line} ({text}), not proven",
            run,
            tree,
            again,
        )
    because = _cause(cell, run, refusal, again, others, archs)
    if because is None:
        return _unknown(
            cell,
            f"{refusal.site.file}:{refusal.site.line} refuses on every architecture and for every value "
            "of the option: the analyser does not fit here",
            run,
            tree,
            again,
        )
    if because is Because.DEPENDENCY and refusal.cause == "import":
        # Not in the environment and not among what the engine requires: another vendor's, or an extra.
        verdict = Verdict.NOT_APPLICABLE if _only_here(cell, refusal, again, others) else Verdict.UNKNOWN
        why = f"needs {refusal.message or 'a package'}, which the engine does not require on this platform"
        if verdict is Verdict.UNKNOWN:
            return _unknown(cell, why, run, tree, again)
        because = Because.VENDOR
    else:
        verdict = Verdict.BLOCKED
    if run.passages and run.passages[-1].stage == "start" and because is not Because.ARCHITECTURE:
        # What the engine does to options before this point (aliases, defaults) was not followed.
        return _unknown(cell, f"start-up does not know the value as it stands ({text})", run, tree, again)
    evidence, hops = _story(refusal, tree)
    row = Row(
        component=cell.component,
        backend=cell.backend,
        arch=cell.arch_name,
        verdict=verdict,
        because=because,
        first_gate=_first_gate(cell, run, again),
        state=HypothesisState.PREDICTED,
        evidence=evidence,
    )
    return Judgement(row, hops, [text])


def _cause(
    cell: Cell,
    run: Run,
    refusal: RaiseRecord,
    again: RunCell,
    others: list[str],
    archs: list[tuple[int, int]],
) -> Because | None:
    """Which fact makes the difference at the place of refusal, found by changing it."""

    def refused_there(other: Run) -> bool:
        there = other.refused
        return there is not None and (there.site.file, there.site.line) == (
            refusal.site.file,
            refusal.site.line,
        )

    def passes(other: Run) -> bool:
        return (
            other.problem is None
            and not refused_there(other)
            and (other.refused is None or other.refused.proven)
        )

    if Kind.ARCH in refusal.guard.kinds:
        for arch in archs:
            if arch == cell.arch:
                continue
            there = again(cell.backend, arch)
            if _gets_past(there, refusal) or (passes(there) and _reached(there, run)):
                return Because.ARCHITECTURE
    for other in others:
        if other != cell.backend and passes(again(other, cell.arch)):
            decisive = refusal.guard.kinds
            return (
                Because.QUANTISATION
                if Kind.QUANTISATION in decisive and Kind.OPTION not in decisive
                else (Because.DEPENDENCY if refusal.cause == "import" else Because.OPTION)
            )
    if Kind.ARCH in refusal.guard.kinds and Kind.OPTION not in refusal.guard.kinds:
        # Everything is refused on this architecture by the same gate; another must pass it.
        for arch in archs:
            if arch != cell.arch and passes(again(cell.backend, arch)):
                return Because.ARCHITECTURE
    return None


def _gets_past(other: Run, refusal: RaiseRecord) -> bool:
    """The very test that refuses here was passed there."""
    guards = [site for site in refusal.guard.sites if site.role == "guard"][-1:]
    return any(gate.passed and gate.site in guards for gate in other.machine.gates)


def _reached(other: Run, run: Run) -> bool:
    """The contrast got at least as far: it ended in a later stage, or in the same one without that refusal."""
    return len(other.passages) >= len(run.passages)


def _only_here(cell: Cell, refusal: RaiseRecord, again: RunCell, others: list[str]) -> bool:
    del refusal
    return any(again(other, cell.arch).refused is None for other in others if other != cell.backend)


# -- passes -----------------------------------------------------------------------------------------


def _passed(cell: Cell, run: Run, again: RunCell, others: list[str], tree: SourceTree) -> Judgement:
    m = run.machine
    kernels = kernel_calls(run)
    hops = [(crossing.site, f"calls {crossing.name}") for crossing in m.crossings if crossing.by_option]
    conditions = _conditions(run)
    evidence = (
        tuple(
            _evidence(tree, crossing.site, "call")
            for crossing in m.crossings
            if crossing.by_option and crossing.readable
        )[:4]
        or tuple(_evidence(tree, crossing.site, "call") for crossing in m.crossings if crossing.by_option)[:4]
    )
    twins = [
        other
        for other in others
        if other != cell.backend and _same_way(run, again(other, cell.arch), kernels)
    ]
    common = {
        "component": cell.component,
        "backend": cell.backend,
        "arch": cell.arch_name,
        "conditions": conditions,
        "first_gate": _first_gate(cell, run, again),
        "state": HypothesisState.PREDICTED,
        "evidence": evidence,
    }
    notes = _notes(run)
    if cell.backend in AUTOMATIC:
        common["runs_instead"] = _leads_to(cell, run, again, others)
    if len(twins) >= 1 and others and _not_default(cell, others, twins):
        row = Row(**common, verdict=Verdict.REROUTED, because=Because.OPTION, runs_instead=_main(kernels))
        return Judgement(
            row,
            hops,
            [f"the same code runs for {', '.join(sorted(twins))}: the value is not consulted", *notes],
        )
    # A compiled package whose version the code checks stands or falls with that check.
    covered = {unknown.test[0].split(".", 1)[0] for _, unknown in m.conditional if unknown.test}
    shared = _shared(cell, run, again, others)
    closed = [
        crossing
        for crossing in m.crossings
        if crossing.by_option
        and not crossing.readable
        and crossing.certain
        and crossing.name.split(".", 1)[0] not in covered
        and crossing.name not in shared
    ]
    if closed:
        names = ", ".join(dict.fromkeys(crossing.name for crossing in closed))
        row = Row(**common, verdict=Verdict.UNKNOWN)
        return Judgement(row, hops, [f"runs compiled code that was not read: {names}", *notes])
    if m.remote:
        where = m.remote[0]
        why = f"runs what {where.file}:{where.line} fetches at run time; for which architectures is not in the sources"
        return Judgement(Row(**common, verdict=Verdict.UNKNOWN), hops, [why, *notes])
    if not kernels:
        return Judgement(
            Row(**common, verdict=Verdict.UNKNOWN),
            hops,
            ["no kernel call was reached: the way was not followed to its end", *notes],
        )
    return Judgement(Row(**common, verdict=Verdict.NO_STATIC_OBSTACLE), hops, notes)


def _shared(cell: Cell, run: Run, again: RunCell, others: list[str]) -> set[str]:
    """Compiled calls that every value of the option makes: they do not tell one backend from another."""
    names = {crossing.name for crossing in run.machine.crossings if not crossing.readable}
    for other in others:
        there = again(other, cell.arch)
        if names and other != cell.backend and there.refused is None and there.problem is None:
            names &= {crossing.name for crossing in there.machine.crossings}
    return names if len(others) > 1 else set()


def kernel_calls(run: Run) -> tuple[str, ...]:
    """The library functions that the option's value leads to, in order, once each."""
    return tuple(dict.fromkeys(c.name for c in run.machine.crossings if c.by_option))


def signature(run: Run) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The same with what the calls were told of the option: two values with one signature run one code."""
    return tuple(dict.fromkeys((c.name, c.told) for c in run.machine.crossings if c.by_option))


def _main(kernels: tuple[str, ...]) -> str | None:
    """The call that does the work, told by the words of its name; else the last."""
    for words in ({"mm", "gemm", "bmm"}, {"moe", "attention", "fwd"}):
        for name in kernels:
            if words & set(name.rsplit(".", 1)[-1].split("_")):
                return name
    return kernels[-1] if kernels else None


def _same_way(run: Run, other: Run, kernels: tuple[str, ...]) -> bool:
    return (
        other.refused is None
        and other.problem is None
        and bool(kernels)
        and signature(other) == signature(run)
        and other.chosen == run.chosen
        and [s for s in other.machine.selections] == [s for s in run.machine.selections]
        and other.machine.steps == run.machine.steps
    )


def _leads_to(cell: Cell, run: Run, again: RunCell, others: list[str]) -> str | None:
    """The one named value whose way an automatic one takes, if exactly one does."""
    mine = signature(run)
    same = [
        other
        for other in others
        if other not in AUTOMATIC
        and again(other, cell.arch).refused is None
        and again(other, cell.arch).problem is None
        and signature(again(other, cell.arch)) == mine
        and again(other, cell.arch).chosen == run.chosen
    ]
    return same[0] if mine and len(same) == 1 else None


def _not_default(cell: Cell, others: list[str], twins: list[str]) -> bool:
    """``auto`` style values are allowed to share their way with what they resolve to: a value is told from
    its twins only if more than one *named* way is the same."""
    return cell.backend not in AUTOMATIC and bool([twin for twin in twins if twin not in AUTOMATIC])


AUTOMATIC = ("auto", "none", "default")


def _conditions(run: Run) -> tuple[Condition, ...]:
    """Facts that a refusal on the way depends on and that the scenario leaves open."""
    found: dict[tuple[str, str, str], Condition] = {}
    called = {crossing.name.split(".", 1)[0] for crossing in run.machine.crossings if not crossing.readable}
    for record, unknown in run.machine.conditional:
        if unknown.test is None:
            continue
        fact, op, value = unknown.test
        root = fact.split(".", 1)[0].split("(", 1)[0]
        facts = run.machine.facts
        if root not in facts.outside or root in facts.frameworks or not _plain(value) or "." not in fact:
            continue
        if any(Kind.UNKNOWN in c.taint.kinds for c in record.conditions) and root not in called:
            continue
        found[fact, op, repr(value)] = Condition(fact=fact, op=op, value=value)  # type: ignore[arg-type]
    return tuple(found.values())


def _plain(value: object) -> bool:
    return isinstance(value, (int, str, float)) or (
        isinstance(value, tuple) and all(_plain(v) for v in value)
    )


def _notes(run: Run) -> list[str]:
    m = run.machine
    notes = []
    if m.misfits:
        notes.append(f"{len(m.misfits)} places on the way could not be followed")
    return notes


# -- evidence ---------------------------------------------------------------------------------------


def _first_gate(cell: Cell, run: Run, again: RunCell) -> FirstGate | None:
    """The engine's own first test of the device that refuses somebody: here, or on a contrasting architecture."""
    root = run.machine.facts.profile.root + "/"
    for gate in run.machine.gates:
        if not gate.site.file.startswith(root) or Kind.ARCH not in gate.taint.kinds:
            continue
        if gate.passed and not any(_fails(again(cell.backend, arch), gate.site) for arch in GATE_CONTRASTS):
            continue
        verdict = Verdict.NO_STATIC_OBSTACLE if gate.passed else Verdict.BLOCKED
        return FirstGate(verdict=verdict, file=gate.site.file, line=gate.site.line)
    return None


GATE_CONTRASTS = ((8, 0), (10, 0))


def _fails(run: Run, site: Site) -> bool:
    return any(gate.site == site and not gate.passed for gate in run.machine.gates)


def _story(refusal: RaiseRecord, tree: SourceTree) -> tuple[tuple[Evidence, ...], list[tuple[Site, str]]]:
    """Evidence, the deciding line first, and the hops from the layer to the refusal."""
    sites = refusal.guard.sites
    deciding = [s for s in sites if s.role == "decides"] or [s for s in sites if s.role == "declared"]
    guard = [s for s in sites if s.role == "guard"][-1:]
    ordered = [*deciding[-1:], *guard, refusal.site]
    evidence: list[Evidence] = []
    for site in ordered:
        item = _evidence(tree, site, "refusal" if site is refusal.site else site.role)
        if not any((item.file, item.line) == (have.file, have.line) for have in evidence):
            evidence.append(item)
    hops = [(site, "calls") for site in refusal.stack]
    hops += [
        (site, {"decides": "the list it is tested against"}.get(site.role, site.role)) for site in ordered
    ]
    for site in refusal.stack:
        if len(evidence) < 6 and site.file != refusal.site.file:
            item = _evidence(tree, site, "call")
            if not any((item.file, item.line) == (have.file, have.line) for have in evidence):
                evidence.append(item)
    return tuple(evidence), hops


def _evidence(tree: SourceTree, site: Site, idiom: str) -> Evidence:
    end = min(max(site.end_line, site.line), site.line + 11, len(tree.lines(site.file)))
    return tree.evidence(site.file, site.line, end, idiom=idiom)


def _unknown(
    cell: Cell, why: str, run: Run | None = None, tree: SourceTree | None = None, again: RunCell | None = None
) -> Judgement:
    evidence: tuple[Evidence, ...] = ()
    first = None
    hops: list[tuple[Site, str]] = []
    if run is not None and tree is not None:
        first = _first_gate(cell, run, again) if again is not None else None
        if run.refused is not None:
            evidence = (_evidence(tree, run.refused.site, "refusal"),)
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
