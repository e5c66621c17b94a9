"""``agent benchmark``: what passed the gate is measured, by the load generator of its own engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agent.cli.common import CommandError, Finite, emit, json_option, progress, say, table, the_home
from agent.cli.given import only_for, there_or_named
from agent.cli.server_options import server_options
from agent.text import safe, shorten
from memory.home import Home

COLUMNS = (
    ("output_throughput", "tok/s", 1),
    ("median_ttft", "TTFT ms", 1),
    ("p99_ttft", "p99", 1),
    ("median_tpot", "TPOT ms", 2),
    ("median_e2e_latency", "E2E ms", 0),
    ("accept_length", "accepted", 2),
)
"""Figures on the screen, their heading and digits; all of them are in ``--json``."""
LAUNCHED = (
    "backends", "attention", "moe_runner", "tp", "dtype", "quantisation", "context_length", "memory_fraction",
    "load_format", "options", "layers", "cpu", "gpus", "pass_env", "patience",
)  # fmt: skip
"""Options that only a server has which is launched."""
_Asked = tuple[dict[str, Any], Path | None]
"""Options of the transcript, and the interpreter that runs the generator."""


@click.command()
@click.argument("url", required=False)
@server_options
@click.option(
    "--launches",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="Starts of the server: what differs between them is no noise of requests.",
)
@click.option(
    "--concurrency", default="1,4,16", show_default=True, metavar="N,N,…", help="Requests at a time."
)
@click.option(
    "--input",
    "input_",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    metavar="TOKENS",
    help="That each request brings.",
)
@click.option(
    "--output",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    metavar="TOKENS",
    help="That each request is answered with.",
)
@click.option(
    "--long", "long_", type=click.IntRange(1), metavar="TOKENS", help="One more load with this input."
)
@click.option(
    "--least",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    metavar="N",
    help="Requests of a load, where five for each at a time are fewer.",
)
@click.option(
    "--tokenizer", metavar="PATH|NAME", help="The model's, where the generator cannot ask the server."
)
@click.option(
    "--minutes",
    type=Finite(min=0.1, max=1440),
    default=60,
    show_default=True,
    metavar="N",
    help="The most that the loads of a launch may take.",
)
@click.option(
    "--crowd",
    type=click.IntRange(1, 4096),
    default=64,
    show_default=True,
    metavar="N",
    help="Others at a time while it is checked.",
)
@click.option("--random-weights", is_flag=True, help="What it says means nothing: a shrunk or dummy model.")
@click.option("--api-key-env", metavar="NAME", help="The variable that holds the key of the server at URL.")
@click.option(
    "--about", metavar="COMPONENT/BACKEND", help="Keep a finding of what runs at URL; needs --arch."
)
@click.option("--arch", metavar="ARCH", help="The architecture or GPU that it runs on.")
@json_option
def benchmark(url: str | None, as_json: bool, **given: Any) -> int:  # fmt: skip
    """Measure the server at URL, or one that is launched, at every load, after the quality gate.

    The load generator is the engine's own, from -e; lengths are fixed, a first load is thrown away, and
    figures are believed only where every request was answered with the tokens that were asked for.

    \b
    Examples:
      agent benchmark http://127.0.0.1:30000 -e work --concurrency 1,4,16 --input 1024 --output 256
      agent benchmark -e work --model /models/qwen3 --attention triton --launches 3 --json > triton.json
      agent benchmark -e work --model /models/qwen3 --attention flashinfer --launches 3 --json > fi.json
      agent compare triton.json fi.json --html comparison.html
    """
    home = the_home()
    home.prepare()
    loads = {
        "concurrency": _levels(given["concurrency"]),
        "input": given["input_"],
        "output": given["output"],
        "long": given["long_"],
        "least": given["least"],
        "tokenizer": there_or_named("--tokenizer", given["tokenizer"]) if given["tokenizer"] else None,
        "minutes": given["minutes"],
    }
    of = _of_url(home, url, given, loads) if url is not None else _of_launches(home, given, loads)
    options, python = of
    interpreter = (python, given["site"]) if python is not None else None
    return _measured(home, url or f"launches of {given['model']}", options, interpreter, as_json=as_json)


def _levels(text: str) -> list[int]:
    try:
        found = [int(one) for one in text.split(",")]
    except ValueError:
        found = [0]
    if not found or min(found) < 1 or max(found) > 4096:
        raise CommandError(f"--concurrency {text!r} is no list of numbers from 1 to 4096, e.g. 1,4,16")
    return found


def _of_url(home: Home, url: str, given: dict[str, Any], loads: dict[str, Any]) -> _Asked:
    from agent.cli.check import about, key_variable
    from agent.cli.server_options import beside
    from tools.environment.store import open_environment
    from tools.quality.client import base_url

    if given["launches"] != 1:
        raise CommandError("a server that runs already is one launch; leave URL out to have it launched")
    only_for("a server that is launched; leave URL out", LAUNCHED)
    if given["about"] is None:
        only_for("a finding; give --about too", ("arch",))
    environment = given["environment"] or "current"
    said = about(home, {**given, "environment": environment})
    opened = open_environment(home, environment)
    check = {
        "url": url,
        "model": given["model"],
        "concurrency": given["crowd"],
        "questions": 0,
        "random_weights": given["random_weights"],
        "engine": said["engine"],
        "environment": environment,
    }
    asked = {"check": check, "environment": environment, "engine": said["engine"], "loads": loads}
    python = given["python"] or beside(opened)
    options = {
        **said,
        "servers": [{"url": base_url(url), "key": key_variable(given["api_key_env"])}],
        "calls": [{"tool": "benchmark_server", "input": asked, "why": "how fast is it at each load"}],
    }
    return options, python


def _of_launches(home: Home, given: dict[str, Any], loads: dict[str, Any]) -> _Asked:
    from agent.cli.server_options import audited, planned
    from tools.benchmark.generator import generator_of

    only_for("a server at URL; of a launch its own backends are kept", ("about", "arch", "api_key_env"))
    plan = planned(home, {**given, "extra": ()})
    generator_of(plan.environment, plan.settings.engine)
    audited(plan, given["gpus"])
    environment = given["environment"] or "current"
    asked = {
        "environment": environment,
        "settings": plan.settings.model_dump(mode="json"),
        "gpus": list(given["gpus"]),
        "concurrency": given["crowd"],
        "minutes": given["patience"],
        "random_weights": given["random_weights"],
        "loads": loads,
    }
    calls = [
        {"tool": "try_server", "input": {**asked, "launch": number}, "why": f"how fast is launch {number}"}
        for number in range(1, given["launches"] + 1)
    ]
    return {"engine": plan.settings.engine, "environment": environment, "calls": calls}, plan.python


def _measured(
    home: Home,
    what: str,
    options: dict[str, Any],
    interpreter: tuple[Path, Path | None] | None,
    *,
    as_json: bool,
) -> int:
    from agent.cli.check import recorded
    from agent.drivers.checker import results
    from agent.policy import PERSON, Policy
    from memory.vocabulary import Effect

    # What is asked for here by name: a person's word.
    policy = Policy(PERSON.allowed | {Effect.USES_GPU, Effect.EXECUTES_FOREIGN_CODE})
    concluded, board, name = recorded(
        home, f"how fast is {what}", options, policy=policy, interpreter=interpreter
    )
    launches = results(board)
    if not launches:
        raise CommandError(concluded.summary, concluded.exit_code)
    refused = [returned.error for _, returned in board.results("record_finding") if returned.error]
    if as_json:
        emit(
            {
                "format": 1, "transcript": name, "summary": concluded.summary, "launches": launches,
                "findings": list(board.findings), "refused": refused,
            }
        )  # fmt: skip
        return concluded.exit_code
    show(launches)
    say(f"refused: {safe(str(one))}" for one in refused)
    say([safe(f"{concluded.summary}; transcript {name}")])
    if concluded.exit_code == 0:
        progress(f"compare it with another: agent compare {name} OTHER")
    return concluded.exit_code


def show(launches: list[dict[str, Any]]) -> None:
    """One line for each load of each launch."""
    rows = [["launch", "c", "input+output", *(heading for _, heading, _ in COLUMNS)]]
    notes = []
    for number, launch in enumerate(launches, 1):
        found = launch.get("benchmark")
        if found is None:
            notes.append(f"launch {number} was not measured: {launch['outcome']}: {launch['because']}")
            continue
        for cell in found["cells"]:
            if cell["warmup"]:
                continue
            figures = cell["figures"] if cell["outcome"] == "ok" else {}
            shown = [
                f"{figures[name]['value']:.{digits}f}" if name in figures else "-"
                for name, _, digits in COLUMNS
            ]
            rows.append([str(number), str(cell["concurrency"]), f"{cell['input']}+{cell['output']}", *shown])
            said = cell["refused"][:2] or [one for one in cell["notes"] if "percentile" not in one]
            notes += [f"launch {number}, c={cell['concurrency']}: {one}" for one in said]
        share = found["overhead"] / found["seconds"] if found["seconds"] else 0.0
        notes.append(
            f"launch {number}: {found['generator']} {found['version']}, {found['seconds']:.0f} s; "
            f"{100 * share:.2f} % more were ours"
        )
    if any(cell["speculative"] for one in launches for cell in (one.get("benchmark") or {}).get("cells", ())):
        notes.append("speculative decoding is on: random tokens are accepted otherwise than text is")
    if len(launches) == 1:
        notes.append("one launch: another of the same settings may differ by more than its requests do")
    say(table(rows) if len(rows) > 1 else ["nothing was measured"])
    say(f"note: {shorten(note, 200)}" for note in notes)
