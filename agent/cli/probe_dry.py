"""``agent probe dry-run``: what an engine settles beside a simulated device, next to what reading says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import emit, engine_option, json_option, progress, say, table
from agent.cli.probe import ALL, config_of, environment_named, opens, run_recorded, runs_in
from agent.text import safe

if TYPE_CHECKING:
    from agent.board import Board

WORDS = 110


@click.command("dry-run")
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@click.option("--arch", required=True, metavar="ARCH", help="Architecture or GPU that is simulated.")
@click.option("-e", "--environment", metavar="NAME|PATH", help="The full environment whose engine starts.")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@click.option(
    "--model-config", type=click.Path(path_type=Path), metavar="FILE", help="A model's config.json."
)
@click.option("--read", "read", metavar="NAME", help="The environment that is read for it, if another.")
@click.option("--no-read", is_flag=True, help="Do not compare with what reading says.")
@engine_option
@json_option
def dry_run(
    components: tuple[str, ...],
    arch: str,
    environment: str | None,
    backends: tuple[str, ...],
    model_config: Path | None,
    read: str | None,
    no_read: bool,
    engine: str | None,
    as_json: bool,
) -> int:
    """Have the engine make its options on this machine, as beside a GPU of ARCH, for each backend in turn.

    What each component resolves to, or which line refuses it, beside what reading says. The device is
    simulated: no kernel runs, and none is said to work. It runs the engine's own code, on this machine.

    \b
    Examples:
      agent probe dry-run -e work --arch sm120
      agent probe dry-run moe_runner --arch sm100 -e work --model-config config.json --json
    """
    from memory.architecture import parse_architecture
    from memory.artifacts import Artifacts
    from tools.engines.adapter import engines
    from tools.probe.dry import dry_runs, plan_dry_run

    found = parse_architecture(arch).base
    home, opened = environment_named(environment)
    name = engine or next((one for one in engines() if one in opened.packages), "sglang")
    config = config_of(model_config)
    wanted = [one for one in components if one != ALL]
    plan = plan_dry_run(opened, name, found, wanted, backends, config)
    runs_in(opened)
    home.prepare()
    sha256 = Artifacts(home.artifacts).put(plan.text().encode())
    progress(f"{len(plan.cells)} cells of {name} {opened.packages.get(name, '?')}, {found.name} simulated")
    trace = {
        "arch": found.name,
        "engine": name,
        "checkpoint": config or dry_runs()["model"]["config"],
    }
    if read is not None:
        trace["environment"] = opens(environment_named(read)[1])
    options = {"plan": sha256, "environment": plan.environment, "trace": None if no_read else trace}
    transcript, concluded, board = run_recorded(
        home, f"what {opened.name} settles beside {found.name}", options
    )
    rows = compared(board)
    if as_json:
        emit({"transcript": transcript, "summary": concluded.summary, "simulated": True, "rows": rows})
        return concluded.exit_code
    say(
        table(
            [
                [one["cell"], one["outcome"], one["read"] or "", one["agrees"], one["because"][:WORDS]]
                for one in rows
            ]
        )
    )
    said = [one["agrees"] for one in rows if one["read"]]
    counts = ", ".join(f"{said.count(word)} {word}" for word in dict.fromkeys(said))
    say(
        [safe(f"simulated, nothing ran; beside reading: {counts or 'not compared'}; transcript {transcript}")]
    )
    return concluded.exit_code


def compared(board: Board) -> list[dict[str, Any]]:
    """Each cell, with what reading says of the same and whether the two agree."""
    from tools.probe.agreeing import agreement

    read = {
        (called.input["component"], called.input["backend"]): board.output(called.call)
        for called, _ in board.results("trace_viability")
    }
    rows = []
    for called, returned in board.results("probe_dry_run"):
        output = board.output(called.call)
        if not isinstance(output, dict):
            rows.append(_row(str(called.input["cell"]), "not run", returned.error or returned.status))
            continue
        cell = output["cell"]
        trace = read.get((cell["component"], cell["backend"]))
        row = _row(cell["id"], output["outcome"], output["because"])
        measured = output["measured"]
        row |= {
            "resolved": measured.get("resolved"),
            "where": measured.get("where"),
            "blank": measured.get("blank"),
        }
        if isinstance(trace, dict):
            agrees, why = agreement(cell, output["outcome"], measured, trace)
            row |= {"read": trace["row"]["verdict"], "agrees": agrees, "why": why}
        rows.append(row)
    return rows


def _row(cell: str, outcome: str, because: str) -> dict[str, Any]:
    return {"cell": cell, "outcome": outcome, "because": because, "read": None, "agrees": "", "why": ""}
