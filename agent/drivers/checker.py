"""The driver of ``agent check`` and ``agent benchmark``: one call after the other, and a finding from each.

A call that did not end well is the last. Whether a finding is kept is decided by the store's checks, on the
result itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.board import Board
from agent.loop import Call, Decision
from agent.probing import BENCHMARKS
from memory.canonical import text_sha256
from memory.clock import hypothesis_id
from memory.vocabulary import (
    Claim,
    EventEvidence,
    HypothesisState,
    Level,
    Measurement,
    Observed,
    Outcome,
    Row,
    Scope,
    Verdict,
)
from tools.engines.adapter import engine
from transcripts.events import Called, Concluded, HypothesisChanged

FIGURES = (
    ("crowd", "answers", "answers", "answers compared under load"),
    ("crowd", "largest_shift", "nats", "largest shift of a logprob under load"),
    ("paired", "right", "questions", "questions right"),
    ("paired", "reference_right", "questions", "questions right by the reference"),
    ("oracle", "kl", "nats", "mean KL from the reference"),
)
"""Stage of the gate, figure, unit, and what a finding calls it."""
MEASURED = ("output_throughput", "median_ttft", "median_tpot")
SILENT = (Outcome.NOT_RUN, Outcome.ENVIRONMENT_SUSPECT)
"""Outcomes that say nothing of a backend."""
_LONGEST = 200


class Checker:
    """``options`` of the transcript: ``calls``, each a ``tool`` and its ``input``; ``servers``, the addresses
    that may be asked; ``engine`` and ``environment``; ``about``, a list of (component, backend, arch), where
    the results do not say themselves what was asked for and where it ran."""

    name = "checker"

    def decide(self, board: Board) -> Decision:
        assert board.opened is not None, "a transcript begins with it"
        options = board.opened.options
        done = list(_done(board))
        for called, output in done:
            if changes := list(_changes(board, called, output)):
                return Decision(changes=changes)
        calls = options["calls"]
        well = all(output is not None and _went(called, output) is Outcome.OK for called, output in done)
        if well and len(done) < len(calls):
            one = calls[len(done)]
            name = hypothesis_id(*options["about"]) if options.get("about") else None
            return Decision(calls=[Call(one["tool"], dict(one["input"]), str(one["why"]), hypothesis=name)])
        wanted = [call for called, output in done for call in _claims(board, called, output)]
        if waiting := [call for call in wanted if not board.answered(call.tool, call.input)]:
            return Decision(calls=waiting)
        return Decision(conclude=_conclusion(board, done))


def results(board: Board) -> list[dict[str, Any]]:
    """The whole outputs of the calls that this driver made, in order."""
    return [output for _, output in _done(board) if output is not None]


def _done(board: Board) -> Iterator[tuple[Called, dict[str, Any] | None]]:
    """Calls that have returned, with what they gave."""
    assert board.opened is not None
    for tool in dict.fromkeys(one["tool"] for one in board.opened.options["calls"]):
        for called, returned in board.results(tool):
            output = board.output(called.call) if returned.status == "ok" else None
            yield called, output if isinstance(output, dict) else None


def _went(called: Called, output: Mapping[str, Any]) -> Outcome:
    """How a call went: one that was to measure, and has only checked, did not do what it was for."""
    found = Outcome(output["outcome"])
    unmeasured = called.input.get("loads") and output["level"] != Level.BENCHMARK
    return Outcome.NOT_RUN if found is Outcome.OK and unmeasured else found


def _subjects(board: Board, output: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What a result is about: what was said, else the backends that were asked for, on the GPU it ran on."""
    assert board.opened is not None
    if about := board.opened.options.get("about"):
        component, backend, arch = about
        yield component, backend, arch
    elif output.get("arch"):
        for component, backend in sorted(output.get("asked", {}).items()):
            yield component, backend, output["arch"]


def _changes(board: Board, called: Called, output: dict[str, Any] | None) -> Iterator[HypothesisChanged]:
    """The state of each hypothesis after a result; one that was refuted stays so."""
    if output is None or output["outcome"] in SILENT:
        return
    outcome = Outcome(output["outcome"])
    state = HypothesisState.CONFIRMED if outcome is Outcome.OK else HypothesisState.REFUTED
    for component, backend, arch in _subjects(board, output):
        name = hypothesis_id(component, backend, arch)
        if name in board.hypotheses and board.hypotheses[name].state is state:
            continue
        if name in board.hypotheses and board.calls.seq(called.call) in board.hypotheses[name].causes:
            continue
        observed = Observed(level=Level(output["level"]), outcome=outcome, experiment=called.call)
        row = Row(
            component=component, backend=backend, arch=arch, verdict=Verdict.UNKNOWN, observed=observed,
            state=state,
        )  # fmt: skip
        before = board.hypotheses[name].causes if name in board.hypotheses else ()
        yield HypothesisChanged(
            id=name, component=component, backend=backend, arch=arch, state=state, because=output["because"],
            row=row, causes=(*before, board.calls.seq(called.call)),
        )  # fmt: skip


def _claims(board: Board, called: Called, output: dict[str, Any] | None) -> Iterator[Call]:
    if output is None or output["outcome"] in SILENT:
        return
    assert board.opened is not None
    options = board.opened.options
    event = board.calls.seq(called.call)
    excerpt = output["because"][:_LONGEST]
    machine = {name: output.get(name) for name in ("gpu", "gpu_count", "driver") if output.get(name)}
    for component, backend, arch in _subjects(board, output):
        claim = Claim(
            component=component,
            backend=backend,
            arch=arch,
            engine=options["engine"],
            packages=_packages(options["engine"], options["packages"]),
            scenario=_scenario(called, output, component),
            level=Level(output["level"]),
            outcome=Outcome(output["outcome"]),
            event_evidence=(
                EventEvidence(
                    transcript=board.opened.investigation,
                    head=board.calls.hash(called.call),
                    event=event,
                    excerpt=excerpt,
                    sha256=text_sha256(excerpt),
                ),
            ),
            measurements=tuple(_measurements(output, event)),
            scope=Scope(**machine) if machine else None,
        )
        given: dict[str, object] = {
            "claim": claim.model_dump(mode="json"), "environment": options["environment"],
        }  # fmt: skip
        name = hypothesis_id(component, backend, arch)
        yield Call("record_finding", given, "kept with the result it rests on", hypothesis=name)


def _packages(name: str, there: Mapping[str, str]) -> dict[str, str]:
    """The engine, its kernel libraries and torch: what a claim of a launch is about."""
    profile = engine(name)
    wanted = (profile.distribution, *profile.kernel_distributions, "torch")
    return {one: there[one] for one in wanted if one in there}


def _scenario(called: Called, output: Mapping[str, Any], component: str) -> dict[str, str]:
    """Under what it ran: the model, the other backends, and what the server was started with."""
    asked = {key: str(value) for key, value in output.get("asked", {}).items() if key != component}
    check = called.input.get("check", called.input)
    given = check.get("settings", {}) if isinstance(check, dict) else {}
    model = output.get("model") or output.get("checked", {}).get("model") or ""
    found = {"model": str(model).rstrip("/").rsplit("/", 1)[-1], **asked}
    if "settings" in called.input and "model" in given:
        ranks = given.get("tensor_parallel", 1)
        given = {"tensor_parallel": ranks} if ranks != 1 else {}
    return {key: str(value)[:_LONGEST] for key, value in {**found, **given}.items() if value != ""}


def _measurements(output: Mapping[str, Any], event: int) -> Iterator[Measurement]:
    if output["outcome"] != Outcome.OK:
        return  # how fast something wrong is says nothing
    nested = "stages" not in output
    checked = output.get("checked") if nested else output
    stages = checked["stages"] if isinstance(checked, dict) else []
    places = {stage["name"]: place for place, stage in enumerate(stages)}
    for stage, figure, unit, metric in FIGURES:
        if stage in places and figure in stages[places[stage]]["figures"]:
            yield Measurement(
                metric=metric,
                value=stages[places[stage]]["figures"][figure],
                unit=unit,
                event=event,
                json_pointer=f"/output{'/checked' if nested else ''}/stages/{places[stage]}/figures/{figure}",
            )
    benchmark = output.get("benchmark")
    for place, cell in enumerate(benchmark["cells"] if isinstance(benchmark, dict) else ()):
        if cell["warmup"] or cell["outcome"] != Outcome.OK:
            continue
        for metric in MEASURED:
            found = cell["figures"][metric]
            yield Measurement(
                metric=f"{metric} at c={cell['concurrency']}, {cell['input']}+{cell['output']} tokens",
                value=found["value"],
                unit=found["unit"],
                event=event,
                json_pointer=f"/output/benchmark/cells/{place}/figures/{metric}/value",
            )


def _conclusion(board: Board, done: list[tuple[Called, dict[str, Any] | None]]) -> Concluded:
    called, output = done[-1]
    if output is None:
        returned = board.calls.result(called.call)
        missing = (
            returned is not None and isinstance(returned.output, dict) and returned.output.get("missing")
        )
        why = (returned.error if returned else None) or "the server could not be asked"
        if returned is not None and returned.status == "denied":
            return Concluded(exit_reason="stopped", exit_code=4, summary=f"{why}; give --run {BENCHMARKS}")
        return Concluded(exit_reason="missing", exit_code=3 if missing else 2, summary=why)
    outcome = _went(called, output)
    summary = f"{outcome.value.replace('_', ' ')}: {output['because']}"
    if len(done) > 1:
        summary = f"{len(done)} launches; the last {summary}"
    if outcome in SILENT:
        return Concluded(exit_reason="stopped", exit_code=4, summary=summary)
    return Concluded(exit_reason="answered", exit_code=0 if outcome is Outcome.OK else 1, summary=summary)
