"""The driver that launches one server after the other, spares what shares a cause, and keeps what it saw.

``options`` of its transcript: ``trial``, the input of ``try_server``; ``trials``, for each launch the
backends by component; ``repeat``, how often each.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from agent.best import Best, answers, best, right, sides
from agent.board import Board
from agent.loop import Call, Decision
from agent.probing import SERVERS
from agent.served import claims
from agent.trials import SILENT, Pairs, Ran, doubted, named, seen, settings_of, spared
from memory.clock import hypothesis_id
from memory.vocabulary import (
    Answer,
    EnvironmentSummary,
    HypothesisState,
    Level,
    NotRun,
    Observed,
    Recommendation,
    Row,
    Target,
    Verdict,
)
from tools.benchmark.comparing import winners
from transcripts.events import Concluded, HypothesisChanged, Noted

TOOL = "try_server"
CPU = "cpu"
"""In place of an architecture, where no GPU took part."""


class Trier:
    name = "trier"

    def decide(self, board: Board) -> Decision:
        assert board.opened is not None, "a transcript begins with it"
        options = board.opened.options
        ran = launches(board)
        base = options["trial"]["settings"]
        done = [_asked(called.input) for called, _ in board.results(TOOL)]
        left = [
            (pairs, launch)
            for pairs, launch in trials(board)
            if (settings_of(base, pairs), launch) not in done
        ]
        for pairs, launch in sorted(left, key=lambda one: doubted(one[0], ran)):
            if why := spared(pairs, ran):
                text = f"not launched with {named(pairs)}: {why}"
                if not board.noted(text):
                    return Decision(changes=[Noted(text=text)])
                continue
            given = _input(options["trial"], pairs, launch, ran)
            return Decision(calls=[Call(TOOL, given, f"what comes of {named(pairs)}")])
        if changes := [one for one in _changes(board, ran) if one.id not in board.hypotheses]:
            return Decision(changes=[*changes])
        found = [
            one
            for one in claims(board, ran, options["trial"], options.get("packages", {}))
            if not board.answered(one.tool, one.input)
        ]
        if found:
            return Decision(calls=found)
        return Decision(conclude=_conclusion(board, ran))


def trials(board: Board) -> list[tuple[Pairs, int]]:
    """The backends of each launch, and which one it is of those with the same."""
    assert board.opened is not None
    options = board.opened.options
    base = options["trial"]["settings"].get("backends", {})
    repeats = range(1, int(options.get("repeat", 1)) + 1)
    return [({**base, **pairs}, launch) for launch in repeats for pairs in options["trials"]]


def launches(board: Board) -> list[Ran]:
    """Those that came to an end, in order; what could not even be tried is none."""
    assert board.opened is not None
    base = board.opened.options["trial"]["settings"]
    order = [(settings_of(base, pairs), launch, pairs) for pairs, launch in trials(board)]
    found = []
    for called, _ in board.results(TOOL):
        output = board.output(called.call)
        if isinstance(output, dict):
            mine = _asked(called.input)
            number = next(place for place, (*one, _) in enumerate(order) if tuple(one) == mine)
            found.append(Ran(called.call, number, order[number][2], output))
    return found


def _asked(given: Mapping[str, Any]) -> tuple[Any, int]:
    """The settings of a call, and which launch of them it is."""
    return given["settings"], int(given.get("launch", 1))


def _input(trial: dict[str, Any], pairs: Pairs, launch: int, before: list[Ran]) -> dict[str, Any]:
    """What a launch is asked. Its answers are compared with those of the first that was right."""
    settings = settings_of(trial["settings"], pairs)
    runs = [(one.output.get("checked") or {}).get("run") for one in before if one.ok]
    reference = {"reference_run": run} if (run := next(filter(None, runs), None)) else {}
    return {**trial, "settings": settings, "launch": launch, **reference}


def _changes(board: Board, ran: list[Ran]) -> Iterator[HypothesisChanged]:
    for component, backend, one in seen(ran):
        arch = one.output.get("arch")
        if arch is None:
            continue  # what ran on the CPU says nothing of an architecture
        state = HypothesisState.CONFIRMED if one.ok else HypothesisState.REFUTED
        observed = Observed(level=Level(one.output["level"]), outcome=one.outcome, experiment=one.call)
        subject = {"component": component, "backend": backend, "arch": arch}
        row = Row(**subject, verdict=Verdict.UNKNOWN, observed=observed, state=state)
        yield HypothesisChanged(
            id=hypothesis_id(component, backend, arch), **subject, state=state, because=one.output["because"],
            row=row, causes=(board.calls.seq(one.call),),
        )  # fmt: skip


def _words(one: Ran, trial: Mapping[str, Any]) -> str:
    """How a launch went, in a word; what was to be measured and was not is said."""
    said = one.outcome.value.replace("_", " ")
    unmeasured = one.ok and trial.get("loads") and one.output["level"] != Level.BENCHMARK
    return f"{said}, not measured" if unmeasured else said


def _conclusion(board: Board, ran: list[Ran]) -> Concluded:
    assert board.opened is not None
    options = board.opened.options
    tried = board.results(TOOL)
    if not ran:
        why = str(tried[-1][1].error) if tried else "there was nothing to try"
        if tried and tried[-1][1].status == "denied":
            return Concluded(exit_reason="stopped", exit_code=4, summary=f"{why}; give --run {SERVERS}")
        missing = (
            isinstance(tried[-1][1].output, dict) and bool(tried[-1][1].output.get("missing"))
            if tried
            else True
        )
        return Concluded(exit_reason="missing", exit_code=3 if missing else 2, summary=why)
    told = "; ".join(f"{named(one.pairs)}: {_words(one, options['trial'])}" for one in ran)
    measured = sides(right(ran))
    for one in winners(measured) if len(measured) > 1 else ():
        told += f"; c={one.key.concurrency}: {one.best} first, {one.says}"
    if all(one.outcome in SILENT for one in ran):
        return Concluded(exit_reason="stopped", exit_code=4, summary=told)
    chosen = best(ran)
    answer = _answer(board, ran, chosen)
    if chosen is None:
        return Concluded(exit_reason="none_viable", exit_code=1, summary=told, answer=answer)
    good = [one for one in ran if one.ok]
    summary = f"{len(good)} of {len(ran)} launches went well ({answers(good)}): {told}"
    return Concluded(exit_reason="answered", exit_code=0, summary=summary, answer=answer)


def _answer(board: Board, ran: list[Ran], chosen: Best | None) -> Answer | None:
    """None for a shrunk model: what starts with made-up weights is not what is asked for in the end."""
    assert board.opened is not None
    options = board.opened.options
    trial, first = options["trial"], ran[0].output
    if trial.get("layers"):
        return None
    left = {named(pairs): pairs for pairs, _ in trials(board)}
    for one in ran:
        left.pop(named(one.pairs), None)
    return Answer(
        investigation=board.opened.investigation,
        target=Target(
            question=board.opened.question, model=str(trial["settings"]["model"]),
            arch=str(first.get("arch") or CPU), gpu=first.get("gpu"), gpu_count=first.get("gpu_count"),
            engine=str(first["engine"]),
        ),
        environment=EnvironmentSummary(
            packages=dict(options.get("packages") or first["versions"]), name=options["environment"],
            fingerprint=options.get("fingerprint"),
        ),
        backends=tuple(one.row for one in board.hypotheses.values() if one.row is not None),
        recommendation=None if chosen is None else _recommended(chosen),
        not_run=tuple(
            NotRun(level=Level.SERVER, what=f"{name}: {spared(pairs, ran) or 'not launched'}")
            for name, pairs in left.items()
        ),
        transcript=board.opened.investigation,
    )  # fmt: skip


def _recommended(chosen: Best) -> Recommendation:
    """The command as it was launched, but for its port and its key."""
    notes = [f"{component}: {backend}, {chosen.because}" for component, backend in chosen.ran.pairs.items()]
    return Recommendation(
        command=shlex.join(chosen.ran.output["command"]),
        tested=chosen.checked,
        ranked_by=(*(notes or [chosen.because]), *chosen.loads),
        alternatives=chosen.others,
    )
