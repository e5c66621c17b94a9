"""``agent probe compile``: what a library would have compiled for an architecture, compiled without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import emit, engine_option, json_option, progress, say, table
from agent.cli.probe import (
    ALL,
    WORDS,
    environment_named,
    opens,
    outcome_lines,
    outcomes,
    run_recorded,
    runs_in,
)
from agent.text import safe

if TYPE_CHECKING:
    from agent.board import Board
    from memory.architecture import Architecture
    from tools.environment.model import Environment
    from tools.probe.plan import Cell


@click.command("compile")
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@click.option("--arch", required=True, metavar="ARCH", help="Architecture or GPU that is compiled for.")
@click.option("-e", "--environment", metavar="NAME|PATH", help="The full environment whose library compiles.")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@click.option(
    "--units", type=click.IntRange(0), default=0, metavar="N", help="Only the last N units of a module."
)
@click.option("--cold", is_flag=True, help="Without what was compiled before.")
@click.option("--read", "read", metavar="NAME|PATH", help="The environment that is read for it, if another.")
@click.option("--no-read", is_flag=True, help="Do not compare with what reading says of the engine.")
@engine_option
@json_option
def compile_(
    components: tuple[str, ...],
    arch: str,
    environment: str | None,
    backends: tuple[str, ...],
    units: int,
    cold: bool,
    read: str | None,
    no_read: bool,
    engine: str | None,
    as_json: bool,
) -> int:
    """Have the installed library make and compile the modules that its backends use on ARCH, with this nvcc.

    Refused by the library, by the compiler, or compiled, with the targets of the code that came of it; beside
    what reading says of the engine's backends that lead to them. It runs the library's own code, on this
    machine.

    \b
    Examples:
      agent probe compile --arch sm120 -e work
      agent probe compile fp4_gemm --arch sm120 --units 1 -e work --json
    """
    from memory.architecture import parse_architecture
    from memory.artifacts import Artifacts
    from tools.probe.pack import make_plan
    from tools.probe.plan import modules_of

    found = parse_architecture(arch).base
    home, opened = environment_named(environment)
    wanted = [name for name in components if name != ALL]
    plan = make_plan(opened, modules_of(opened, found, wanted, backends, units), found)
    runs_in(opened)
    home.prepare()
    sha256 = Artifacts(home.artifacts).put(plan.text().encode())
    progress(f"{len(plan.cells)} modules for {found.name}")
    options = {"plan": sha256, "environment": plan.environment, "cold": cold or None}
    if not no_read:
        about = opened if read is None else environment_named(read)[1]
        options |= _beside(about, engine, found, {cell.component for cell in plan.cells})
    question = f"what {opened.name} compiles for {found.name}"
    name, concluded, board = run_recorded(home, question, options)
    beside = list(compared(board, opened, plan.cells, found.name))
    if as_json:
        emit({"transcript": name, "summary": concluded.summary, **outcomes(board), "beside": beside})
        return concluded.exit_code
    outcome_lines(board)
    say(
        table(
            [
                [
                    f"{one['component']} {one['backend']}",
                    one["read"],
                    one["cell"],
                    one["agrees"],
                    one["why"][:WORDS],
                ]
                for one in beside
            ]
        )
    )
    said = [one["agrees"] for one in beside]
    counts = ", ".join(f"{said.count(word)} {word}" for word in dict.fromkeys(said))
    say([safe(f"{concluded.summary}; beside reading: {counts or 'not compared'}; transcript {name}")])
    return concluded.exit_code


def _beside(
    environment: Environment, engine: str | None, arch: Architecture, components: set[str]
) -> dict[str, Any]:
    """What is read for comparing: the engine's backends of these components; nothing where there is none."""
    from memory.architecture import parse_architecture
    from tools.engines.adapter import engines
    from tools.engines.options import backend_options, discover_options
    from tools.probe.plan import operations

    name = engine or next((one for one in engines() if one in environment.packages), None)
    if name is None:
        return {}
    options = backend_options(discover_options(environment.tree(), name))
    trace = {"arch": arch.name, "engine": name, "environment": opens(environment)}
    known = sorted({one for module in operations()["module"] for one in module.get("archs", ())})
    first = {parse_architecture(one).major: one for one in reversed(known)}
    return {
        "trace": trace,
        "beside": [
            [one.component, value.value]
            for one in options
            if one.component in components
            for value in one.values
        ],
        "others": [one for major, one in sorted(first.items()) if major != arch.major],
    }


def compared(
    board: Board, environment: Environment, cells: tuple[Cell, ...], arch: str
) -> Iterator[dict[str, Any]]:
    """Each backend of the engine that leads to a module, with what reading says of it and what came of it."""
    from tools.probe.agreeing import compiling
    from tools.probe.reaching import modules_reached

    traces: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for called, _ in board.results("trace_viability"):
        trace = board.output(called.call)
        if isinstance(trace, dict):
            subject = (called.input["component"], called.input["backend"])
            # What is asked about first: other architectures only say which function it is.
            at = 0 if called.input["arch"] == arch else len(traces.get(subject, ()))
            traces.setdefault(subject, []).insert(at, trace)
    results = {
        called.input["cell"]: board.output(called.call) for called, _ in board.results("probe_compile")
    }
    for (component, backend), some in traces.items():
        for cell in modules_reached(cells, component, backend, some, environment):
            result = results.get(cell.id)
            if isinstance(result, dict):
                agrees, why = compiling(result["cell"], result["outcome"], some[0])
                yield {
                    "component": component,
                    "backend": backend,
                    "read": some[0]["row"]["verdict"],
                    "cell": cell.id,
                    "outcome": result["outcome"],
                    "agrees": agrees,
                    "why": why,
                }
