"""What was tried, as claims: the outcome that a result says, with its own words, and the times in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.board import Board
from memory.canonical import text_sha256
from memory.vocabulary import Claim, EventEvidence, Level, Measurement, Outcome, Scope

SILENT = {Outcome.NOT_RUN, Outcome.ENVIRONMENT_SUSPECT, Outcome.IMPORT_FAILED}
"""Outcomes that say nothing of a library: nothing ran, or what it needs was not on that machine."""
AGREE = 0.03
"""How far two ways of timing a kernel may be apart; where they are further, no time is claimed."""
MOST_TIME = 1e9
MOST_MEASURED = 8
"""Sizes whose times a claim names."""


def claim_of(
    board: Board,
    call: str,
    output: Mapping[str, Any],
    subject: Mapping[str, str],
    packages: Mapping[str, str],
    scenario: Mapping[str, str],
) -> Claim:
    """The claim that the result of ``call`` makes of ``subject`` (``component``, ``backend``, ``arch``,
    ``engine``). The scenario gains what was tried: the sizes, and the versions it ran with."""
    event = board.calls.seq(call)
    cell = output["cell"]
    excerpt = output["because"]
    shape = {key: str(value) for key, value in cell["size"].items()}
    if cell.get("units"):
        shape["units"] = f"the last {cell['units']} alone"
    versions = {key: str(output["here"][key]) for key in ("torch", "cuda") if output["here"].get(key)}
    return Claim(
        component=subject["component"],
        backend=subject["backend"],
        arch=subject["arch"],
        engine=subject["engine"],
        packages=dict(packages),
        scenario={**scenario, **cell["scenario"], **shape, **versions},
        level=Level(output["level"]),
        outcome=Outcome(output["outcome"]),
        event_evidence=(
            EventEvidence(
                transcript=board.opened.investigation if board.opened else "",
                head=board.calls.hash(call),
                event=event,
                excerpt=excerpt,
                sha256=text_sha256(excerpt),
            ),
        ),
        measurements=tuple(_measurements(output, event)),
        scope=Scope(gpu=output["gpu"], driver=output["driver"]) if output["gpu"] else None,
    )


def _measurements(output: Mapping[str, Any], event: int) -> Iterator[Measurement]:
    if output["outcome"] != Outcome.OK:
        return  # how fast something wrong is says nothing
    for number, timed in timings(output)[:MOST_MEASURED]:
        other = timed.get("do_bench")
        if other is not None and not (_time(other) and abs(timed["median"] / other - 1) <= AGREE):
            continue  # the host was too slow to ask: what was timed is not the kernel
        yield Measurement(
            metric=f"median at m={timed['m']}",
            value=timed["median"],
            unit="ms",
            event=event,
            json_pointer=f"/output/measured/timing/{number}/median",
        )


def timings(output: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The sizes that a result timed, each with its place: those that hold a number, whoever wrote it."""
    timing = output["measured"].get("timing")
    return [
        (number, timed)
        for number, timed in enumerate(timing if isinstance(timing, list) else ())
        if isinstance(timed, dict) and _time(timed.get("median")) and isinstance(timed.get("m"), int)
    ]


def _time(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < MOST_TIME
