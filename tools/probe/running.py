"""A packed plan, run in a folder of its own below the home.

What was killed goes on where it was, and what has a row is not run again. What runs is foreign: under the
environment's own interpreter, with what a child may see.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory.artifacts import Artifacts
from memory.home import Home
from tools.base import ToolError
from tools.environment.caches import cache_of
from tools.environment.child import allowed_environment, run_child
from tools.environment.full import interpreter
from tools.environment.model import Environment
from tools.environment.store import open_for
from tools.probe.pack import pack
from tools.probe.plan import Plan
from tools.probe.results import Measured, plan_of, read_results
from tools.source.tree import read_head

SLACK = 120.0
"""Seconds beyond the limits of all cells: starting workers, waiting for the GPU's memory."""
WORDS = 300
LACKING, STOPPED_EARLY = 3, 4
"""Exit codes of ``run.py``."""
STOPPED = "stopped early"
"""What a row says of a cell whose turn did not come."""


def run_packed(
    context: Any,
    environment: str,
    sha256: str,
    cells: Sequence[str],
    *arguments: str,
    cold: bool = False,
) -> tuple[Plan, Path, dict[str, Measured]]:
    """Run ``cells`` of a plan; returns the plan, its folder, and a row for each cell. ``arguments``: more for
    ``run.py``; ``cold``: without what was compiled before.

    Raises :class:`ToolError` where it did not come to its end, in the words of the program."""
    opened = open_for(context, environment)
    plan = plan_of(Artifacts(context.home.artifacts), sha256)
    if opened.fingerprint != plan.fingerprint:
        raise ToolError(f"plan {sha256[:12]} is of {plan.environment}, not of {opened.name}")
    # An investigation has a folder of its own: the same plan tried in another one is measured anew.
    folder = _packed(plan, sha256, context.home, str(getattr(context, "transcript", "")))
    chosen = [f"--cell={cell}" for cell in dict.fromkeys(cells)]
    if not cold:
        chosen.append(f"--cache={cache_of(context.home, opened.fingerprint)}")
    code, said = _run(folder, opened, plan, [*arguments, *chosen], cells, context)
    path = folder / "results.jsonl"
    rows = read_results(path.read_bytes()).rows if path.is_file() else {}
    why = said if code else f"there is no row; look at {folder}"
    if not set(cells) & set(rows):
        raise ToolError(why, missing=code == LACKING, whole=True)
    # They would have run where the others did.
    last = next(reversed(rows.values()))
    lost = {cell: Measured(_untried(cell, why), last.here, last.header) for cell in cells if cell not in rows}
    return plan, folder, {**rows, **lost}


def _untried(cell: str, why: str) -> dict[str, Any]:
    """A row of a cell whose turn did not come."""
    return {"cell": cell, "ended": "unfit", "error": {"type": STOPPED, "message": why}}


def stopped_early(output: Any) -> str | None:
    """Why a result is of a cell whose turn did not come; None for any other."""
    measured = output.get("measured") if isinstance(output, dict) else None
    error = measured.get("error") if isinstance(measured, dict) else None
    return str(error.get("message")) if isinstance(error, dict) and error.get("type") == STOPPED else None


def _packed(plan: Plan, sha256: str, home: Home, investigation: str) -> Path:
    """The plan's folder below the home, made where it is not there."""
    folder = home.root / "probes" / (investigation or "by-hand") / sha256[:16]
    if not (folder / "plan.json").is_file():  # written last
        shutil.rmtree(folder, ignore_errors=True)
        pack(plan, folder, home)
    return folder


def runner_of(environment: Environment) -> Path:
    """What runs probes in an environment. Raises :class:`ToolError` where it is only read."""
    if (python := interpreter(environment)) is None:
        raise ToolError(
            f"{environment.name} is only read; probes need a full one: agent environment create --full, "
            "or run them elsewhere: agent probe pack",
            missing=True,
            whole=True,
        )
    return python


def _run(
    folder: Path,
    environment: Environment,
    plan: Plan,
    arguments: Sequence[str],
    cells: Sequence[str],
    context: Any,
) -> tuple[int, str]:
    """How it ended: 0 at its end, else ``run.py``'s own code, and why in one line."""
    python = runner_of(environment)
    command = [str(python), "-P", "run.py", *arguments]
    output = folder / "run.log"
    limits = {cell.id: cell.seconds for cell in plan.cells}
    ended = run_child(
        command,
        environment=allowed_environment(
            os.environ, lambda name: name.startswith(("CUDA", "NVIDIA", "LD_LIB", "CPATH"))
        ),
        folder=folder,
        output=output,
        seconds=sum(limits[cell] for cell in cells) + SLACK,
        memory=None,
    )
    said = [line for line in read_head(output).splitlines() if line.strip()]
    for line in said:
        context.progress(line)
    if ended.timed_out:
        return STOPPED_EARLY, f"the probes came to no end in time; look at {output}"
    return ended.code or 0, said[-1][
        :WORDS
    ] if said else f"the probes ended with {ended.code}; look at {output}"
