"""``probe_kernel``: a kernel is run on a GPU of this machine, under the environment's own interpreter.

What runs is the packed plan (:mod:`tools.probe.pack`), in a folder of its own below the home: what was killed
goes on where it was, and what has a row is not run again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from memory.artifacts import Artifacts
from memory.home import Home
from memory.terms import Level
from memory.vocabulary import Effect
from tools.base import ToolContext, ToolError, tool
from tools.environment.child import allowed_environment, run_child
from tools.environment.full import interpreter
from tools.environment.model import Environment
from tools.environment.store import open_for
from tools.probe.importing import Artifact, ProbeResult, result_of
from tools.probe.pack import pack
from tools.probe.plan import Plan
from tools.probe.results import plan_of, read_results
from tools.source.tree import read_head

SLACK = 120.0
"""Seconds beyond the limits of all cells: starting workers, waiting for the GPU's memory."""
WORDS = 300


class ProbeKernel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str
    plan: Artifact
    cell: str
    gpu: str | None = None
    """Index or UUID; else the first that nobody uses."""


@tool(effect=Effect.USES_GPU)
def probe_kernel(args: ProbeKernel, context: ToolContext) -> ProbeResult:
    """Run one cell of a plan on a GPU of this machine: the kernel alone, checked, repeated and timed."""
    return next(iter(probe_many(context, [args])))


def probe_many(context: Any, asked: Sequence[ProbeKernel]) -> Iterator[ProbeResult]:
    """The same for many cells, one worker for all as long as nothing breaks. Results in the order asked."""
    first = asked[0]
    environment = open_for(context, first.environment)
    plan = plan_of(Artifacts(context.home.artifacts), first.plan)
    if environment.fingerprint != plan.fingerprint:
        raise ToolError(f"plan {first.plan[:12]} is of {plan.environment}, not of {environment.name}")
    # An investigation has a folder of its own: the same plan tried in another one is measured anew.
    folder = packed(plan, context.home, str(getattr(context, "transcript", "")))
    mine = [one for one in asked if one.plan == first.plan]
    ended = _run(folder, environment, plan, [one.cell for one in mine], first.gpu, context)
    rows = read_results((folder / "results.jsonl").read_bytes()).rows if ended is None else {}
    cells = {cell.id: cell for cell in plan.cells}
    for one in mine:
        if one.cell not in rows:
            raise ToolError(ended or f"{one.cell} has no row; look at {folder}", missing=ended is not None)
        yield result_of(plan, cells[one.cell], rows[one.cell], Level.PROBE)


def packed(plan: Plan, home: Home, investigation: str) -> Path:
    """The plan's folder below the home, made where it is not there."""
    folder = home.root / "probes" / (investigation or "by-hand") / plan.sha256[:16]
    if not (folder / "plan.json").is_file():
        pack(plan, folder, home)
    return folder


def _run(
    folder: Path, environment: Environment, plan: Plan, cells: Sequence[str], gpu: str | None, context: Any
) -> str | None:
    """None where it came to its end, else why not, in one line."""
    python = interpreter(environment)
    if python is None:
        raise ToolError(
            f"{environment.name} is only read; probes need a full one: agent environment create --full, "
            "or run them elsewhere: agent probe pack",
            missing=True,
        )
    command = [str(python), "-P", "run.py"]
    for cell in cells:
        command += ["--cell", cell]
    if gpu is not None:
        command += ["--gpu", gpu]
    output = folder / "run.log"
    limits = {cell.id: cell.seconds for cell in plan.cells}
    ended = run_child(
        command,
        environment=allowed_environment(
            os.environ, lambda name: name.startswith(("CUDA", "NVIDIA", "LD_LIB"))
        ),
        folder=folder,
        output=output,
        seconds=sum(limits[cell] for cell in cells) + SLACK,
        memory=None,
    )
    said = [line for line in read_head(output).splitlines() if line.strip()]
    for line in said:
        context.progress(line)
    if ended.code == 0 and not ended.timed_out:
        return None
    return said[-1][:WORDS] if said else f"the probes ended with {ended.code}; look at {output}"
