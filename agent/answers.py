"""The end of an investigation: the answer, its exit code, and what has not been tested."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import or_

from agent.best import Best
from agent.ranking import trust
from agent.reasons import LEFT, NAMES, refuted
from agent.recommend import choose, recommend
from agent.relevance import surely
from agent.trials import named
from memory.vocabulary import (
    Answer,
    Because,
    EnvironmentSummary,
    Finding,
    Level,
    NotRun,
    Recommendation,
    Row,
    Verdict,
)
from tools.engines.adapter import Launch
from tools.engines.options import Option
from transcripts.events import Concluded, Opened, Understood


def conclusion(
    *,
    opened: Opened,
    understood: Understood,
    environment: str,
    fingerprint: str | None,
    options: Sequence[Option],
    rows: Sequence[Row],
    known: Sequence[Finding],
    launch: Launch,
    under: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    preferred: Mapping[str, str] | None = None,
    taken: Mapping[str, str] | None = None,
    because: str | None = None,
    measured: Best | None = None,
    right: Sequence[Mapping[str, str]] = (),
    kernels: Sequence[NotRun] = (),
    halted: tuple[str, int, str] | None = None,
) -> Concluded:
    """The last event. ``under``: facts that all rows were judged under, to be printed with them.
    ``settings``: flags that the person's scenario amounts to. ``preferred``: component → the backend that the
    driver chose, ``because`` of what; ``measured``: how launches of it and of others compare; ``taken``: the
    one that the engine takes for the model where nobody chooses. ``right``: the backends of each server that
    was right. ``kernels``: what has not run. ``halted``: how it ends where something that was asked for could
    not be run (reason, exit code, words).

    Exit code 0: each component that is reached and decided has a candidate · 1: one has none left ·
    4: nothing could be decided.
    """
    by_component = {option.component: _of(rows, option.component) for option in options}
    wanted, own = preferred or {}, taken or {}
    found = (
        choose(option, by_component[name], known, wanted.get(name), own.get(name), because)
        for name, option in ((option.component, option) for option in options)
    )
    choices = [choice for choice in found if choice is not None]
    if right:  # of what was launched, nothing else is said than what was launched
        choices = [
            one if one.option.component in wanted else replace(one, left="as it was launched, and was right")
            for one in choices
        ]
    chosen = {choice.option.component for choice in choices}
    target = understood.target
    hopeless = [
        name
        for name, mine in by_component.items()
        if name not in chosen and surely(name, target.quantisation) and _every_way_is_closed(mine)
    ]
    undecided = [
        name
        for name, mine in by_component.items()
        if name not in chosen and any(row.verdict is Verdict.UNKNOWN and not refuted(row) for row in mine)
    ]
    served = opened.options.get("serve")
    launches = understood.target.model_copy(update={"model": str(served)}) if served else understood.target
    recommendation = (
        None if hopeless else recommend(launches, launch, choices, known, undecided, settings, right)
    )
    if recommendation is not None and measured is not None:
        recommendation = recommendation.model_copy(
            update={
                "ranked_by": (*_as_launched(measured), *recommendation.ranked_by, *measured.loads),
                "alternatives": (*measured.others, *recommendation.alternatives),
            }
        )
    if under:
        said = ", ".join(f"{key}={value}" for key, value in under.items())
        target = target.model_copy(update={"assumed": (*target.assumed, f"judged under {said}")})
    answer = Answer(
        investigation=opened.investigation,
        target=target,
        environment=EnvironmentSummary(
            packages=understood.packages, name=environment or None, fingerprint=fingerprint
        ),
        backends=tuple(rows),
        recommendation=recommendation,
        not_run=tuple(_not_run(understood, recommendation, rows, undecided, kernels, opened.investigation)),
        transcript=opened.investigation,
    )
    if halted is not None:
        reason, code, why = halted
        return Concluded(exit_reason=reason, exit_code=code, summary=why, answer=answer)
    if hopeless:
        lacking = f"every backend of {', '.join(hopeless)} is refused on {understood.target.arch}"
        return Concluded(exit_reason="none_viable", exit_code=1, summary=lacking, answer=answer)
    if recommendation is None:
        what = ", ".join(undecided) or understood.target.engine
        return Concluded(
            exit_reason="stopped",
            exit_code=4,
            summary=f"the source that was read decides nothing for {what}",
            answer=answer,
        )
    said = ", ".join(
        f"{choice.option.component} {choice.row.backend if choice.left is None else LEFT}"
        for choice in choices
    )
    return Concluded(
        exit_reason="answered",
        exit_code=0,
        summary=f"{trust(answer).lower()}: {said or named({})}",
        answer=answer,
    )


def _as_launched(measured: Best) -> tuple[str, ...]:
    """Why it is recommended that nothing is chosen, where that was launched."""
    return () if measured.ran.pairs else (f"{named({})}: {measured.because}",)


def _of(rows: Sequence[Row], component: str) -> list[Row]:
    return [row for row in rows if row.component == component]


def _every_way_is_closed(rows: Sequence[Row]) -> bool:
    """Something was refused and nothing is left. A component that no scenario reaches is not closed."""
    closed = [row.verdict is Verdict.BLOCKED or refuted(row) for row in rows]
    others = (row.verdict is Verdict.NOT_APPLICABLE for row in rows)
    return any(closed) and all(map(or_, closed, others))


def _worth_explaining(row: Row) -> int:
    """First what the first gate lets through and is refused further down, and of those for the GPU."""
    passes = row.first_gate is not None and row.first_gate.verdict is Verdict.NO_STATIC_OBSTACLE
    return 3 - 2 * passes - (row.because is Because.ARCHITECTURE)


def _not_run(
    understood: Understood,
    recommendation: Recommendation | None,
    rows: Sequence[Row],
    undecided: Sequence[str],
    kernels: Sequence[NotRun],
    transcript: str,
) -> list[NotRun]:
    steps = []
    if undecided:
        steps.append(NotRun(level=Level.STATIC, what=f"undecided by reading: {', '.join(undecided)}"))
    refused = [row for row in rows if row.verdict is Verdict.BLOCKED]
    for row in sorted(refused, key=_worth_explaining)[:1]:
        explain = ["agent", "explain", row.component, row.backend, "--transcript", transcript]
        steps.append(
            NotRun(
                level=Level.STATIC,
                what=f"why {row.backend} is {NAMES[row.verdict]}, hop by hop",
                command=shlex.join(explain),
            )
        )
    steps += kernels
    if recommendation is not None and not recommendation.tested:
        steps.append(
            NotRun(
                level=Level.SERVER,
                what="no server started, no answer checked",
                command=recommendation.command,
            )
        )
    return steps
