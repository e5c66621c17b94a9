"""From rows to a launch command: which candidate of each component, why that one, and how it is written.

Order: what was measured; else what the engine itself would pick, if nothing blocks it; else the first
that the engine declares and the source lets through. Where the engine has no default and decides by
itself, it is left to it: a flag would be a guess in place of what the engine knows of the model. But where
it is known to take what is refused for this model, a flag is what makes it start. A
current report or finding that says ``nan`` or crash of the same component, backend and architecture puts
a candidate behind the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.ranking import ran
from agent.reasons import LEFT, refuted
from memory.vocabulary import Finding, FindingStatus, Level, Outcome, Recommendation, Row, Target, Verdict
from tools.engines.adapter import Launch
from tools.engines.options import Option

_CLOSED = {Verdict.BLOCKED, Verdict.NOT_APPLICABLE}

PLACEHOLDER = "MODEL_PATH"
"""Stands for the model where the person gave no path or repository: never invented."""

_DEMOTING = {Outcome.NAN, Outcome.WRONG, Outcome.CRASHED, Outcome.HUNG, Outcome.STRESS_FAILED}


@dataclass(frozen=True)
class Choice:
    """The candidate of one component."""

    option: Option
    row: Row
    why: str
    others: tuple[Row, ...]
    left: str | None = None
    """Why the choice is the engine's, where nothing was measured: no flag then, whatever ``row`` is."""


def choose(
    option: Option,
    rows: Sequence[Row],
    known: Sequence[Finding],
    preferred: str | None = None,
    taken: str | None = None,
    because: str | None = None,
) -> Choice | None:
    """The best candidate among ``rows`` of one component, None if there is none. ``preferred``: the backend
    that the driver has reasons for, ``because`` of them; ``taken``: what the engine takes for the model where
    no flag is given."""
    against = demotions(rows, known)
    closed = {row.backend for row in rows if refuted(row) or row.verdict in _CLOSED}
    rows = [row for row in rows if not refuted(row) or row.backend == preferred]
    candidates = [row for row in rows if row.verdict is Verdict.NO_STATIC_OBSTACLE]
    if named := next((row for row in rows if row.backend == preferred), None):
        others = tuple(one for one in candidates if one is not named)
        why = because or "the driver's choice, see its account"
        if named.backend in against:
            why = f"{why}; but {against[named.backend]}"
        return Choice(option, named, why, others)
    measured = [row for row in rows if served(row)]
    measured += [row for row in candidates if ran(row) and row not in measured]
    picked = engines_own(option, rows)
    ranked = [(row, "measured" if served(row) else "its kernels ran right") for row in measured]
    if picked is not None:
        ranked.append(picked)
    refused = option.default is None and taken in closed
    first = "first declared that no gate refuses"
    if refused:
        first += f"; left alone the engine takes {taken}, which is refused"
    ranked += [(row, first) for row in candidates]
    ranked.sort(key=lambda pair: pair[0].backend in against)  # stable: the order above holds within each half
    if not ranked:
        return None
    row, why = ranked[0]
    if row.backend in against:
        why = f"{why}; but {against[row.backend]}"
    others = tuple(one for one in candidates if row.backend not in {one.backend, one.runs_instead})
    left = None if served(row) or refused else _engines_choice(option, taken)
    return Choice(option, row, why, others, left)


def served(row: Row) -> bool:
    """Whether an engine ran it and was right."""
    return ran(row) and row.observed is not None and row.observed.level not in (Level.IMPORTED, Level.PROBE)


def _engines_choice(option: Option, taken: str | None) -> str | None:
    """Why no value is better than any: the engine decides."""
    if option.default is not None:
        return None
    what = f"for this model it takes {taken}" if taken is not None else "it decides by itself"
    return f"{option.flag} has no default, {what}"


def engines_own(option: Option, rows: Sequence[Row]) -> tuple[Row, str] | None:
    """What the engine picks when the option is left alone, if the source lets that through."""
    by_name = {row.backend: row for row in rows}
    default = by_name.get(str(option.default))
    if default is None:
        return None
    picked = by_name.get(default.runs_instead or "")
    if picked is not None and picked.verdict is Verdict.NO_STATIC_OBSTACLE:
        return picked, f"what the engine's default ({default.backend}) leads to"
    if default.verdict is Verdict.NO_STATIC_OBSTACLE:
        return default, "the engine's default"
    if default.verdict is Verdict.REROUTED and default.runs_instead not in by_name:
        runs = default.runs_instead or "other code"
        return default, f"the engine's default; it runs {runs}, which no value names"
    return None


def demotions(rows: Sequence[Row], known: Sequence[Finding]) -> dict[str, str]:
    """Backend → what speaks against it although the source lets it through, with the finding's id."""
    against: dict[str, str] = {}
    for row in rows:
        for finding in known:
            claim = finding.claim
            same = (claim.component, claim.backend, claim.arch) == (row.component, row.backend, row.arch)
            if same and finding.status is FindingStatus.CURRENT and claim.outcome in _DEMOTING:
                tested = " ".join(f"{name} {version}" for name, version in claim.packages.items())
                where = f"agent findings show {finding.id[:12]}"
                if claim.report is not None and claim.report.url is not None:
                    where = f"{claim.report.url}, {where}"
                against.setdefault(
                    row.backend,
                    f"{claim.outcome} was seen with {tested or 'another version'} ({claim.level}, {where})",
                )
    return against


def recommend(
    target: Target,
    launch: Launch,
    choices: Sequence[Choice],
    known: Sequence[Finding],
    undecided: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    right: Sequence[Mapping[str, str]] = (),
) -> Recommendation | None:
    """The command for ``choices``; None where there are none, and nothing was right without any.

    ``undecided``: components of which reading knows no candidate; the engine chooses there. ``settings``:
    flags of the scenario, under which alone the choices are candidates. ``right``: the backends of each
    server that was right; what was never launched together is not tested.
    """
    if not choices and {} not in right:
        return None
    rows = [row for choice in choices for row in (choice.row, *choice.others)]
    notes = [_note(choice) for choice in choices]
    notes += [
        f"{name}: {LEFT}; reading finds no candidate and does not refuse them all" for name in undecided
    ]
    notes += [
        f"behind the others: {backend}, {why}"
        for backend, why in demotions(rows, known).items()
        if all(choice.row.backend != backend for choice in choices)
    ]
    return Recommendation(
        command=command(
            target,
            launch,
            {
                **(settings or {}),
                **{c.option.flag: c.row.backend for c in choices if c.option.flag and c.left is None},
            },
        ),
        tested={c.option.component: c.row.backend for c in choices if c.option.flag and c.left is None}
        in right,
        ranked_by=tuple(notes),
        alternatives=tuple(
            f"{choice.option.component}: {row.backend}"
            for choice in choices
            for row in ((choice.row, *choice.others) if choice.left is not None else choice.others)
        ),
    )


def _note(choice: Choice) -> str:
    name = choice.option.component
    if choice.left is not None:
        return f"{name}: {LEFT}; {choice.left}"
    return f"{name}: {choice.row.backend}, {choice.why}"


def command(target: Target, launch: Launch, flags: Mapping[str, str]) -> str:
    """A launch command, quoted for a shell. Only what was given or chosen is in it."""
    parts = list(launch.command)
    # A repository or a path can be served; a name such as "qwen3.5" cannot.
    model = target.model if target.model and "/" in target.model and " " not in target.model else PLACEHOLDER
    parts += [launch.model, model] if launch.model else [model]
    for flag, value in flags.items():
        parts += [flag, value]
    if target.gpu_count is not None:
        parts += [launch.tensor_parallel, str(target.gpu_count)]
    return shlex.join(parts)
