"""``benchmark_server``: a server that somebody else started, checked and then measured at all loads."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from memory.terms import Level, Outcome
from memory.vocabulary import Effect
from tools.base import ToolContext, tool
from tools.benchmark.generator import generator_of
from tools.benchmark.loads import Loads, Measured, measured, runner_of
from tools.environment.store import open_for
from tools.errors import ToolError
from tools.quality.checked import Checked, CheckServer
from tools.quality.gate import check_server


class BenchmarkServer(BaseModel):
    """``check``: how the gate is asked; its ``url`` is the server that is measured."""

    model_config = ConfigDict(extra="forbid")

    check: CheckServer
    environment: str
    """Whose load generator is used: that of the engine which serves."""
    engine: str
    loads: Loads = Field(default_factory=Loads)


class Benchmarked(BaseModel):
    """``benchmark``: None where the gate was not passed."""

    level: Level
    outcome: Outcome
    because: str
    checked: Checked
    benchmark: Measured | None
    gpu: str | None = None
    gpu_count: int | None = None
    driver: str | None = None


@tool(effect=Effect.USES_GPU)
def benchmark_server(args: BenchmarkServer, context: ToolContext) -> Benchmarked:
    """Check a running server and, if it passes, measure it with its engine's own load generator."""
    environment = open_for(context, args.environment)
    python, site = interpreter_of(context)
    generator_of(environment, args.engine)  # before it is asked anything
    runner_of(environment, python)
    checked = check_server.run(args.check, context)
    assert isinstance(checked, Checked)
    if checked.outcome is not Outcome.OK:
        return Benchmarked(
            level=checked.level, outcome=checked.outcome, because=checked.because, checked=checked,
            benchmark=None,
        )  # fmt: skip
    try:
        found = measured(
            args.loads,
            home=context.home,
            environment=environment,
            engine=args.engine,
            url=checked.url,
            model=checked.model,
            key=_key(context, checked.url),
            python=python,
            site=site,
            tell=context.progress,
        )
    except ToolError as error:  # what the check found is not lost
        return Benchmarked(
            level=checked.level, outcome=Outcome.NOT_RUN, because=f"not measured: {error}", checked=checked,
            benchmark=None,
        )  # fmt: skip
    return Benchmarked(
        level=Level.BENCHMARK, outcome=found.outcome, because=found.because, checked=checked, benchmark=found
    )


def interpreter_of(context: Any) -> Any:
    """The interpreter that the person named, and the folder of its packages: for folders of others."""
    return getattr(context, "interpreter", None) or (None, None)


def _key(context: Any, url: str) -> str | None:
    key = context.servers[url]
    return str(key) if key is not None else None
