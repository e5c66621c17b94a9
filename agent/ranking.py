"""Which rows of an answer matter most: what is chosen, what must not be tried, what else could be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agent.reasons import refuted, told
from memory.terms import Because, Level, Outcome, Verdict

if TYPE_CHECKING:
    from memory.vocabulary import Answer, Row


def surprising(row: Row) -> bool:
    """The first gate lets it through and a deeper one does not: what a person would try and must not."""
    return (
        row.verdict == Verdict.BLOCKED
        and row.first_gate is not None
        and row.first_gate.verdict == Verdict.NO_STATIC_OBSTACLE
    )


def is_recommended(answer: Answer, row: Row) -> bool:
    if answer.recommendation is None:
        return False
    return any(
        note.startswith(f"{row.component}: {row.backend},") for note in answer.recommendation.ranked_by
    )


def trust(answer: Answer) -> str:
    """How far the recommended command can be trusted, in a few words."""
    assert answer.recommendation is not None, "nothing is recommended"
    if answer.recommendation.tested:
        return "Tested"
    chosen = [row for row in answer.backends if is_recommended(answer, row)]
    return "Candidate, only kernels ran" if chosen and all(map(ran, chosen)) else "Candidate, untested"


def ran(row: Row) -> bool:
    """Whether it ran and was right, on whatever level; what was only compiled did not run."""
    seen = row.observed
    return seen is not None and seen.outcome == Outcome.OK and seen.level != Level.COMPILE


def matter(answer: Answer) -> list[list[Row]]:
    """The rows that matter, most important first; components take turns. Backends of which the same lines
    say the same stand together.

    First the candidates chosen; then what a person would try and must not: the first gate lets it through
    and the GPU is refused deeper down; then the other candidates; then what another option refuses deeper
    down; then what is left.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in answer.backends:
        place = rank(answer, row)
        if place < UNREMARKABLE:
            groups.setdefault((place, *_says(row), row.backend if place == CHOSEN else ""), []).append(row)
    joined = _joined(answer, list(groups.values()))
    # Of many refusals of one kind the one that stops most backends comes first, the rest with the refused.
    turn: Counter[tuple[int, str]] = Counter()
    ranked = []
    for group in sorted(joined, key=lambda group: -len(group) if surprising(group[0]) else 0):
        place, component = rank(answer, group[0]), group[0].component
        turn[place, component] += 1
        if place == OPTION_TRAP and turn[place, component] > 1:
            place = REFUSED
        ranked.append((place, turn[place, component], component_at(answer, group[0]), group))
    ranked.sort(key=lambda item: item[:3])
    return [group for *_, group in ranked]


def _joined(answer: Answer, groups: list[list[Row]]) -> list[list[Row]]:
    """The groups, where a value that only leads to the one chosen stands with it: it is the same choice."""
    chosen = {(one[0].component, one[0].backend): one for one in groups if is_recommended(answer, one[0])}
    kept = []
    for group in groups:
        goal = chosen.get((group[0].component, group[0].runs_instead or ""))
        if goal is None:
            kept.append(group)
        else:
            goal += group
    return kept


def _says(row: Row) -> tuple[object, ...]:
    lines = tuple((one.file, one.line) for one in row.evidence)
    facts = tuple((one.fact, one.op, repr(one.value)) for one in row.conditions)
    return row.component, row.verdict, row.because, row.runs_instead, facts, lines, told(row)


CHOSEN, GPU_TRAP, CANDIDATE, OPTION_TRAP, LEADING, REROUTED, REFUSED, UNREMARKABLE = range(8)


def rank(answer: Answer, row: Row) -> int:
    """How much a row matters, the less the more."""
    if is_recommended(answer, row):
        return CHOSEN
    if refuted(row):
        return GPU_TRAP  # reading let it through
    if surprising(row):
        return GPU_TRAP if row.because == Because.ARCHITECTURE else OPTION_TRAP
    if row.verdict == Verdict.UNKNOWN and ran(row):
        return CANDIDATE  # whatever reading would say
    if row.verdict == Verdict.NO_STATIC_OBSTACLE:
        # One that only leads to another is not a choice of its own.
        return CANDIDATE if row.runs_instead is None else LEADING
    return {Verdict.REROUTED: REROUTED, Verdict.BLOCKED: REFUSED}.get(row.verdict, UNREMARKABLE)


def components(answer: Answer) -> list[str]:
    return list(dict.fromkeys(row.component for row in answer.backends))


def component_at(answer: Answer, row: Row) -> int:
    return components(answer).index(row.component)
