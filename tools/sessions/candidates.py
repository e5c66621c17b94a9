"""What a session shows of backends: outcomes and figures, each with the event and the words that say it.

A candidate is somebody's account, whatever it says. What the session does not say (the architecture, a
version, which backend ran) stays unknown: nothing is filled in from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from memory.signatures import CLASSES, Match
from memory.terms import CallKind, Outcome
from tools.benchmark import Run, benchmark_runs
from tools.logs import Reading, Traceback, read_log
from tools.sessions.acts import Act, words
from tools.sessions.attempts import Attempt, Attempts


class Said(BaseModel):
    """Where the session says a part of a candidate."""

    model_config = ConfigDict(frozen=True)

    what: str
    value: str
    event: int
    excerpt: str


class MeasuredFigure(BaseModel):
    model_config = ConfigDict(frozen=True)

    metric: str
    value: float
    unit: str
    event: int
    line: int
    json_pointer: str | None
    excerpt: str


class Cell(BaseModel):
    model_config = ConfigDict(frozen=True)

    component: str
    backend: str


class Candidate(BaseModel):
    """What might become a finding of level ``report``. ``None`` and what is in ``unknown``: not said."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["outcome", "figures"]
    event: int
    """That holds the words."""
    excerpt: str
    outcome: Outcome
    signature: str | None = None
    because: str | None = None
    """The kind of cause, in words."""
    advice: str | None = None
    cells: tuple[Cell, ...] = ()
    """Which backends it is about. Of an outcome at most one."""
    arch: str | None = None
    engine: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    scenario: dict[str, str] = Field(default_factory=dict)
    figures: tuple[MeasuredFigure, ...] = ()
    settings: dict[str, str] = Field(default_factory=dict)
    said: tuple[Said, ...] = ()
    """Where launch, architecture and versions are said."""
    again: tuple[int, ...] = ()
    """Later events that show the same."""
    failed: int | None = None
    """Of figures: the event that shows how the same launch failed, later or before."""
    unknown: tuple[str, ...] = ()


def candidates(acts: Iterable[Act]) -> list[Candidate]:
    """The candidates of a session whose acts are given in order."""
    attempts = Attempts()
    found: dict[tuple[str, int | None, str], Candidate] = {}
    for act in acts:
        attempts.add(act)
        for candidate, launch in (*_outcomes(act, attempts), *_figures(act, attempts)):
            key = (candidate.kind, launch, candidate.signature or f"{candidate.event}:{candidate.excerpt}")
            if (known := found.get(key)) is not None:
                found[key] = known.model_copy(update={"again": (*known.again, candidate.event)})
            else:
                found[key] = candidate
    failed: dict[int | None, int] = {}
    for (kind, launch, _), one in found.items():
        if kind == "outcome" and one.outcome is not Outcome.SUBSTITUTED:
            failed.setdefault(launch, one.event)
    return [
        one.model_copy(update={"failed": failed[launch]})
        if kind == "figures" and launch is not None and launch in failed
        else one
        for (kind, launch, _), one in found.items()
    ]


def _outcomes(act: Act, attempts: Attempts) -> Iterator[tuple[Candidate, int | None]]:
    """How something ended, as a log or a failing command shows it."""
    attempt = attempts.current(act)
    started = act.steps(CallKind.LAUNCH_SERVER, CallKind.RUN_BENCHMARK)
    if not act.output or not (act.shows_a_log or started or act.call.command is not None):
        return
    if (
        act.kind in {CallKind.READ_SOURCE, CallKind.SEARCH_SOURCE, CallKind.LIST_SOURCE}
        and not act.shows_a_log
    ):
        return
    reading = read_log(BytesIO(act.output.encode("utf-8", "replace")))
    if not (act.shows_a_log or started):
        # Any other command may print somebody's words: only its own failure counts.
        attempt = None
        if reading.first is None or not reading.cause:
            return
    for match in _telling(reading, attempt):
        launch = None if attempt is None else attempt.act.event
        yield _outcome(act, match, attempt, match.component or raised_in(match, reading.first)), launch


def raised_in(match: Match, first: Traceback | None) -> str | None:
    """The component in whose source a refusal was raised, by the innermost frame that says so."""
    if (
        first is None
        or not first.line <= match.line <= first.end
        or match.signature.kind not in words()["raised"]
    ):
        return None
    for frame in reversed(first.frames):
        for component, file, function in words()["frames"]:
            if function.search(frame.function) or file.search(frame.file):
                return str(component)
    return None


def _telling(reading: Reading, attempt: Attempt | None) -> Iterator[Match]:
    if reading.cause is not None:
        yield reading.cause
    choices = {} if attempt is None else attempt.choices
    for match in reading.matches:
        if match.signature.outcome is Outcome.SUBSTITUTED:
            asked = choices.get(match.component or "")
            # Only what differs from what was asked for was put in its place.
            if asked and match.backend and asked.lower() != match.backend.lower():
                yield match


def _outcome(act: Act, match: Match, attempt: Attempt | None, component: str | None) -> Candidate:
    choices = {} if attempt is None else attempt.choices
    asked = choices.get(component) if component else None
    backend = asked or match.backend
    cells = (Cell(component=component, backend=backend),) if component and backend else ()
    context = _Context(attempt, match.arch, act.said, match.words)
    return Candidate(
        kind="outcome",
        event=act.said,
        excerpt=match.words,
        outcome=match.signature.outcome,
        signature=match.signature.id,
        because=CLASSES[match.signature.kind],
        advice=match.signature.advice,
        cells=cells,
        **context.fields(cells, choices if not cells else {}),
    )


def _figures(act: Act, attempts: Attempts) -> Iterator[tuple[Candidate, int | None]]:
    """What a benchmark measured, where it ran or where its file was read."""
    measured = act.steps(CallKind.RUN_BENCHMARK)
    if not act.output or not (measured or act.kind is CallKind.READ_SOURCE or act.shows_a_log):
        return
    attempt = attempts.of_benchmark(act) if measured else None
    for run in benchmark_runs(act.plain):
        first = run.figures[0]
        cells = () if attempt is None else _cells(attempt)
        context = _Context(attempt, None, act.said, "")
        yield (
            Candidate(
                kind="figures",
                event=act.said,
                excerpt=first.excerpt,
                outcome=Outcome.OK,
                cells=cells,
                figures=tuple(_measured(run, act.said)),
                settings=run.settings,
                **context.fields(cells, {}),
            ),
            None if attempt is None else attempt.act.event,
        )


def _cells(attempt: Attempt) -> tuple[Cell, ...]:
    return tuple(Cell(component=name, backend=backend) for name, backend in attempt.choices.items())


def _measured(run: Run, event: int) -> Iterator[MeasuredFigure]:
    for figure in run.figures:
        yield MeasuredFigure(
            metric=figure.metric,
            value=figure.value,
            unit=figure.unit,
            event=event,
            line=figure.line,
            json_pointer=figure.pointer,
            excerpt=figure.excerpt,
        )


class _Context:
    """What is known around a candidate, and where it is said."""

    def __init__(self, attempt: Attempt | None, arch: str | None, event: int, words: str) -> None:
        self._attempt = attempt
        self._arch = arch
        self._event = event
        self._words = words

    def fields(self, cells: tuple[Cell, ...], choices: dict[str, str]) -> dict[str, object]:
        """``choices``: the backends that were asked for, where it is not said which of them it is about."""
        attempt = self._attempt
        said = list(self._said(cells))
        named = ", ".join(f"{component} {backend}" for component, backend in choices.items())
        unknown = [] if cells else [f"which of {named}" if named else "backend"]
        arch = self._arch or (attempt.arch.value if attempt and attempt.arch else None)
        unknown += [] if arch else ["architecture"]
        engine = attempt.engine if attempt else None
        versions = attempt.versions if attempt else {}
        if engine is None:
            unknown.append("engine")
        elif engine not in versions:
            unknown.append(f"version of {engine}")
        return {
            "arch": arch,
            "engine": engine,
            "packages": {name: fact.value for name, fact in sorted(versions.items())},
            "scenario": attempt.scenario if attempt else {},
            "said": tuple(said),
            "unknown": tuple(unknown),
        }

    def _said(self, cells: tuple[Cell, ...]) -> Iterator[Said]:
        attempt = self._attempt
        if self._arch:
            yield Said(what="architecture", value=self._arch, event=self._event, excerpt=self._words)
        if attempt is None:
            return
        command = attempt.act.call.command or ""
        for cell in cells:
            if cell.backend in command:
                yield Said(
                    what=cell.component, value=cell.backend, event=attempt.act.event, excerpt=cell.backend
                )
        if attempt.arch and not self._arch:
            fact = attempt.arch
            yield Said(what="architecture", value=fact.value, event=fact.event, excerpt=fact.excerpt)
        for name, fact in sorted(attempt.versions.items()):
            yield Said(what=name, value=fact.value, event=fact.event, excerpt=fact.excerpt)
