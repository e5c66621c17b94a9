"""The built-in driver: deterministic, no key, no network of its own. It knows rungs, not backends.

Environment, then options and model classes, then a hypothesis per candidate, then rung after rung,
then findings, then the answer. Where it stands is read off the board each time, so an investigation
that was cut off goes on from its log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent import launching
from agent.answers import conclusion
from agent.board import Board, steering
from agent.disputes import disputed
from agent.drivers.ground import declared, environment_of, failure, fingerprint_of, flags, target_of
from agent.ladder import ladder
from agent.loop import Call, Decision
from agent.priors import priors
from agent.probed import claims, halted, left
from agent.probing import subjects
from agent.relevance import relevant
from agent.rungs import Rung
from agent.scenario import keys, search_for
from agent.served import claims as served_claims
from memory.clock import hypothesis_id
from memory.vocabulary import Claim, Finding, HypothesisState, Level, Verdict
from tools.engines.adapter import engines
from transcripts.events import Concluded, HypothesisChanged, Noted, Opened, Understood

_RECORDED = {Verdict.BLOCKED, Verdict.REROUTED, Verdict.NO_STATIC_OBSTACLE}
"""Verdicts that are worth keeping: the source says something."""


class Planner:
    """Cheapest evidence first, each rung for all that it applies to."""

    name = "planner"

    def __init__(self, rungs: Sequence[Rung] | None = None) -> None:
        self._rungs = list(ladder() if rungs is None else rungs)

    def decide(self, board: Board) -> Decision:
        opened = board.opened
        assert opened is not None, "a transcript begins with opened"
        if ended := failure(board):
            return Decision(conclude=ended)
        if environment_of(board) is None:
            return Decision(calls=[_create(board, opened)])
        if calls := [one for one in _inspect(board, opened) if not board.answered(one.tool, one.input)]:
            return Decision(calls=calls)
        if not any(called.rung for called in board.calls.values()) and (changes := self._open(board, opened)):
            return Decision(changes=changes)
        if changes := _left_alone(board):
            return Decision(changes=changes)
        if decision := self._climb(board):
            return decision
        if found := _claims(board):
            return Decision(calls=found)
        found = [*claims(board), *_served(board)]
        if found := [one for one in found if not board.answered(one.tool, one.input)]:
            return Decision(calls=found)
        notes = (text for text in disputed(board, known_findings(board)) if not board.noted(text))
        if changes := [Noted(text=text) for text in notes]:
            return Decision(changes=changes)
        return Decision(conclude=conclusion_of(board))

    def _open(self, board: Board, opened: Opened) -> list[Understood | HypothesisChanged | Noted]:
        """Say what was understood and open a hypothesis for each candidate: those changes that are not yet
        made, since the process that began with them may have been stopped."""
        target = target_of(board, opened)
        name, packages = environment_of(board) or ("", {})
        options = relevant(declared(board), target.quantisation)
        changes: list[Understood | HypothesisChanged | Noted] = []
        if board.understood is None:
            changes.append(Understood(target=target, environment=name, packages=packages))
        for option in options:
            for value in option.values:
                subject = hypothesis_id(option.component, value.value, target.arch)
                if subject not in board.hypotheses:
                    changes.append(
                        HypothesisChanged(
                            id=subject,
                            component=option.component,
                            backend=value.value,
                            arch=target.arch,
                            state=HypothesisState.OPEN,
                            because=f"{option.flag} accepts it",
                        )
                    )
        nothing = f"{target.engine} declares no option that this target depends on"
        if not options and not board.noted(nothing):
            changes.append(Noted(text=nothing))
        return changes

    def _climb(self, board: Board) -> Decision | None:
        """What the next rung has to do: read results that came back, else test what it applies to."""
        for rung in self._rungs:
            changes = _read(board, rung)
            if changes:
                return Decision(changes=changes)
            ready = [
                one
                for one in board.hypotheses.values()
                if rung.applicable(board, one) and not board.skips(one.component, one.backend)
            ]
            if ready:
                # All in one batch: the calls are independent, and what they read they read once.
                return Decision(calls=_ordered(board, rung, ready))
        return None


def conclusion_of(board: Board, preferred: Mapping[str, str] | None = None) -> Concluded:
    """The end that the rows on the board amount to. The target must be understood. ``preferred``: component →
    the backend that the driver chose."""
    assert board.opened is not None
    assert board.understood is not None
    target = board.understood.target
    name, _ = environment_of(board) or ("", {})
    options = relevant(declared(board), target.quantisation)
    wishes = dict.fromkeys(steering(one) for one in board.steered if one.asks != "stop")
    told = (*target.assumed, *(f"as asked while it ran: {one}" for one in wishes))
    won = launching.winner(board) if preferred is None else None
    return conclusion(
        opened=board.opened,
        understood=board.understood.model_copy(
            update={"target": target.model_copy(update={"assumed": told})}
        ),
        environment=name,
        fingerprint=fingerprint_of(board),
        options=options,
        rows=[one.row for one in board.hypotheses.values() if one.row is not None],
        known=known_findings(board),
        under=_judged_under(board),
        settings=flags(board),
        launch=engines()[target.engine].launch,
        preferred=won.ran.pairs if won else preferred,
        because=won.because if won else None,
        measured=won,
        right=launching.right(board),
        taken=_taken(board),
        kernels=[*left(board), *launching.unlaunched(board)],
        halted=halted(board) or launching.halted(board),
    )


def _left_alone(board: Board) -> list[Understood | HypothesisChanged | Noted]:
    """Open hypotheses that a person asked to skip: nothing is known of them, and nothing will be."""
    return [
        one.model_copy(
            update={"state": HypothesisState.INCONCLUSIVE, "because": "skipped, as a person asked"}
        )
        for one in board.in_state(HypothesisState.OPEN)
        if board.skips(one.component, one.backend)
    ]


def _taken(board: Board) -> dict[str, str]:
    """Component → what the engine takes for the model where nobody sets the option, as traces say."""
    found: dict[str, str] = {}
    for called, _ in board.results("trace_viability"):
        output = board.output(called.call)
        if isinstance(output, dict) and isinstance(output.get("left"), str):
            found[str(called.input.get("component"))] = output["left"]
    return found


def _ordered(board: Board, rung: Rung, ready: Sequence[HypothesisChanged]) -> list[Call]:
    """The calls of a rung for all of ``ready``: what is known elsewhere says which come first, and why."""
    assert board.understood is not None
    known = [*known_findings(board), *nearby_findings(board)]
    rows = {(one.component, one.backend): one.row for one in ready if one.row is not None}
    found = priors(
        ((one.component, one.backend, one.arch) for one in ready),
        known, board.understood.packages, board.understood.target.model, rows,
    )  # fmt: skip
    prior = {one.id: found.get((one.component, one.backend, one.arch)) for one in ready}
    weights = {name: one.weight if one is not None else 0.0 for name, one in prior.items()}
    wanted = {one.id: board.prefers(one.component, one.backend) for one in ready}
    calls = rung.calls(board, sorted(ready, key=lambda one: (not wanted[one.id], -weights[one.id])))
    reasons = {name: one.because for name, one in prior.items() if one is not None}
    return [
        replace(call, why=f"{call.why}; {reasons[call.hypothesis]}") if call.hypothesis in reasons else call
        for call in calls
    ]


def nearby_findings(board: Board) -> list[Finding]:
    """Findings on other architectures that were looked up in this investigation."""
    return _looked_up(board, "nearby")


def _looked_up(board: Board, part: str) -> list[Finding]:
    """``part``: of what ``search_findings`` gave."""
    outputs = (board.output(call.call) or {} for call, _ in board.results("search_findings"))
    return [Finding.model_validate(finding) for output in outputs for finding in output.get(part, ())]


def known_findings(board: Board) -> list[Finding]:
    """Findings of earlier investigations that were looked up in this one."""
    return _looked_up(board, "findings")


def _create(board: Board, opened: Opened) -> Call:
    target = target_of(board, opened)
    wanted = list(opened.options.get("requirements", ()))
    named = {re.split(r"[=<>!~ ]", one, maxsplit=1)[0].lower() for one in wanted}
    wanted += [f"{name}=={version}" for name, version in target.packages.items() if name not in named]
    distribution = engines()[target.engine].distribution
    if distribution not in {*named, *target.packages}:
        # Kernel libraries alone have no options to follow.
        wanted.insert(0, distribution)
    return Call("create_environment", {"packages": wanted, "arch": target.arch}, why="the packages to read")


def _inspect(board: Board, opened: Opened) -> list[Call]:
    target = target_of(board, opened)
    name, _ = environment_of(board) or ("", {})
    scenario = opened.options.get("scenario", {})
    calls = [
        Call(
            "list_backends",
            {"environment": name, "engine": target.engine, "all_options": bool(scenario)},
            why="what the installed version can be told",
        )
    ]
    if target.model:
        calls.append(
            Call(
                "find_model",
                {"environment": name, "engine": target.engine, "model": target.model},
                why="the classes that the installed version registers for the model",
            )
        )
    calls += [
        Call("search_source", search_for(key, name, target.engine), why=f"whether {key} is an option at all")
        for key in keys(scenario)
    ]
    return calls


def _read(board: Board, rung: Rung) -> list[Understood | HypothesisChanged | Noted]:
    """State changes that results of this rung call for and that have not been made, one a hypothesis."""
    changed: dict[str, HypothesisChanged] = {}
    for name, called in board.calls.items():
        returned = board.calls.result(name)
        if called.rung != rung.name or returned is None or returned.status == "interrupted":
            continue
        for subject in subjects(board, called):
            hypothesis = changed.get(subject.id, subject)
            if board.calls.seq(name) in hypothesis.causes:
                continue
            if (reading := rung.read(board, hypothesis, returned)) is not None:
                changed[subject.id] = hypothesis.model_copy(
                    update={
                        "state": reading.state,
                        "because": reading.because,
                        "row": reading.row,
                        "causes": (*hypothesis.causes, board.calls.seq(name)),
                    }
                )
    return list(changed.values())


def _served(board: Board) -> Iterator[Call]:
    """A finding for each backend that launches of servers say something of."""
    assert board.understood is not None
    for shrunk in (True, False):
        if ran := launching.launches(board, shrunk=shrunk):
            trial = board.calls[ran[0].call].input
            yield from served_claims(board, ran, trial, board.understood.packages)


def _claims(board: Board) -> list[Call]:
    """A finding for each row whose evidence says something, unless it was recorded already."""
    assert board.understood is not None
    target, packages = board.understood.target, board.understood.packages
    calls = []
    for hypothesis in board.hypotheses.values():
        row = hypothesis.row
        if row is None or row.verdict not in _RECORDED or not row.evidence:
            continue
        if board.tested(hypothesis.id, "record_finding") is not None:
            continue
        claim = Claim(
            component=row.component,
            backend=row.backend,
            arch=row.arch,
            engine=target.engine,
            packages=packages,
            scenario=_scenario(board, hypothesis),
            level=Level.STATIC,
            verdict=row.verdict,
            because=row.because,
            runs_instead=row.runs_instead,
            conditions=row.conditions,
            source_evidence=row.evidence,
        )
        calls.append(
            Call(
                "record_finding",
                {
                    "claim": claim.model_dump(mode="json"),
                    "environment": board.understood.environment,
                },
                why="kept with the lines it rests on",
                hypothesis=hypothesis.id,
            )
        )
    return calls


def _scenario(board: Board, hypothesis: HypothesisChanged) -> dict[str, str]:
    """The scenario under which the trace judged, as the trace stated it."""
    traced = board.tested(hypothesis.id, "trace_viability")
    output: Any = None if traced is None else board.output(traced)
    return dict(output.get("scenario", {})) if isinstance(output, dict) else {}


def _judged_under(board: Board) -> dict[str, str]:
    """What all traces took for granted, given or by default."""
    common: dict[str, str] | None = None
    for called, _ in board.results("trace_viability"):
        output = board.output(called.call)
        if isinstance(output, dict):
            mine = dict(output.get("scenario", {}))
            common = mine if common is None else {k: v for k, v in common.items() if mine.get(k) == v}
    given = board.opened.options.get("scenario", {}) if board.opened else {}
    return {key: value for key, value in (common or {}).items() if key != "quantisation" and key not in given}
