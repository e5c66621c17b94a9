"""``plan_probes``: from the functions that an engine's backends lead to, the probes that would test them.

A backend is tested by the operations that its trace passes through. Which of a function's own backends it is,
its name says: ``x_cutlass`` is ``cutlass`` where there is one; else, and in a class, the library chooses.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from memory.architecture import Architecture, ArchitectureError, parse_architecture
from memory.artifacts import Artifacts
from memory.vocabulary import Effect
from tools.base import ToolContext, ToolError, tool
from tools.environment.full import interpreter
from tools.environment.model import Environment
from tools.environment.store import open_for
from tools.hardware.programs import NVCC
from tools.probe.judge import AUTO
from tools.probe.pack import make_plan
from tools.probe.plan import Cell, Plan, backends_of, cells_of, modules_of, operations

QUANTISATION = "quantisation"
_PARTS = re.compile("[_-]")
_NAME = re.compile(r"\w+")


class Reached(BaseModel):
    """A backend of an engine. ``names``: of functions and classes on its way; ``runs``: the backend that it
    leads to, where that is another."""

    model_config = ConfigDict(extra="forbid")

    component: str
    backend: str
    runs: str | None = None
    names: tuple[str, ...] = ()


class PlanProbes(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str
    arch: str
    quantisation: str | None = None
    """The model's; operations on others are not planned."""
    reached: tuple[Reached, ...]
    units: int = Field(default=1, ge=0)
    """The last so many units of a module are compiled; 0: all."""


class Planned(BaseModel):
    """``component`` and ``backend`` are the engine's; ``cell`` is one of ``plan``, ``seconds`` its limit."""

    component: str
    backend: str
    kind: str
    plan: str
    cell: str
    seconds: float


class PlannedProbes(BaseModel):
    """``full``: whether the environment can run them; ``compiler``: whether there is one."""

    environment: str
    full: bool
    compiler: bool
    probes: list[Planned]
    without: list[str]
    """Backends, as ``COMPONENT BACKEND``, of which no operation can be tried."""


@tool(effect=Effect.READS)
def plan_probes(args: PlanProbes, context: ToolContext) -> PlannedProbes:
    """Plan compile and kernel probes for backends of an engine, from the functions that they lead to."""
    environment = open_for(context, args.environment)
    try:
        arch = parse_architecture(args.arch).base
    except ArchitectureError as error:
        raise ToolError(str(error)) from error
    found = {
        "compile": _there(partial(modules_of, environment, arch, (), (), args.units)),
        "kernel": _there(partial(cells_of, environment)),
    }
    chosen = {
        (kind, one.component, one.backend): [
            cell for cell in cells if _tests(cell, one, environment, args.quantisation)
        ]
        for kind, cells in found.items()
        for one in args.reached
    }
    kept = Artifacts(context.home.artifacts)
    probes: list[Planned] = []
    for kind, cells in found.items():
        mine = {key: value for key, value in chosen.items() if key[0] == kind}
        used = [cell for cell in cells if any(cell in some for some in mine.values())]
        if used:
            sha256 = kept.put(_plan(environment, used, arch, kind).text().encode())
            probes += [
                Planned(
                    component=component,
                    backend=backend,
                    kind=kind,
                    plan=sha256,
                    cell=cell.id,
                    seconds=cell.seconds,
                )
                for (_, component, backend), some in mine.items()
                for cell in some
            ]
    tested = {(one.component, one.backend) for one in probes}
    return PlannedProbes(
        environment=environment.name,
        full=interpreter(environment) is not None,
        compiler=shutil.which(NVCC) is not None,
        probes=probes,
        without=[
            f"{one.component} {one.backend}"
            for one in args.reached
            if (one.component, one.backend) not in tested
        ],
    )


def names_on(trace: Mapping[str, Any]) -> tuple[str, ...]:
    """The names on the way that a trace found, from the layer to the line that decides."""
    hops = trace.get("hops", ())
    return tuple(sorted({name for hop in hops for name in _NAME.findall(f"{hop['says']} {hop['text']}")}))


def modules_reached(
    cells: Sequence[Cell], component: str, backend: str, traces: Sequence[Mapping[str, Any]], of: Environment
) -> list[Cell]:
    """Those of ``cells``, modules of the libraries of ``of``, that a backend leads to by the first of its
    ``traces`` that leads to any."""
    for trace in traces:
        runs = trace["row"]["runs_instead"]
        one = Reached(component=component, backend=backend, runs=runs, names=names_on(trace))
        if found := [cell for cell in cells if _tests(cell, one, of, None)]:
            return found
    return []


def _plan(environment: Environment, cells: list[Cell], arch: Architecture, kind: str) -> Plan:
    return make_plan(environment, cells, arch if kind == "compile" else None)


def _there(cells: partial[tuple[Cell, ...]]) -> tuple[Cell, ...]:
    try:
        return cells()
    except ToolError:
        return ()  # the environment holds no library of which an operation is known


def _tests(cell: Cell, one: Reached, environment: Environment, quantisation: str | None) -> bool:
    """Whether the cell is of an operation that the backend leads to, as the backend calls it."""
    operation = operations()["operation"].get(cell.operation, {})
    function = operation.get("function", cell.function)
    if cell.component != one.component or function.partition(":")[2] not in one.names:
        return False
    if cell.kind == "kernel" and quantisation is not None:
        made_for = operation.get("scenario", {}).get(QUANTISATION)
        if made_for is not None and made_for.partition("_")[0] != quantisation:
            return False  # "fp8_block" is one of several kinds of "fp8"
    if cell.choice is None:
        return True
    if not operation:
        return cell.choice in _PARTS.split(one.backend)  # not where it is only what is fallen back to
    if function.partition(":")[2][0].isupper():
        return cell.choice == AUTO  # a wrapper that an engine makes and plans
    return cell.choice in _meant(one.runs or one.backend, backends_of(environment, function) or ())


def _meant(backend: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    """Which of an operation's backends the engine's is: those in its name, else the library's own choice."""
    parts = {backend, *_PARTS.split(backend)}
    return tuple(one for one in choices if one in parts) or (AUTO,)
