"""What came of the rungs of single kernels: findings, what is left to run, and what stopped them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from agent.board import Board
from agent.loop import Call
from agent.measured import SILENT, claim_of
from agent.probing import (
    GPUS,
    MACHINE,
    PLAN,
    PROBES,
    Compiling,
    Kernels,
    Planning,
    asked_to,
    gpu_of,
    planned,
    subjects,
)
from agent.text import shorten
from memory.vocabulary import HypothesisState, Level, NotRun, Outcome
from tools.probe.running import stopped_early
from transcripts.events import HypothesisChanged

TOOLS = {one.name: one.tool for one in (Compiling, Kernels)}
TRIED = tuple(TOOLS)


def claims(board: Board) -> Iterator[Call]:
    """A finding for each result of these rungs that says something."""
    assert board.understood is not None
    target = board.understood.target
    for name, called in board.calls.items():
        output = board.output(name) if called.rung in TRIED else None
        if not isinstance(output, dict) or Outcome(output["outcome"]) in SILENT:
            continue
        for one in subjects(board, called):
            if output["arch"] != one.arch:
                continue
            subject = {
                "component": one.component,
                "backend": one.backend,
                "arch": one.arch,
                "engine": target.engine,
            }
            scenario = {"kernel": output["cell"]["backend"]}
            claim = claim_of(board, name, output, subject, board.understood.packages, scenario)
            given: dict[str, object] = {
                "claim": claim.model_dump(mode="json"),
                "environment": board.understood.environment,
            }
            yield Call("record_finding", given, "kept with the result it rests on", hypothesis=one.id)


def left(board: Board) -> list[NotRun]:
    """What of kernels has not run, why not, and the command that goes on; empty where nothing is left."""
    assert board.understood is not None
    arch = board.understood.target.arch
    ran = [one for one in board.hypotheses.values() if _ran(one)]
    if not asked_to(board, PROBES):
        return [NotRun(level=Level.PROBE, what=f"no kernel has run on {arch}")]
    steps = [*_not_compiled(board), *_not_on_gpu(board)]
    if not ran and not any(step.level is Level.PROBE for step in steps):
        steps.append(NotRun(level=Level.PROBE, what=f"no kernel has run on {arch}"))
    return steps


def _ran(hypothesis: HypothesisChanged) -> bool:
    row = hypothesis.row
    return row is not None and row.observed is not None and row.observed.level is Level.PROBE


def _not_compiled(board: Board) -> Iterator[NotRun]:
    assert board.understood is not None
    plan = board.output_of(PLAN)
    if plan is None:
        if made := board.results(PLAN):
            yield NotRun(level=Level.COMPILE, what=f"no probe was planned: {made[-1][1].error}")
        return
    if not plan["probes"]:
        yield NotRun(level=Level.COMPILE, what="there is no probe for the kernels that the backends lead to")
    elif not plan["full"]:
        packages = [f"{name}=={version}" for name, version in board.understood.packages.items()]
        yield NotRun(
            level=Level.COMPILE,
            what=f"{plan['environment']} is only read, probes run in a full environment",
            command=shlex.join(["agent", "environment", "create", "--full", *packages]),
        )
    elif not plan["compiler"] and planned(board, Compiling.kind):
        yield NotRun(level=Level.COMPILE, what="nothing was compiled: there is no nvcc on PATH")
    yield from _unsaid(board, Compiling.name, Level.COMPILE)


def _not_on_gpu(board: Board) -> Iterator[NotRun]:
    """Kernel probes that were planned and not made, with minutes; and those that said nothing."""
    assert board.understood is not None
    cells = [
        one
        for one in planned(board, Kernels.kind)
        if (found := _hypothesis(board, one)) is not None
        and found.state is not HypothesisState.REFUTED
        and not _ran(found)
    ]
    plan = board.output_of(PLAN) or {}
    if cells and plan.get("full") and not any(one.rung == Kernels.name for one in board.calls.values()):
        minutes = sum(one["seconds"] for one in cells) / 60
        arch = board.understood.target.arch
        what = f"{len(cells)} kernel probes need a GPU of {arch}, {minutes:.0f} minutes at most"
        components = dict.fromkeys(one["component"] for one in cells)
        pack = ["agent", "probe", "pack", *components, "-e", board.understood.environment, "--to", "probes"]
        command: str | None = shlex.join(pack)
        if gpu_of(board) is not None:
            what, command = f"{what}: give --gpu-minutes", None
        yield NotRun(level=Level.PROBE, what=what, command=command, minutes=minutes)
    yield from _unsaid(board, Kernels.name, Level.PROBE)


def _hypothesis(board: Board, one: dict[str, Any]) -> HypothesisChanged | None:
    subject = (one["component"], one["backend"])
    return next((h for h in board.hypotheses.values() if (h.component, h.backend) == subject), None)


def _unsaid(board: Board, rung: str, level: Level) -> Iterator[NotRun]:
    """Probes that were made and said nothing of a backend, with the first reason."""
    whys = []
    for called, returned in board.results(TOOLS[rung]):
        if called.rung != rung:
            continue
        output = board.output(called.call)
        if not isinstance(output, dict):
            whys.append(returned.error or returned.status)
        elif Outcome(output["outcome"]) in MACHINE:
            whys.append(output["because"])
    if whys:
        yield NotRun(level=level, what=f"{len(whys)} of the {rung}s said nothing: {shorten(whys[0], 120)}")


def halted(board: Board) -> tuple[str, int, str] | None:
    """Why it cannot end with an answer alone: probes that were asked for were refused, or lacked something.
    The reason, exit code and words of the end; None where it can."""
    early = None
    # Not those that were made again since: what stopped them did not stop the next.
    made = [one for tool in (PLAN, GPUS, Compiling.tool, Kernels.tool) for one in board.results(tool)]
    for called, returned in made:
        if called.rung not in (Planning.name, *TRIED):
            continue
        if returned.status in ("denied", "error"):
            lacks = isinstance(returned.output, dict) and returned.output.get("missing")
            why = returned.error or f"{called.tool} gave no result"
            if returned.status == "denied":
                why = f"{why}; go on with: agent resume --run {PROBES}"
            return ("missing", 3, why) if lacks else ("stopped", 4, why)
        if (stopped := stopped_early(board.output(called.call))) is not None:
            early = ("stopped", 4, stopped)
    return early
