"""The driver of ``agent check``: one call of the gate, and a finding where it is said what the server runs.

Whether it is kept is decided by the store's checks, on the result itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent.board import Board
from agent.loop import Call, Decision
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
    Verdict,
)
from transcripts.events import Concluded, HypothesisChanged

TOOL = "check_server"
FIGURES = (
    ("crowd", "answers", "answers", "answers compared under load"),
    ("crowd", "largest_shift", "nats", "largest shift of a logprob under load"),
    ("paired", "right", "questions", "questions right"),
    ("paired", "reference_right", "questions", "questions right by the reference"),
    ("oracle", "kl", "nats", "mean KL from the reference"),
)
"""Stage, figure, unit, and what a finding calls it."""


class Checker:
    """``options`` of the transcript: ``check``, the input of the gate; ``servers``, the addresses that may be
    asked; ``about`` (component, backend, arch) with an ``environment`` where a finding is to be made."""

    name = "checker"

    def decide(self, board: Board) -> Decision:
        assert board.opened is not None, "a transcript begins with it"
        options = board.opened.options
        results = board.results(TOOL)
        about = options.get("about")
        if not results:
            name = hypothesis_id(*about) if about else None
            why = "are its answers numbers, the same again, the same under load, and right"
            return Decision(calls=[Call(TOOL, dict(options["check"]), why, hypothesis=name)])
        called, returned = results[0]
        output = board.output_of(TOOL)
        if output is None:
            missing = isinstance(returned.output, dict) and bool(returned.output.get("missing"))
            why = returned.error or "the server could not be checked"
            return Decision(
                conclude=Concluded(exit_reason="missing", exit_code=3 if missing else 2, summary=why)
            )
        if about and output["outcome"] != Outcome.NOT_RUN:
            if changes := list(_changes(board, about, output, called.call)):
                return Decision(changes=changes)
            if not board.results("record_finding"):
                return Decision(calls=[_claim(board, about, output, called.call)])
        return Decision(conclude=_conclusion(output))


def _changes(
    board: Board, about: Sequence[str], output: dict[str, Any], call: str
) -> Iterator[HypothesisChanged]:
    component, backend, arch = about
    name = hypothesis_id(component, backend, arch)
    if name in board.hypotheses:
        return
    outcome = Outcome(output["outcome"])
    state = HypothesisState.CONFIRMED if outcome is Outcome.OK else HypothesisState.REFUTED
    observed = Observed(level=Level(output["level"]), outcome=outcome, experiment=call)
    row = Row(
        component=component,
        backend=backend,
        arch=arch,
        verdict=Verdict.UNKNOWN,
        observed=observed,
        state=state,
    )
    yield HypothesisChanged(
        id=name, component=component, backend=backend, arch=arch, state=state, because=output["because"],
        row=row, causes=(board.calls.seq(call),),
    )  # fmt: skip


def _claim(board: Board, about: Sequence[str], output: dict[str, Any], call: str) -> Call:
    assert board.opened is not None
    component, backend, arch = about
    options = board.opened.options
    event = board.calls.seq(call)
    excerpt = output["because"]
    claim = Claim(
        component=component,
        backend=backend,
        arch=arch,
        engine=options["engine"],
        packages=options["packages"],
        scenario={"model": output["model"], **options["check"].get("settings", {})},
        level=Level(output["level"]),
        outcome=Outcome(output["outcome"]),
        event_evidence=(
            EventEvidence(
                transcript=board.opened.investigation,
                head=board.calls.hash(call),
                event=event,
                excerpt=excerpt,
                sha256=text_sha256(excerpt),
            ),
        ),
        measurements=tuple(_measurements(output, event)),
    )
    given: dict[str, object] = {
        "claim": claim.model_dump(mode="json"), "environment": options["environment"],
    }  # fmt: skip
    why = "kept with the result it rests on"
    return Call("record_finding", given, why, hypothesis=hypothesis_id(component, backend, arch))


def _measurements(output: dict[str, Any], event: int) -> Iterator[Measurement]:
    places = {stage["name"]: place for place, stage in enumerate(output["stages"])}
    for stage, figure, unit, metric in FIGURES:
        if stage in places and figure in output["stages"][places[stage]]["figures"]:
            yield Measurement(
                metric=metric,
                value=output["stages"][places[stage]]["figures"][figure],
                unit=unit,
                event=event,
                json_pointer=f"/output/stages/{places[stage]}/figures/{figure}",
            )


def _conclusion(output: dict[str, Any]) -> Concluded:
    outcome = Outcome(output["outcome"])
    summary = f"{outcome.value.replace('_', ' ')}: {output['because']}"
    if outcome is Outcome.NOT_RUN:
        return Concluded(exit_reason="stopped", exit_code=4, summary=summary)
    code = 0 if outcome is Outcome.OK else 1
    return Concluded(exit_reason="answered", exit_code=code, summary=summary)
