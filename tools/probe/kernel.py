"""``probe_kernel`` runs a kernel on a GPU of this machine; ``probe_compile`` compiles one, without a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field

from memory.architecture import parse_architecture
from memory.terms import Level, Outcome
from memory.vocabulary import Effect
from tools.base import ToolContext, tool
from tools.binaries.cubin import Kernel
from tools.binaries.elf import BinaryError
from tools.binaries.emptied import kernels_for
from tools.binaries.library import read_compiled
from tools.environment.caches import cache_of
from tools.probe.batch import AskedCell, run_batch
from tools.probe.importing import ProbeResult

MOST_EMPTY = 50
"""Kernels that were compiled to nothing and are named."""


class ProbeKernel(AskedCell):
    gpu: str | None = None
    """Index or UUID; else the first that nobody uses."""
    minutes: float | None = Field(default=None, gt=0)
    """For all cells that are asked for together; what is left then is not run."""


class ProbeCompile(AskedCell):
    cold: bool = False
    """Without what was compiled before."""


@tool(effect=Effect.USES_GPU)
def probe_kernel(args: ProbeKernel, context: ToolContext) -> ProbeResult:
    """Run one cell of a plan on a GPU of this machine: the kernel alone, checked, repeated and timed."""
    return next(iter(probe_many(context, [args])))


def probe_many(context: Any, asked: Sequence[ProbeKernel]) -> Iterator[ProbeResult]:
    """The same for many cells, one worker for all as long as nothing breaks. Results in the order asked."""
    first = asked[0]
    chosen = [] if first.gpu is None else [f"--gpu={first.gpu}"]
    chosen += [] if first.minutes is None else [f"--minutes={first.minutes}"]
    yield from run_batch(context, asked, Level.PROBE, *chosen)[-1]


@tool(effect=Effect.EXECUTES_FOREIGN_CODE)
def probe_compile(args: ProbeCompile, context: ToolContext) -> ProbeResult:
    """Have the library compile the module that a backend uses on an architecture; no GPU is needed."""
    return next(iter(compile_many(context, [args])))


def compile_many(context: Any, asked: Sequence[ProbeCompile]) -> Iterator[ProbeResult]:
    """The same for many modules, one after the other: a compiler takes all the cores that there are."""
    plan, folder, results = run_batch(context, asked, Level.COMPILE, "--cpu", cold=asked[0].cold)
    places = (folder, cache_of(context.home, plan.fingerprint))
    for result in results:
        yield _with_code(result, places) if result.outcome is Outcome.OK else result


def _with_code(result: ProbeResult, places: Sequence[Path]) -> ProbeResult:
    """The targets of what was compiled, and its kernels that are empty; without code for the architecture, or
    with empty kernels alone, it failed all the same."""
    targets, runs, kernels = _code(places, result.measured, str(result.cell.arch))
    empty = sorted(kernel.name for kernel in kernels if kernel.stub)
    outcome = Outcome.OK if runs and (not kernels or len(empty) < len(kernels)) else Outcome.COMPILE_FAILED
    if not targets and result.cell.units:
        outcome = Outcome.NOT_RUN  # units without kernels decide nothing
    told = ", ".join(f"{name} ({count})" for name, count in targets.items()) or "none"
    words = f"{result.because}; code for: {told}"
    if kernels:
        words += f"; {len(kernels)} kernels, {len(empty) or 'none'} of them empty"
    update = {"targets": targets, "outcome": outcome, "because": words, "empty": empty[:MOST_EMPTY]}
    return result.model_copy(update=update)


def _code(
    places: Sequence[Path], row: dict[str, Any], arch: str
) -> tuple[dict[str, int], bool, list[Kernel]]:
    """Images in the objects of a row by target, whether any of them runs on ``arch``, and its kernels."""
    found: Counter[str] = Counter()
    runs = False
    kernels: list[Kernel] = []
    for name in row["compiled"].get("objects", ()):
        path = Path(str(name))
        if not any(map(path.is_relative_to, places)):
            continue  # what a row says is data: nothing else is opened
        try:
            compiled = read_compiled(path)
        except BinaryError:
            continue
        with suppress(BinaryError):
            kernels += kernels_for(path, parse_architecture(arch))
        runs = runs or compiled.runs_on(parse_architecture(arch)) is True
        found.update({target: count for (_, target), count in compiled.targets.items()})
    return dict(sorted(found.items())), runs, kernels
