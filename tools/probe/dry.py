"""``probe_dry_run``: what an engine settles at start-up beside a simulated device, or where it refuses.

Says what the engine's own code decides there, and nothing of any kernel: it is never "works".
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from memory.architecture import Architecture, gpus
from memory.terms import Level
from memory.vocabulary import Effect
from tools.base import ToolContext, ToolError, tool
from tools.engines.adapter import engine as engine_of
from tools.engines.options import Option, backend_options, discover_options
from tools.environment.model import Environment
from tools.probe.batch import AskedCell, run_batch
from tools.probe.importing import ProbeResult
from tools.probe.pack import make_plan
from tools.probe.plan import Cell, Plan

_DATA = Path(__file__).with_name("data") / "dry_run.toml"
ALONE = "left alone"
"""The cell in which no backend is asked for."""
SECONDS = 300.0


class ProbeDryRun(AskedCell):
    pass


@cache
def dry_runs() -> dict[str, Any]:
    return tomllib.loads(_DATA.read_text(encoding="utf-8"))


def plan_dry_run(
    environment: Environment,
    engine: str,
    arch: Architecture,
    components: Sequence[str],
    backends: Sequence[str],
    config: str | None,
) -> Plan:
    """A cell for each backend that the installed engine can be told. Raises :class:`ToolError`."""
    known = dry_runs()["engine"].get(engine)
    if known is None:
        raise ToolError(
            f"no dry run of {engine} is known; there is one of: {', '.join(dry_runs()['engine'])}"
        )
    options = [one for one in backend_options(discover_options(environment.tree(), engine)) if one.flag]
    names = sorted({one.component for one in options})
    if unknown := [name for name in components if name not in names]:
        raise ToolError(f"{engine} has no component {unknown[0]!r} here; it has {', '.join(names)}")
    chosen = [one for one in options if not components or one.component in components]
    shared = {
        **{key: known[key] for key in ("entry", "packages", "blank", "warm", "settled")},
        "device": _device(arch),
        "model": engine_of(engine).launch.model,
        "config": json.loads(config or dry_runs()["model"]["config"]),
        "fields": {one.component: one.field for one in chosen},
    }
    cells = [
        _cell(one, value, arch, shared)
        for one in chosen
        for value in (ALONE, *(each.value for each in one.values))
        if not backends or value in backends
    ]
    if not cells:
        raise ToolError(f"no backend {', '.join(backends)} of {', '.join(names)} here")
    plan = make_plan(environment, cells)
    packages = {name: version for name, version in environment.packages.items() if name == engine}
    return plan.model_copy(update={"libraries": packages})


def _cell(option: Option, value: str, arch: Architecture, shared: dict[str, Any]) -> Cell:
    words = [] if value == ALONE else [str(option.flag), value]
    return Cell(
        id=f"{option.component} {value} on {arch.name}",
        kind="dry",
        component=option.component,
        backend=value,
        choice=None if value == ALONE else value,
        arch=arch.name,
        seconds=SECONDS,
        scenario={"device": "simulated"},
        given={**shared, "words": words},
    )


def _device(arch: Architecture) -> dict[str, Any]:
    """What the device answers: the first product of the architecture, with its memory."""
    default = dry_runs()["device"]
    product = next((gpu for gpu in gpus() if gpu.architecture == arch), None)
    memory = product.memory_gib if product is not None else default["memory_gib"]
    return {
        "name": product.name if product is not None else f"simulated {arch.name}",
        "major": arch.major,
        "minor": arch.minor,
        "memory": memory << 30,
        "processors": default["processors"],
        "cuda": default["cuda"],
        "count": 1,
    }


@tool(effect=Effect.EXECUTES_FOREIGN_CODE)
def probe_dry_run(args: ProbeDryRun, context: ToolContext) -> ProbeResult:
    """Make an engine's options beside a simulated device: what a backend resolves to, or what refuses it."""
    return next(iter(dry_many(context, [args])))


def dry_many(context: Any, asked: Sequence[ProbeDryRun]) -> Iterator[ProbeResult]:
    """The same for many cells: the engine is imported once for all of them."""
    yield from run_batch(context, asked, Level.COMPILE, "--cpu")[-1]
