"""``list_probes`` and ``import_probe``: what a machine elsewhere measured, as results that findings rest on.

The file of results is an artifact, and its plan another: nothing else is read. A result says ``imported``,
since nobody here saw it run.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memory.artifacts import ArtifactError, Artifacts
from memory.home import Home
from memory.terms import Level, Outcome
from memory.vocabulary import Effect
from tools.base import ToolContext, ToolError, tool
from tools.environment.store import open_for
from tools.probe.judge import judged
from tools.probe.plan import Cell, Plan
from tools.probe.results import Measured, Results, plan_of, read_results

Artifact = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ListProbes(BaseModel):
    model_config = ConfigDict(extra="forbid")

    results: Artifact | None = None
    """sha256 of the artifact that the results are; without, all cells of ``plan`` are listed."""
    plan: Artifact | None = None


class Probed(BaseModel):
    id: str
    component: str
    backend: str
    control: bool
    kind: str


class Probes(BaseModel):
    plan: str
    environment: str
    libraries: dict[str, str]
    arch: str | None
    """Of the GPU on which they ran; None where there was none, or several."""
    gpu: str | None
    probes: list[Probed]
    """Cells that have a row, in the order of the plan."""
    missing: list[str]
    """Cells of the plan that have none."""
    torn: bool
    """Whether the last line was cut off: its cell is missing."""


class ImportProbe(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str
    """The environment that was packed."""
    results: Artifact
    cell: str


class ProbeResult(BaseModel):
    """``measured``: the row as it was written there; ``because``: one sentence that says what it shows."""

    level: Level
    outcome: Outcome
    because: str
    signature: str | None
    arch: str | None
    gpu: str | None
    driver: str | None
    seconds: float
    fingerprint: str
    """Of the environment that was packed."""
    plan: str
    cell: Cell
    here: dict[str, Any]
    """Versions on that machine."""
    targets: dict[str, int] = Field(default_factory=dict)
    """Of what was compiled: how many images there are for each target."""
    empty: list[str] = Field(default_factory=list)
    """Kernels of what was compiled that only return on that architecture."""
    measured: dict[str, Any]


@tool(effect=Effect.READS)
def list_probes(args: ListProbes, context: ToolContext) -> Probes:
    """List what a plan tries, or what results from another machine hold of it: cells, and the GPU."""
    if args.results is None:
        if args.plan is None:
            raise ToolError("neither results nor a plan are named; give the sha256 of one")
        whole = plan_of(Artifacts(context.home.artifacts), args.plan)
        return _listed(whole, Results(args.plan), [cell.id for cell in whole.cells])
    plan, results = _opened(context.home, args.results)
    return _listed(plan, results, [cell.id for cell in plan.cells if cell.id in results.rows])


def _listed(plan: Plan, results: Results, there: list[str]) -> Probes:
    archs = {one.arch for one in results.rows.values()}
    gpus = {one.gpu for one in results.rows.values()}
    return Probes(
        plan=results.plan,
        environment=plan.environment,
        libraries=plan.libraries,
        arch=archs.pop() if len(archs) == 1 else None,
        gpu=gpus.pop() if len(gpus) == 1 else None,
        probes=[
            Probed(
                id=cell.id,
                component=cell.component,
                backend=cell.backend,
                control=cell.kind == "control",
                kind=cell.kind,
            )
            for cell in plan.cells
            if cell.id in there
        ],
        missing=[cell.id for cell in plan.cells if cell.id not in there],
        torn=results.torn,
    )


@tool(effect=Effect.READS)
def import_probe(args: ImportProbe, context: ToolContext) -> ProbeResult:
    """Read what a machine elsewhere measured of one cell of a plan that was packed here."""
    plan, results = _opened(context.home, args.results)
    environment = open_for(context, args.environment)
    if environment.fingerprint != plan.fingerprint:
        raise ToolError(
            f"these results are of {plan.environment} ({plan.fingerprint[:12]}), "
            f"not of {environment.name} ({environment.fingerprint[:12]}); name that environment"
        )
    cell = next((one for one in plan.cells if one.id == args.cell), None)
    measured = results.rows.get(args.cell)
    if cell is None or measured is None:
        raise ToolError(f"there is no row of {args.cell!r} in these results; see: agent probe import --json")
    return result_of(plan, results.plan, cell, measured, Level.IMPORTED)


def result_of(plan: Plan, sha256: str, cell: Cell, measured: Measured, level: Level) -> ProbeResult:
    """What a row says, in the words of the project; ``sha256`` of the plan as it was packed. A kernel that
    was rehearsed without a GPU was not run."""
    try:
        found = judged(cell, measured.row)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        # Of others: what it holds may be anything.
        raise ToolError(f"the row of {cell.id} is none that run.py writes ({type(error).__name__})") from None
    outcome, because = found.outcome, found.because
    arch = cell.arch if cell.kind in ("compile", "dry") else measured.arch
    if arch is None and measured.header:
        outcome, because = Outcome.NOT_RUN, f"rehearsed without a GPU: {because}"
    seconds = measured.row.get("seconds")
    return ProbeResult(
        level=level,
        outcome=outcome,
        because=because,
        signature=found.signature,
        arch=arch,
        gpu=measured.gpu,
        driver=measured.driver,
        seconds=float(seconds) if isinstance(seconds, int | float) else 0.0,
        fingerprint=plan.fingerprint,
        plan=sha256,
        cell=cell,
        here=measured.here,
        measured=measured.row,
    )


def _opened(home: Home, results: str) -> tuple[Plan, Results]:
    artifacts = Artifacts(home.artifacts)
    try:
        read = read_results(artifacts.get(results))
    except ArtifactError as error:
        raise ToolError(str(error)) from None
    plan = plan_of(artifacts, read.plan)
    check_cells(plan, read)
    return plan, read


def check_cells(plan: Plan, results: Results) -> None:
    """Raises :class:`ToolError` unless every row is of a cell of the plan."""
    known = {cell.id for cell in plan.cells}
    if strange := [name for name in results.rows if name not in known]:
        raise ToolError(f"a row of {strange[0][:80]!r} is of no cell of the plan {results.plan[:12]}")
