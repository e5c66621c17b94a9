"""The driver that takes in what probes measured: a result for each cell, a hypothesis, and what can be kept.

It decides nothing about what is true: the outcome is read off the row (:mod:`tools.probe.judge`), and the
store's checks decide whether a claim is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent.board import Board
from agent.loop import Call, Decision
from agent.measured import SILENT, claim_of
from memory.canonical import canonical
from memory.clock import hypothesis_id
from memory.vocabulary import HypothesisState, Level, Observed, Outcome, Row, Verdict
from tools.probe.running import stopped_early
from transcripts.events import Called, Concluded, HypothesisChanged, Noted

ALONE = "left alone"
"""A dry run in which no backend is asked for."""
TOOLS = {"compile": "probe_compile", "dry": "probe_dry_run"}
"""Kinds of cells that another tool than ``probe_kernel`` tries."""


class Prober:
    """``options`` of the transcript: ``environment``; ``plan``, to be tried here, or ``results``, the
    artifact that came back from elsewhere."""

    name = "prober"

    def decide(self, board: Board) -> Decision:
        assert board.opened is not None, "a transcript begins with it"
        options = board.opened.options
        subject: dict[str, object] = {key: options[key] for key in ("plan", "results") if options.get(key)}
        environment = str(options["environment"])
        if not board.results("list_probes"):
            return Decision(calls=[Call("list_probes", subject, "what there is to be read or tried")])
        listed = board.output_of("list_probes")
        if listed is None:
            why = board.results("list_probes")[-1][1].error or "the results could not be read"
            return Decision(conclude=Concluded(exit_reason="missing", exit_code=2, summary=why))
        calls = [_trying(one, {**subject, "environment": environment}, options) for one in listed["probes"]]
        calls += _traces(board, listed, environment, options)
        if waiting := [call for call in calls if not board.answered(call.tool, call.input)]:
            return Decision(calls=waiting)
        if changes := list(_changes(board)):
            return Decision(changes=changes)
        claims = {canonical(call.input): call for call in _claims(board, listed, environment)}
        if waiting := [call for call in claims.values() if not board.answered(call.tool, call.input)]:
            return Decision(calls=waiting)
        return Decision(conclude=_conclusion(board, listed))


def _trying(probe: dict[str, Any], given: dict[str, object], options: dict[str, Any]) -> Call:
    """The call that tries a cell here, or reads what it gave elsewhere."""
    tool = "import_probe" if "results" in given else TOOLS.get(str(probe.get("kind")), "probe_kernel")
    given = {**given, "cell": probe["id"]}
    if tool == "probe_kernel":
        limits = {"gpu": options.get("gpu"), "minutes": options.get("gpu_minutes")}
        given |= {key: value for key, value in limits.items() if value is not None}
    elif tool == TOOLS["compile"] and options.get("cold"):
        given["cold"] = True
    return Call(tool, given, f"what comes of {probe['id']}")


def _traces(
    board: Board, listed: dict[str, Any], environment: str, options: dict[str, Any]
) -> Iterator[Call]:
    """What reading says of the same, where it is to be compared: ``trace`` holds the rest of its input,
    ``beside`` the engine's backends where the cells are not of these. What is refused is read for ``others``
    too: there a gate in front of a function may let it through, and say which function it is."""
    trace = options.get("trace")
    if not trace:
        return
    dry = [(one["component"], one["backend"]) for one in listed["probes"] if one.get("kind") == "dry"]
    for component, backend in options.get("beside") or dry:
        if backend != ALONE:
            given = {"environment": environment, "component": component, "backend": backend, **trace}
            yield Call("trace_viability", given, "what reading says of it")
    for called, _ in board.results("trace_viability"):
        output = board.output(called.call)
        mine = isinstance(output, dict) and called.input["arch"] == trace["arch"]
        if mine and output["row"]["verdict"] == Verdict.BLOCKED:
            for arch in options.get("others", ()):
                why = "what it leads to where it is let through"
                yield Call("trace_viability", {**called.input, "arch": arch}, why)


def _read(board: Board) -> Iterator[tuple[Called, dict[str, Any]]]:
    """Results of cells of backends, in order; those that try the stand itself are left out."""
    for tool in ("import_probe", "probe_kernel", *TOOLS.values()):
        for called, _ in board.results(tool):
            output = board.output(called.call)
            if isinstance(output, dict) and output["cell"]["kind"] != "control" and output["arch"]:
                yield called, output


def _about(output: dict[str, Any]) -> str:
    return hypothesis_id(output["cell"]["component"], output["cell"]["backend"], output["arch"])


def _changes(board: Board) -> Iterator[HypothesisChanged | Noted]:
    """The state of each hypothesis after all shapes of it; a failure at one counts more than a success."""
    found: dict[str, HypothesisChanged] = {}
    for called, output in _read(board):
        cell, outcome = output["cell"], Outcome(output["outcome"])
        state = _state(outcome, Level(output["level"]))
        name = _about(output)
        before = found.get(name)
        causes = (*(before.causes if before else ()), board.calls.seq(called.call))
        if before and (before.state is HypothesisState.REFUTED or state is HypothesisState.INCONCLUSIVE):
            found[name] = before.model_copy(update={"causes": causes})
            continue
        observed = Observed(level=Level(output["level"]), outcome=outcome, experiment=called.call)
        subject = {"component": cell["component"], "backend": cell["backend"], "arch": output["arch"]}
        row = Row(**subject, verdict=Verdict.UNKNOWN, observed=observed, state=state)
        found[name] = HypothesisChanged(
            id=name, **subject, state=state, because=output["because"], row=row, causes=causes
        )
    for name, change in found.items():
        if board.hypotheses.get(name) != change:
            yield change


def _state(outcome: Outcome, level: Level) -> HypothesisState:
    if outcome is Outcome.OK:
        return HypothesisState.PREDICTED if level is Level.COMPILE else HypothesisState.CONFIRMED
    return HypothesisState.INCONCLUSIVE if outcome in SILENT else HypothesisState.REFUTED


def _claims(board: Board, listed: dict[str, Any], environment: str) -> Iterator[Call]:
    for called, output in _read(board):
        if Outcome(output["outcome"]) in SILENT:
            continue
        cell = output["cell"]
        if cell["kind"] == "dry" and output["outcome"] == Outcome.OK:
            continue  # nothing ran: that no option was refused is no finding
        subject = {
            "component": cell["component"],
            "backend": cell["backend"],
            "arch": output["arch"],
            "engine": next(iter(listed["libraries"])),
        }
        claim = claim_of(board, called.call, output, subject, listed["libraries"], {})
        given: dict[str, object] = {"claim": claim.model_dump(mode="json"), "environment": environment}
        yield Call("record_finding", given, "kept with the result it rests on", hypothesis=_about(output))


def _conclusion(board: Board, listed: dict[str, Any]) -> Concluded:
    made = [one for tool in ("import_probe", "probe_kernel", *TOOLS.values()) for one in board.results(tool)]
    errors = [returned.error for _, returned in made if returned.status != "ok"]
    if made and len(errors) == len(made):
        lacks = isinstance(made[0][1].output, dict) and made[0][1].output.get("missing")
        wrong = board.opened is not None and "results" in board.opened.options
        reason, code = ("missing", 3) if lacks else ("failed", 2) if wrong else ("stopped", 4)
        return Concluded.model_validate({"exit_reason": reason, "exit_code": code, "summary": str(errors[0])})
    early = [why for _, output in _read(board) if (why := stopped_early(output))]
    outcomes = Counter(output["outcome"] for _, output in _read(board))
    counted = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in outcomes.most_common())
    places = {
        f"{output['gpu']} ({output['arch']})" if output["gpu"] else f"no GPU ({output['arch']})"
        for _, output in _read(board)
    }
    where = ", ".join(sorted(places)) or "no GPU"
    summary = (
        f"plan {listed['plan'][:12]} on {where}: {counted or 'nothing ran'}; {len(board.findings)} findings"
    )
    if listed["missing"]:
        summary += f"; {len(listed['missing'])} cells have no row"
    if early:
        summary += f"; {early[0]}"
        return Concluded(exit_reason="stopped", exit_code=4, summary=summary)
    return Concluded(exit_reason="answered", exit_code=0, summary=summary)
