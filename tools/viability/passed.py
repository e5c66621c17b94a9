"""Rows of cells that nothing refuses: which kernels the value led to, and whether it made a difference."""

from __future__ import annotations

from collections.abc import Callable

from memory.vocabulary import Because, Condition, HypothesisState, Row, Verdict
from tools.source.tree import SourceTree
from tools.viability.cell import AUTOMATIC, Cell, Judgement, RunCell
from tools.viability.compiled import CompiledCode
from tools.viability.evidence import evidence_at, first_gate
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Crossing, Fetch, RaiseRecord
from tools.viability.interpreter.values import Kind, Site
from tools.viability.runs import Run


def passed_row(
    cell: Cell,
    run: Run,
    again: RunCell,
    others: list[str],
    tree: SourceTree,
    code: CompiledCode,
    dedicated: Callable[[], bool],
) -> Judgement:
    """``dedicated`` tells whether architectures of every other generation are refused."""
    m = run.machine
    kernels = kernel_calls(run)
    chosen = [crossing for crossing in m.crossings if crossing.by_option]
    hops = list(dict.fromkeys((crossing.site, f"calls {crossing.name}") for crossing in chosen))
    shown = [crossing for crossing in chosen if crossing.readable] or chosen
    twins = [
        other
        for other in others
        if other != cell.backend and _same_way(run, again(other, cell.arch, run.layer), kernels)
    ]
    common = {
        "component": cell.component,
        "backend": cell.backend,
        "arch": cell.arch_name,
        "conditions": _conditions(run),
        "first_gate": first_gate(cell, run, again),
        "state": HypothesisState.PREDICTED,
        "evidence": tuple(evidence_at(tree, crossing.site, "call") for crossing in shown[:4]),
    }
    notes = _notes(run)
    if cell.backend in AUTOMATIC:
        common["runs_instead"] = _leads_to(cell, run, again, others)
    kept = [fetch for fetch in m.fetches if code.fetched.runs_on(fetch, cell.arch)]
    elsewhere = [fetch for fetch in m.fetches if fetch not in kept and not _beside(m, fetch)]
    why = _doubt(cell, run, chosen, elsewhere, code, dedicated)
    named = [twin for twin in twins if twin not in AUTOMATIC] if cell.backend not in AUTOMATIC else []
    meant = _meant(cell.backend, {twin: again(twin, cell.arch, run.layer).machine for twin in named}, m)
    if named and meant != cell.backend:
        told = f"the same code runs for {', '.join(sorted(twins))}: the value is not consulted"
        common["runs_instead"] = meant if meant in named else _main(kernels)
        verdict, because = (Verdict.UNKNOWN, None) if why else (Verdict.REROUTED, Because.OPTION)
        row = Row(**common, verdict=verdict, because=because)
        return Judgement(row, hops, [*([why] if why else []), told, *notes])
    # A compiled package whose version the code checks stands or falls with that check.
    given = tuple(f"{crossing.name}(" for crossing in chosen if crossing.fed)
    tests = [unknown.test[0] for _, unknown in m.conditional if unknown.test]
    covered = {fact.split(".", 1)[0] for fact in tests if not fact.startswith(given)}
    closed = [
        crossing
        for crossing in chosen
        if not crossing.readable and crossing.certain and crossing.name.split(".", 1)[0] not in covered
    ]
    closed = [crossing for crossing in closed if crossing.fed or not code.starts_nothing(crossing.name)]
    shared = _shared(cell, {crossing.name for crossing in closed}, again, others)
    closed = [crossing for crossing in closed if crossing.name not in shared]
    working = [crossing for crossing in closed if code.with_code(crossing.name, cell.arch)]
    closed = [crossing for crossing in closed if crossing not in working]
    if working:
        names = ", ".join(dict.fromkeys(crossing.name for crossing in working))
        notes.append(f"compiled code for {cell.arch_name} is there; checks within it were not read: {names}")
    if closed:
        names = ", ".join(dict.fromkeys(crossing.name for crossing in closed))
        why = f"runs compiled code that was not read: {names}"
    if why is not None:
        return Judgement(Row(**common, verdict=Verdict.UNKNOWN), hops, [why, *notes])
    for fetch in kept[:1]:
        held = ", ".join(fetch.targets) or f"what {code.fetched.kept(fetch)} belongs to"
        notes.append(f"runs kernels that are fetched; there are some for {cell.arch_name}: {held}")
    for fetch in elsewhere[:1]:
        # What is fetched for one generation alone, past gates that know it, is made for that generation.
        notes.append(
            f"{fetch.site.file}:{fetch.site.line} fetches kernels at run time; all other generations are "
            "refused before it, so they are taken to be there"
        )
    return Judgement(Row(**common, verdict=Verdict.NO_STATIC_OBSTACLE), hops, notes)


def _meant(backend: str, twins: dict[str, Machine], m: Machine) -> str | None:
    """By which of their names the engine calls what runs for all of them, as far as it asks for one: that
    which it finds whichever was given, else the one that was given."""
    always = [name for name in (backend, *twins) if all(name in o.matched for o in (m, *twins.values()))]
    if len(always) == 1:
        return always[0]
    return backend if backend in m.matched else None


def _doubt(
    cell: Cell,
    run: Run,
    chosen: list[Crossing],
    elsewhere: list[Fetch],
    code: CompiledCode,
    dedicated: Callable[[], bool],
) -> str | None:
    """Why it is not known whether what was ``chosen`` runs there, if so; ``elsewhere`` is what it fetches
    that is not known to be for the device."""
    m = run.machine
    if elsewhere and not dedicated():
        where = elsewhere[0].site
        held = code.fetched.kept(elsewhere[0]) or ", ".join(elsewhere[0].targets)
        return f"runs what {where.file}:{where.line} fetches at run time; " + (
            f"of the kernels that belong to {held} none is for {cell.arch_name}"
            if held
            else "for which architectures is not in the sources"
        )
    if run.cut is not None:
        return f"the way was not followed to its end: {run.cut}, for no reason that the scenario holds"
    if not any(crossing.works for crossing in chosen):
        return "no kernel call was reached: the way was not followed to its end"
    doubt = next((record for record in m.avoided if _is_serious(record)), None)
    if doubt is not None:
        return (
            f"may be refused at {doubt.site.file}:{doubt.site.line} ({doubt.exception}: {doubt.message}); "
            "what decides is not known"
        )
    if m.gifts:
        gift = m.gifts[0]
        return (
            f"may be refused at {gift.site.file}:{gift.site.line}, where not all devices come by "
            f"({gift.message}): what is handed on to there is not known"
        )
    return None


def _beside(m: Machine, fetch: Fetch) -> bool:
    """Whether a way beside the one that fetches runs kernels, and not data decides which is taken."""
    places = [other.place for other in m.fetches]
    for choice in m.choices:
        crossings = [side for side, _ in choice.sides]
        if choice.free or not any(fetch.place - 1 in side for side in crossings):
            continue
        for side in crossings:
            works = any(m.crossings[at].works and m.crossings[at].by_option for at in side)
            if works and not any(place - 1 in side for place in places):
                return True
    return False


def _is_serious(record: RaiseRecord) -> bool:
    """A name that nothing has bound here, or a refusal of the device to which all come who do not leave
    before, on the way that the option's value chose."""
    if not any(Kind.OPTION in condition.taint.kinds for condition in record.conditions):
        return False
    unknown = [one for one in record.conditions if Kind.UNKNOWN in one.taint.kinds]
    doubted = record.guard.kinds & {Kind.SOFT, Kind.UNKNOWN}
    of_device = Kind.ARCH in record.guard.kinds and not doubted
    return record.exception == NameError.__name__ or (of_device and not any(one.direct for one in unknown))


def _shared(cell: Cell, names: set[str], again: RunCell, others: list[str]) -> set[str]:
    """Of some compiled calls those that every value of the option makes: they tell no backend apart."""
    for other in others:
        if names and other != cell.backend:  # to run all values takes long, and seldom is anything left
            there = again(other, cell.arch)
            if there.refused is None and there.problem is None:
                names = names & {crossing.name for crossing in there.machine.crossings}
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
        and other.machine.selections == run.machine.selections
        and other.machine.steps == run.machine.steps
        and (run.layer is None or not run.layer.user or _places(run) == _places(other))
    )


def _places(run: Run) -> list[Site]:
    """Where the calls stand that the value leads to: classes in a table are chosen without a test."""
    return [crossing.site for crossing in run.machine.crossings if crossing.by_option]


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


def _conditions(run: Run) -> tuple[Condition, ...]:
    """Facts that a refusal on the way depends on and that the scenario leaves open."""
    found: dict[tuple[str, str, str], Condition] = {}
    called = {crossing.name.split(".", 1)[0] for crossing in run.machine.crossings if not crossing.readable}
    for record, unknown in run.machine.conditional:
        if unknown.test is None:
            continue
        fact, op, value = unknown.test
        root = fact.split(".", 1)[0].split("(", 1)[0]
        if root not in run.machine.facts.kernel_packages or not _plain(value) or "." not in fact:
            continue
        if any(Kind.UNKNOWN in c.taint.kinds for c in record.conditions) and root not in called:
            continue
        value = list(value) if isinstance(value, tuple) else value
        found[fact, op, repr(value)] = Condition(fact=fact, op=op, value=value)
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
