"""The built-in driver: deterministic, no key, no network of its own. It knows rungs, not backends.

Environment, then options and model classes, then a hypothesis per candidate, then rung after rung,
then findings, then the answer. Where it stands is read off the board each time, so an investigation
that was cut off goes on from its log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent.answers import conclusion
from agent.board import Board
from agent.loop import Call, Decision
from agent.question import QuestionError, parse_question
from agent.relevance import relevant
from agent.rungs import Rung, ladder
from agent.scenario import keys, not_declared, search_for, wrong_component
from memory.clock import hypothesis_id
from memory.vocabulary import Claim, Finding, HypothesisState, Level, Target, Verdict
from tools.engines.adapter import engines
from tools.engines.options import Option
from transcripts.events import Called, Concluded, HypothesisChanged, Noted, Opened, Returned, Understood

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
        if failure := _failure(board):
            return Decision(conclude=failure)
        if _environment(board) is None:
            return Decision(calls=[_create(board, opened)])
        if not board.results("list_backends"):
            return Decision(calls=_inspect(board, opened))
        if board.understood is None:
            return self._open(board, opened)
        if decision := self._climb(board):
            return decision
        if claims := _claims(board):
            return Decision(calls=claims)
        return Decision(conclude=self._conclude(board, opened))

    def _open(self, board: Board, opened: Opened) -> Decision:
        """Say what was understood and open a hypothesis for each candidate."""
        target = _target(board, opened)
        name, packages = _environment(board) or ("", {})
        options = relevant(declared(board), target.quantisation)
        changes: list[Understood | HypothesisChanged | Noted] = [
            Understood(target=target, environment=name, packages=packages)
        ]
        changes += [
            HypothesisChanged(
                id=hypothesis_id(option.component, value.value, target.arch),
                component=option.component,
                backend=value.value,
                arch=target.arch,
                state=HypothesisState.OPEN,
                because=f"{option.flag} accepts it",
            )
            for option in options
            for value in option.values
        ]
        if not options:
            changes.append(Noted(text=f"{target.engine} declares no option that this target depends on"))
        return Decision(changes=changes)

    def _climb(self, board: Board) -> Decision | None:
        """What the next rung has to do: read results that came back, else test what it applies to."""
        for rung in self._rungs:
            changes = _read(board, rung)
            if changes:
                return Decision(changes=changes)
            ready = [one for one in board.hypotheses.values() if rung.applicable(board, one)]
            if ready:
                # All in one batch: the calls are independent, and what they read they read once.
                return Decision(calls=rung.calls(board, ready))
        return None

    def _conclude(self, board: Board, opened: Opened) -> Concluded:
        assert board.understood is not None
        target = board.understood.target
        name, _ = _environment(board) or ("", {})
        options = relevant(declared(board), target.quantisation)
        return conclusion(
            opened=opened,
            understood=board.understood,
            environment=name,
            options=options,
            rows=[one.row for one in board.hypotheses.values() if one.row is not None],
            known=known_findings(board),
            launch=engines()[target.engine].launch,
        )


def declared(board: Board) -> list[Option]:
    """The engine's options as ``list_backends`` gave them."""
    output = board.output_of("list_backends") or {}
    return [Option.model_validate(option) for option in output.get("options", ())]


def known_findings(board: Board) -> list[Finding]:
    """Findings of earlier investigations that were looked up in this one."""
    found = []
    for call, _ in board.results("search_findings"):
        output = board.output(call.call) or {}
        found += [Finding.model_validate(finding) for finding in output.get("findings", ())]
    return found


def _environment(board: Board) -> tuple[str, dict[str, str]] | None:
    """Name and packages, given or created."""
    opened = board.opened
    if opened is not None and opened.options.get("environment"):
        return str(opened.options["environment"]), dict(opened.options.get("packages", {}))
    output = board.output_of("create_environment")
    if not isinstance(output, dict):
        return None
    environment = output.get("environment", output)
    return str(environment["name"]), dict(environment["packages"])


def _create(board: Board, opened: Opened) -> Call:
    target = _target(board, opened)
    wanted = list(opened.options.get("requirements", ()))
    named = {re.split(r"[=<>!~ ]", one, maxsplit=1)[0].lower() for one in wanted}
    wanted += [f"{name}=={version}" for name, version in target.packages.items() if name not in named]
    distribution = engines()[target.engine].distribution
    if distribution not in {*named, *target.packages}:
        # Kernel libraries alone have no options to follow.
        wanted.insert(0, distribution)
    return Call("create_environment", {"packages": wanted, "arch": target.arch}, why="the packages to read")


def _inspect(board: Board, opened: Opened) -> list[Call]:
    target = _target(board, opened)
    name, _ = _environment(board) or ("", {})
    calls = [
        Call(
            "list_backends",
            {"environment": name, "engine": target.engine},
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
        for key in keys(opened.options.get("scenario", {}))
    ]
    return calls


def _target(board: Board, opened: Opened) -> Target:
    """The question as parsed, with the model's classes once they are known."""
    options = opened.options
    target = parse_question(
        opened.question,
        arch=options.get("arch"),
        engine=options.get("engine"),
        requirements=options.get("requirements", ()),
        installed=options.get("packages", ()),
        local_archs=options.get("local_archs", ()),
    )
    made = board.output_of("create_environment")
    if isinstance(made, dict) and made.get("warnings"):
        target = target.model_copy(update={"assumed": (*target.assumed, *made["warnings"])})
    output = board.output_of("find_model")
    if isinstance(output, dict):
        classes = tuple(one["architecture"] for one in output["classes"])
        assumed = target.assumed if classes else (*target.assumed, _unmatched(target, output))
        target = target.model_copy(update={"model_classes": classes, "assumed": assumed})
    return target


def _unmatched(target: Target, match: Mapping[str, Any]) -> str:
    """Why no model's rules are applied."""
    several = [one["architecture"] for one in match["candidates"]]
    if several:
        return f"{target.model} fits several models, {', '.join(several[:6])}: no model's rules are applied"
    near = f" (nearest: {', '.join(match['nearest'][:3])})" if match["nearest"] else ""
    return f"{target.engine} registers no model called {target.model}{near}: no model's rules are applied"


def _failure(board: Board) -> Concluded | None:
    """The end, if a step that everything rests on failed."""
    for tool in ("create_environment", "list_backends"):
        results = board.results(tool)
        if results and results[-1][1].status != "ok":
            called, returned = results[-1]
            return _ended(called, returned)
    traces = board.results("trace_viability")
    if traces and all(returned.status != "ok" for _, returned in traces):
        return _ended(*traces[0])
    if board.opened is None:
        return None
    try:
        wrong = _wrong_scenario(board, board.opened, _target(board, board.opened))
    except QuestionError as error:
        wrong = str(error)
    return None if wrong is None else Concluded(exit_reason="failed", exit_code=2, summary=wrong)


def _wrong_scenario(board: Board, opened: Opened, target: Target) -> str | None:
    """What is wrong with the facts that were given, once the engine's options are known."""
    scenario = opened.options.get("scenario", {})
    listed = board.output_of("list_backends")
    if not scenario or listed is None:
        return None
    if wrong := wrong_component(scenario, target.engine, listed["components"]):
        return wrong
    asked = [returned for _, returned in board.results("search_source") if returned.status == "ok"]
    for key, returned in zip(keys(scenario), asked, strict=False):
        found = board.output(returned.call)
        if isinstance(found, dict) and not found["count"]:
            return not_declared(key, target.engine)
    return None


def _ended(called: Called, returned: Returned) -> Concluded:
    why = returned.error or f"{called.tool} gave no result"
    if returned.status == "denied":
        return Concluded(exit_reason="stopped", exit_code=4, summary=why)
    if isinstance(returned.output, dict) and returned.output.get("missing"):
        return Concluded(exit_reason="missing", exit_code=3, summary=why)
    wrong_input = not why.startswith(f"{called.tool} failed with an unexpected error")
    return Concluded(exit_reason="failed", exit_code=2 if wrong_input else 4, summary=why)


def _read(board: Board, rung: Rung) -> list[Understood | HypothesisChanged | Noted]:
    """State changes that results of this rung call for and that have not been made."""
    changes: list[Understood | HypothesisChanged | Noted] = []
    for name, called in board.calls.items():
        hypothesis = board.hypotheses.get(called.hypothesis or "")
        returned = board.returned.get(name)
        if called.rung != rung.name or hypothesis is None or returned is None:
            continue
        if board.seqs[name] in hypothesis.causes:
            continue
        if returned.status == "interrupted":
            continue
        reading = rung.read(board, hypothesis, returned)
        if reading is not None:
            changes.append(
                hypothesis.model_copy(
                    update={
                        "state": reading.state,
                        "because": reading.because,
                        "row": reading.row,
                        "causes": (*hypothesis.causes, board.seqs[name]),
                    }
                )
            )
    return changes


def _claims(board: Board) -> list[Call]:
    """A finding for each row whose evidence says something, unless it was recorded already."""
    assert board.understood is not None
    target, packages = board.understood.target, board.understood.packages
    done = {call.hypothesis for call, _ in board.results("record_finding")}
    calls = []
    for hypothesis in board.hypotheses.values():
        row = hypothesis.row
        if row is None or hypothesis.id in done or row.verdict not in _RECORDED or not row.evidence:
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
                    "transcript": board.opened.investigation if board.opened else "",
                },
                why="kept with the lines it rests on",
                hypothesis=hypothesis.id,
            )
        )
    return calls


def _scenario(board: Board, hypothesis: HypothesisChanged) -> dict[str, str]:
    """The scenario under which the trace judged, as the trace stated it."""
    for name, called in reversed(board.calls.items()):
        if called.hypothesis == hypothesis.id and called.tool == "trace_viability":
            output: Any = board.output(name)
            if isinstance(output, dict):
                return dict(output.get("scenario", {}))
    return {}
