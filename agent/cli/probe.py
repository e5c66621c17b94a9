"""``agent probe``: kernels are run, alone, here or on a machine that has a GPU and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.cli.common import CommandError, Finite, emit, json_option, progress, redactor, say, table, the_home
from agent.cli.lazy import Branching
from agent.cli.run_options import RUNS, Running
from agent.text import safe

if TYPE_CHECKING:
    from agent.board import Board
    from memory.home import Home
    from tools.environment.model import Environment
    from tools.probe.plan import Plan
    from transcripts.events import Concluded

Function = TypeVar("Function", bound=Callable[..., Any])
ALL = "all"
WORDS = 90
"""Characters of what was seen, on the screen; all of it is in ``--json``."""


class Probe(Branching):
    branches = {  # noqa: RUF012
        "pack": "agent.cli.probe:pack",
        "import": "agent.cli.probe:import_",
        "compile": "agent.cli.probe_compile:compile_",
        "dry-run": "agent.cli.probe_dry:dry_run",
    }


def cell_options(function: Function) -> Function:
    """``--model-config`` and ``--tp``: whose sizes are tried; ``--seconds``: for how long."""
    function = click.option(
        "--seconds",
        type=Finite(min=1),
        metavar="N",
        help="The most that a cell may take, compiling included.",
    )(function)
    function = click.option(
        "--tp", type=click.IntRange(1), default=1, metavar="N", help="Divided over so many ranks."
    )(function)
    return click.option(
        "--model-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A config.json: its model's sizes, else usual ones.",
    )(function)


@click.command(cls=Probe)
@click.argument("components", nargs=-1, metavar="COMPONENT...")
@click.option("-e", "--environment", metavar="NAME", help="The full environment whose kernels are run.")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@cell_options
@click.option("--gpu", metavar="N|UUID", help="Which GPU, also where others use it; else the first free one.")
@click.option("--gpu-minutes", type=Finite(min=0.1), metavar="N", help="The most that it may take.")
@json_option
def probe(
    components: tuple[str, ...],
    environment: str | None,
    backends: tuple[str, ...],
    model_config: Path | None,
    tp: int,
    seconds: float | None,
    gpu: str | None,
    gpu_minutes: float | None,
    as_json: bool,
) -> int:
    """Run the kernels of COMPONENT (or all) on a GPU of this machine: right? the same again? how fast?

    Each output is compared with float32 on the same quantised operands and with the numbers before they were
    quantised, at every size, repeated, on two streams and replayed from a graph. `agent probe pack` makes the
    same run elsewhere, `agent probe import` takes in what came of it.

    \b
    Examples:
      agent probe moe_runner -e work --gpu-minutes 10 --model-config config.json --tp 4
      agent probe fp8_gemm --backend bmm_fp8:cublas -e work --json
      agent probe pack attention -e flashinfer-python-0.6.5 --to probes
    """
    if not components:
        raise CommandError(
            "name a component, or all; or one of: pack, import, compile, dry-run (see agent probe --help)"
        )
    home, opened = environment_named(environment)
    plan = _plan(opened, components, backends, config_of(model_config), tp, seconds)
    minutes = sum(cell.seconds for cell in plan.cells) / 60
    if gpu_minutes is None:
        raise CommandError(
            f"{len(plan.cells)} cells may take {minutes:.0f} minutes of a GPU; say how many: --gpu-minutes N"
        )
    from memory.artifacts import Artifacts
    from tools.hardware.gpu import read_gpus

    if not (there := read_gpus()).gpus:
        raise CommandError(
            f"no GPU to run on ({there.missing or 'the driver tells of none'}); "
            "agent probe pack makes it run elsewhere",
            3,
        )
    runs_in(opened)
    home.prepare()
    sha256 = Artifacts(home.artifacts).put(plan.text().encode())
    progress(f"{len(plan.cells)} cells of {', '.join(f'{k} {v}' for k, v in plan.libraries.items())}")
    options = {"plan": sha256, "environment": plan.environment, "gpu": gpu, "gpu_minutes": gpu_minutes}
    return recorded(home, "what kernels do on a GPU of this machine", options, as_json=as_json)


@click.command()
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@click.option("--to", "folder", required=True, type=click.Path(path_type=Path), help="A new folder.")
@click.option("-e", "--environment", metavar="NAME|PATH", help="The environment whose kernels are run.")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@cell_options
@click.option(
    "--controls", is_flag=True, help="Also cells that try the stand: planted faults, a hang, a crash."
)
@json_option
def pack(
    components: tuple[str, ...],
    folder: Path,
    environment: str | None,
    backends: tuple[str, ...],
    model_config: Path | None,
    tp: int,
    seconds: float | None,
    controls: bool,
    as_json: bool,
) -> None:
    """Write the plan and all that runs it as one folder, for a machine with a GPU and without a network.

    There: `python -P run.py` with the Python that has torch and the library (`--site FOLDER` for packages
    that are only unpacked). It goes on where it was stopped. `results.jsonl` is what comes back.

    \b
    Examples:
      agent probe pack --to probes -e flashinfer-python-0.6.5
      agent probe pack attention fp8_gemm --to probes --controls
    """
    home, opened = environment_named(environment)
    plan = _plan(opened, components, backends, config_of(model_config), tp, seconds, controls=controls)
    from tools.probe.pack import pack as write

    write(plan, folder, home.prepare())
    if as_json:
        emit({"plan": plan.sha256, "folder": str(folder), "cells": [cell.id for cell in plan.cells]})
        return
    say(
        [
            f"{len(plan.cells)} cells in {safe(str(folder))}, plan {plan.sha256[:12]}",
            "there: python -P run.py   then here: agent probe import results.jsonl",
        ]
    )


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-e", "--environment", metavar="NAME|PATH", help="The environment that was packed, if renamed.")
@json_option
def import_(file: Path, environment: str | None, as_json: bool) -> int:
    """Take in FILE, the results.jsonl of a plan that was packed here, as findings of level imported.

    \b
    Examples:
      agent probe import results.jsonl
      agent probe import results.jsonl --json
    """
    from memory.artifacts import Artifacts
    from tools.probe.importing import check_cells
    from tools.probe.results import LIMIT, plan_of, read_results
    from transcripts.redaction.secrets import redacted

    home = the_home()
    try:
        with file.open("rb") as opened:
            data = opened.read(LIMIT + 1)
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}") from error
    results = read_results(data)
    plan = plan_of(Artifacts(home.prepare().artifacts), results.plan)
    check_cells(plan, results)
    clean = str(redacted(data.decode("utf-8", "replace")))
    sha256 = Artifacts(home.artifacts).put(clean.encode())
    options = {"results": sha256, "environment": environment or plan.environment}
    return recorded(home, f"what plan {results.plan[:12]} gave elsewhere", options, as_json=as_json)


def environment_named(named: str | None) -> tuple[Home, Environment]:
    from tools.environment.store import open_environment

    home = the_home()
    return home, open_environment(home, named or "current")


def runs_in(environment: Environment) -> None:
    """Raises ``ToolError`` where nothing can be run in it: before anything is read for what cannot be."""
    from tools.probe.running import runner_of

    runner_of(environment)


def opens(environment: Environment) -> str:
    """What opens it again: the path of a folder of someone else's, which has no name here."""
    return environment.path if environment.kind == "adopted" else environment.name


def config_of(path: Path | None) -> str | None:
    """The text of a model's ``config.json``."""
    try:
        return None if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise CommandError(f"cannot read {path}: {error}") from error


def _plan(
    environment: Environment,
    components: tuple[str, ...],
    backends: tuple[str, ...],
    config: str | None,
    tp: int,
    seconds: float | None,
    *,
    controls: bool = False,
) -> Plan:
    from tools.probe.pack import make_plan
    from tools.probe.plan import CONTROL, cells_of

    wanted = [name for name in components if name != ALL]
    cells = cells_of(environment, wanted, backends, controls=controls, config=config, tp=tp)
    if seconds is not None:
        cells = tuple(
            one if one.kind == CONTROL else one.model_copy(update={"seconds": seconds}) for one in cells
        )
    return make_plan(environment, cells)


def run_recorded(home: Home, question: str, options: dict[str, Any]) -> tuple[str, Concluded, Board]:
    """A transcript of its own, which the store's checks decide on: its name, its end, and its board."""
    from agent.drivers.prober import Prober
    from agent.session import Setting, board_of, start
    from memory.artifacts import Artifacts
    from memory.clock import Ids, SystemClock
    from transcripts.reader import transcript_path

    clock = SystemClock()
    name = Ids().investigation(clock)
    # What is asked for here by name: a person's word.
    allowed = Running(RUNS[0]).policy()
    setting = Setting(say=progress, clock=clock, redact=redactor(), policy=allowed)
    concluded = start(home, question, options, setting=setting, name=name, driver=Prober())
    return name, concluded, board_of(transcript_path(home, name), Artifacts(home.artifacts))


def recorded(home: Home, question: str, options: dict[str, Any], *, as_json: bool) -> int:
    """The same, with its rows as JSON or on the screen; returns the exit code."""
    name, concluded, board = run_recorded(home, question, options)
    if as_json:
        emit({"transcript": name, "summary": concluded.summary, **outcomes(board)})
        return concluded.exit_code
    outcome_lines(board)
    say([safe(f"{concluded.summary}; transcript {name}")])
    return concluded.exit_code


def outcome_lines(board: Board) -> None:
    """What came of each cell, on the screen."""
    from agent.winners import winner_line

    found = outcomes(board)
    rows = [[one["cell"], one["arch"] or "", one["outcome"], one["because"][:WORDS]] for one in found["rows"]]
    say(table(rows))
    say(safe(winner_line(one)) for one in found["fastest"])
    say(safe(f"refused: {one}") for one in dict.fromkeys(found["refused"]))


def _results(board: Board) -> Iterator[dict[str, Any]]:
    """What probes gave, in order."""
    for called in board.calls.values():
        output = board.output(called.call)
        if isinstance(output, dict) and "measured" in output:
            yield output


def outcomes(board: Board) -> dict[str, list[Any]]:
    """``rows``, ``fastest``, ``findings`` and ``refused`` of a transcript."""
    from agent.winners import winners

    rows, refused = [], []
    for called in board.calls.values():
        returned = board.calls.result(called.call)
        output = board.output(called.call)
        if isinstance(output, dict) and "measured" in output:
            keys = ("outcome", "because", "signature", "arch", "gpu", "seconds")
            timing = output["measured"].get("timing", [])
            rows.append(
                {"cell": output["cell"]["id"], **{key: output[key] for key in keys}, "timing": timing}
            )
        elif returned is not None and returned.error:
            refused.append(returned.error)
    findings = [{"id": name, "event": event} for name, event in board.findings.items()]
    return {"rows": rows, "fastest": winners(_results(board)), "findings": findings, "refused": refused}
