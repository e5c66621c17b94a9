"""What launches of servers showed, as claims: one for each backend that one on a GPU says something of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.board import Board
from agent.loop import Call
from agent.trials import SILENT, Ran, seen
from memory.canonical import text_sha256
from memory.clock import hypothesis_id
from memory.vocabulary import Claim, EventEvidence, Level, Measurement, Outcome, Scope


def claims(
    board: Board, ran: Sequence[Ran], trial: Mapping[str, Any], packages: Mapping[str, str]
) -> Iterator[Call]:
    """``trial``: the input of the launches, as far as they share it; ``packages``: what they ran in."""
    assert board.opened is not None
    for component, backend, one in seen(ran):
        arch = one.output.get("arch")
        if arch is None or one.outcome in SILENT:
            continue
        event = board.calls.seq(one.call)
        excerpt = str(one.output["because"])
        settings = trial["settings"]
        others = {name: value for name, value in one.pairs.items() if name != component}
        scenario = {
            "model": str(one.output["model"]).rpartition("/")[2],
            "tp": str(settings.get("tensor_parallel", 1)),
        }
        if one.output.get("layers"):
            scenario["layers"] = str(one.output["layers"])
        runs = [use["backend"] for use in one.output["used"] if use["component"] == component]
        claim = Claim(
            component=component,
            backend=backend,
            arch=arch,
            engine=one.output["engine"],
            packages=dict(packages),
            scenario={**scenario, **others},
            level=Level(one.output["level"]),
            outcome=one.outcome,
            runs_instead=str(runs[0]) if one.outcome is Outcome.SUBSTITUTED and runs else None,
            event_evidence=(
                EventEvidence(
                    transcript=board.opened.investigation, head=board.calls.hash(one.call), event=event,
                    excerpt=excerpt, sha256=text_sha256(excerpt),
                ),
            ),
            measurements=tuple(_measurements(one, event)),
            scope=Scope(
                gpu=one.output["gpu"], driver=one.output["driver"], gpu_count=one.output["gpu_count"]
            ),
        )  # fmt: skip
        given: dict[str, object] = {
            "claim": claim.model_dump(mode="json"), "environment": trial["environment"],
        }  # fmt: skip
        why = "kept with the launch it rests on"
        yield Call("record_finding", given, why, hypothesis=hypothesis_id(component, backend, arch))


def _measurements(one: Ran, event: int) -> Iterator[Measurement]:
    if one.ok and (seconds := one.output.get("ready_seconds")) is not None:
        yield Measurement(
            metric="time to the first token of a start", value=seconds, unit="s", event=event,
            json_pointer="/output/ready_seconds",
        )  # fmt: skip
