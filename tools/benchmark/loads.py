"""All loads on one server, one after the other: a warm-up that is thrown away, a ladder, one long context.

The server stays the same for all of them; who calls :func:`measured` has seen it pass the quality gate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from memory.home import Home
from memory.terms import Outcome
from tools.benchmark.cell import Cell, Client
from tools.benchmark.generator import Load, generator_of
from tools.engines.adapter import engine as profile
from tools.environment.full import interpreter
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.quality.client import Request, Server

PER_PLACE = 5
"""Requests for each place at the server: fewer are all beginning and end."""
LEAST = 32
LEAST_LONG = 8
ALIVE = 60.0
"""Seconds for one token, of a server that a load had to be taken away from."""


class Loads(BaseModel):
    """What is asked of one server. ``long``: input tokens of one more load, at the lowest concurrency."""

    model_config = ConfigDict(extra="forbid")

    concurrency: tuple[Annotated[int, Field(ge=1, le=4096)], ...] = Field(
        default=(1, 4, 16), min_length=1, max_length=24
    )
    input: int = Field(default=1024, ge=1, le=1 << 22)
    output: int = Field(default=256, ge=1, le=1 << 20)
    long: int | None = Field(default=None, ge=1, le=1 << 22)
    least: int = Field(default=LEAST, ge=1, le=100_000)
    """Requests of a load, where five for each place are fewer."""
    warmup: bool = True
    seed: int = Field(default=1, ge=0)
    minutes: float = Field(default=60, gt=0, le=1440)
    """For all loads."""
    tokenizer: str | None = None
    """Folder or name of the model's tokenizer, where the generator cannot ask the server."""

    def plan(self) -> Iterator[tuple[Load, bool]]:
        """Each load, and whether it is thrown away."""
        levels = sorted(set(self.concurrency))
        if self.warmup:
            prompts = max(2 * levels[-1], 4)
            yield Load(levels[-1], self.input, self.output, prompts, self.seed + 1_000_000), True
        for level in levels:
            prompts = max(PER_PLACE * level, self.least)
            yield Load(level, self.input, self.output, prompts, self.seed + level), False
        if self.long is not None:
            prompts = max(PER_PLACE * levels[0], min(self.least, LEAST_LONG))
            yield Load(levels[0], self.long, self.output, prompts, self.seed), False


class Measured(BaseModel):
    """``overhead``: seconds that we took beside the generator, over all loads. ``itl``: see ``Generator``."""

    outcome: Outcome
    because: str
    generator: str
    version: str
    itl: str
    environment: str
    fingerprint: str
    cells: list[Cell]
    seconds: float
    overhead: float


def measured(
    loads: Loads,
    *,
    home: Home,
    environment: Environment,
    engine: str,
    url: str,
    model: str,
    key: str | None,
    python: Path | None,
    site: Path | None,
    tell: Callable[[str], None],
) -> Measured:
    """Run all loads; stops where the server is gone. Raises :class:`ToolError` where there is no generator.

    ``python``, ``site``: what runs the generator where the environment does not say.
    """
    generator = generator_of(environment, engine)
    python = runner_of(environment, python)
    client = Client(
        home, environment, generator, python=python, site=site, url=url, model=model, key=key,
        tokenizer=loads.tokenizer, tell=tell,
    )  # fmt: skip
    began = time.monotonic()
    cells: list[Cell] = []
    for load, warmup in loads.plan():
        left = 60 * loads.minutes - (time.monotonic() - began)
        if left <= 0:
            tell(f"the {loads.minutes:g} minutes are over: not all loads were run")
            break
        try:
            cell = client.run(load, warmup=warmup, seconds=left)
        except OSError as error:
            lacks = isinstance(error, FileNotFoundError | PermissionError)
            why = f"cannot run {generator.name} with {python} ({error.strerror or error})"
            raise ToolError(why, missing=lacks) from None
        if cell.outcome is not Outcome.OK:
            cell = _judged(cell, Server(url, model, key))
            tell(f"c={cell.concurrency}: not believed: {cell.refused[0]}")
        cells.append(cell)
        if cell.outcome in (Outcome.CRASHED, Outcome.HUNG):
            break
        if cell.code and cell.raw is None:
            tell("the generator itself does not run here: no other load is tried")
            break
    outcome, because = _concluded(cells, loads)
    return Measured(
        outcome=outcome,
        because=because,
        generator=generator.name,
        version=_version(environment, engine),
        itl=generator.itl,
        environment=environment.name,
        fingerprint=environment.fingerprint,
        cells=cells,
        seconds=sum(cell.seconds for cell in cells),
        overhead=sum(cell.overhead for cell in cells),
    )


def runner_of(environment: Environment, python: Path | None) -> Path:
    """What runs the generator. Raises :class:`ToolError` where there is nothing."""
    if (found := python or interpreter(environment)) is None:
        raise ToolError(
            f"{environment.name} is only read; a load generator runs: agent environment create --full, or a "
            "person names an interpreter: --python PATH",
            missing=True,
        )
    return found


def _judged(cell: Cell, server: Server) -> Cell:
    """A load that went wrong, with what became of the server: gone, silent, or neither."""
    [answer] = server.ask([Request("1 2 3", 1)], in_flight=1, seconds=ALIVE)
    if answer.ended in ("unreachable", "broken"):
        gone = [f"the server is gone: {answer.error}", *cell.refused]
        return cell.model_copy(update={"outcome": Outcome.CRASHED, "refused": gone})
    if answer.ended == "timed_out":
        silent = [f"the server gives no token any more: {answer.error}", *cell.refused]
        return cell.model_copy(update={"outcome": Outcome.HUNG, "refused": silent})
    if cell.outcome is Outcome.HUNG:
        return cell.model_copy(update={"outcome": Outcome.NOT_RUN})  # it lives: the time was too short
    return cell


def _concluded(cells: list[Cell], loads: Loads) -> tuple[Outcome, str]:
    """The first that went wrong because of the server, else how many may be believed."""
    for cell in cells:
        if cell.outcome not in (Outcome.OK, Outcome.NOT_RUN):
            return cell.outcome, f"c={cell.concurrency}, {cell.input}+{cell.output}: {cell.refused[0]}"
    good = [cell for cell in cells if not cell.warmup and cell.outcome is Outcome.OK]
    wanted = sum(not warmup for _, warmup in loads.plan())
    if not good:
        bad = next((cell.refused[0] for cell in cells if cell.refused), "the time was too short")
        return Outcome.NOT_RUN, f"no load can be believed: {bad}"
    best = max(good, key=lambda cell: cell.figures["output_throughput"].value)
    told = f"{len(good)} of {wanted} loads measured; "
    return Outcome.OK, told + (
        f"most output at c={best.concurrency}: {best.figures['output_throughput'].value:.1f} tok/s"
    )


def _version(environment: Environment, engine: str) -> str:
    """The version of what the generator is part of; builds for other devices have names of their own."""
    name = profile(engine).distribution
    built = (v for one, v in environment.packages.items() if one == name or one.startswith(f"{name}-"))
    return environment.packages.get(name) or next(built, "?")
