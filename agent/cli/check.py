"""``agent check``: the quality gate on a running server, whoever started it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import (
    CommandError,
    Finite,
    emit,
    json_option,
    progress,
    redactor,
    say,
    table,
    the_home,
)
from agent.cli.given import only_for, to_write
from agent.text import safe, shorten

if TYPE_CHECKING:
    from agent.board import Board
    from agent.policy import Rules
    from memory.home import Home
    from transcripts.events import Concluded

KEY = "OPENAI_API_KEY"
SHOWN = 3
"""Examples on the screen; all of them are in ``--json``."""


@click.command()
@click.argument("url")
@click.option("--model", metavar="NAME", help="Its name there; else the first that is served.")
@click.option(
    "--reference", metavar="URL|FILE", help="A server that is right, or what one answered (--save FILE)."
)
@click.option("--reference-model", metavar="NAME", help="The model's name at the reference.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 4096),
    default=64,
    show_default=True,
    metavar="N",
    help="Other requests at the same time.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="Times that the fixed prompts are asked among others.",
)
@click.option(
    "--questions",
    type=click.IntRange(0, 5000),
    default=200,
    show_default=True,
    metavar="N",
    help="Questions with one right answer.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", help="Other questions, another crowd."
)
@click.option("--random-weights", is_flag=True, help="What it says means nothing: a shrunk or dummy model.")
@click.option("--setting", "settings", multiple=True, metavar="NAME=VALUE", help="It was started with this.")
@click.option("--api-key-env", metavar="NAME", help=f"The variable that holds its key; else {KEY}.")
@click.option("--reference-key-env", metavar="NAME", help="The same of the reference.")
@click.option(
    "--timeout",
    type=Finite(min=0.1, max=3600),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="Without any answer: then it hangs.",
)
@click.option(
    "--minutes",
    type=Finite(min=0.1, max=600),
    default=15,
    show_default=True,
    metavar="N",
    help="The most that it may take.",
)
@click.option("--save", metavar="FILE", help="Keep what it answered, as a reference for others.")
@click.option("--about", metavar="COMPONENT/BACKEND", help="Keep a finding of it; needs --arch and -e.")
@click.option("--arch", metavar="ARCH", help="The architecture or GPU that it runs on.")
@click.option("-e", "--environment", metavar="NAME|PATH", help="The packages that it runs on.")
@click.option("--engine", metavar="NAME", help="The engine, where the environment does not say.")
@json_option
def check(url: str, as_json: bool, **given: Any) -> int:  # fmt: skip
    """Ask the server at URL whether its answers can be trusted, cheap questions first.

    Fixed prompts alone: numbers, language, the same again? The same among 64 others: still the same, up to
    what batching does to rounding? Questions with one right answer: as many right as the reference? Logprobs:
    those of the reference? The first that fails is the last that is asked (exit 1).

    \b
    Examples:
      agent check http://127.0.0.1:30000
      agent check http://127.0.0.1:30000 --reference http://127.0.0.1:30001
      agent check http://127.0.0.1:30000 --save right.json
      agent check http://gpu7:8000 --reference right.json --json
      agent check http://127.0.0.1:30000 --about moe_runner/triton --arch sm120 -e work
    """
    from tools.quality.client import base_url

    to_write("--save", given["save"])
    if given["reference"] is None:
        only_for("a reference; give --reference too", ("reference_model", "reference_key_env"))
    elif "://" not in given["reference"]:
        only_for("a reference at an address, not in a file", ("reference_model", "reference_key_env"))
    if given["about"] is None:
        only_for("a finding; give --about too", ("arch",))
    home = the_home()
    home.prepare()
    servers = [{"url": base_url(url), "key": key_variable(given["api_key_env"])}]
    asked: dict[str, Any] = {
        "url": url,
        "settings": _settings(given["settings"]),
        **{name: given[name] for name in _PASSED if given[name] is not None},
    }
    if (reference := given["reference"]) is not None:
        if "://" in reference:
            asked["reference"] = reference
            servers.append({"url": base_url(reference), "key": key_variable(given["reference_key_env"])})
        else:
            asked["reference_run"] = _stored(home, reference)
    options: dict[str, Any] = {"servers": servers, **about(home, given)}
    if options.get("environment"):
        asked["environment"] = options["environment"]
    why = "are its answers numbers, the same again, the same under load, and right"
    options["calls"] = [{"tool": "check_server", "input": asked, "why": why}]
    concluded, board, name = recorded(home, f"can the answers of {url} be trusted", options)
    output = board.output_of("check_server")
    if output is None:
        raise CommandError(concluded.summary, concluded.exit_code)
    if given["save"] is not None:
        _save(home, output, given["save"])
    refused = [returned.error for _, returned in board.results("record_finding") if returned.error]
    if as_json:
        emit({**output, "transcript": name, "findings": list(board.findings), "refused": refused})
        return concluded.exit_code
    _show(output)
    say(f"refused: {safe(str(one))}" for one in refused)
    say([safe(f"{concluded.summary}; transcript {name}")])
    return concluded.exit_code


_PASSED = (
    "model", "reference_model", "concurrency", "rounds", "questions", "seed", "random_weights", "timeout",
    "minutes", "engine",
)  # fmt: skip


def key_variable(named: str | None) -> str | None:
    """The variable that holds a key: the one that was named and is there, else the usual one if it is.

    Raises :class:`CommandError`.
    """
    if named is None:
        return KEY if os.environ.get(KEY) else None
    if not os.environ.get(named):
        raise CommandError(f"there is no variable {named}, or nothing in it; expected the server's key", 3)
    return named


def recorded(
    home: Home,
    question: str,
    options: dict[str, Any],
    policy: Rules | None = None,
    interpreter: tuple[Path, Path | None] | None = None,
) -> tuple[Concluded, Board, str]:
    """Checks as a transcript of their own: how it ended, its board, its id."""
    from agent.drivers.checker import Checker
    from agent.policy import PERSON
    from agent.session import Setting, board_of, start
    from memory.artifacts import Artifacts
    from memory.clock import Ids, SystemClock
    from transcripts.reader import transcript_path

    clock = SystemClock()
    name = Ids().investigation(clock)
    setting = Setting(
        say=progress, clock=clock, redact=redactor(), policy=policy or PERSON, interpreter=interpreter
    )
    concluded = start(home, question, options, setting=setting, name=name, driver=Checker())
    return concluded, board_of(transcript_path(home, name), Artifacts(home.artifacts)), name


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"--setting {one!r} is not NAME=VALUE, e.g. SGLANG_SANITIZE_NAN_LOGITS=0")
        found[name.strip()] = value.strip()
    return found


def _stored(home: Home, path: str) -> str:
    from memory.artifacts import Artifacts
    from tools.quality.checked import read_run

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CommandError(
            f"--reference {path}: {error.strerror or error}; expected http://… or a file of --save"
        ) from None
    read_run(data)
    return Artifacts(home.artifacts).put(data)


def _save(home: Home, output: dict[str, Any], path: str) -> None:
    from memory.artifacts import Artifacts

    if output["run"] is None or output["outcome"] != "ok":
        progress(f"nothing is saved in {path}: what failed is no reference")
        return
    try:
        Path(path).write_bytes(Artifacts(home.artifacts).get(output["run"]))
    except OSError as error:
        raise CommandError(f"--save {path}: {error.strerror or error}", 4) from None


def about(home: Home, given: dict[str, Any]) -> dict[str, Any]:
    """What a finding would be about. Raises :class:`CommandError` where only half of that is said."""
    environment = given["environment"]
    if environment is None and given["about"] is None:
        return {}
    from agent.cli.common import environment_of
    from memory.architecture import parse_architecture
    from tools.engines.adapter import engines

    if environment is None or (given["about"] is not None and given["arch"] is None):
        raise CommandError("a finding is of packages on an architecture: --about needs -e and --arch")
    opened = environment_of(home, environment, (), None)
    there = [name for name, engine in engines().items() if engine.installed(opened.tree())]
    engine = given["engine"] or (there[0] if len(there) == 1 else None)
    if engine is None:
        raise CommandError(
            f"{environment} holds {' and '.join(there) or 'no engine'}; name one with --engine"
        )
    found: dict[str, Any] = {"environment": environment, "engine": engine}
    if given["about"] is not None:
        component, slash, backend = given["about"].partition("/")
        if not (component and slash and backend):
            raise CommandError(f"--about {given['about']!r} is not COMPONENT/BACKEND, e.g. moe_runner/triton")
        found["about"] = [component, backend, parse_architecture(given["arch"]).name]
    return found


def _show(output: dict[str, Any]) -> None:
    rows = [
        [
            stage["name"],
            stage["outcome"].replace("_", " "),
            f"{stage['seconds']:.1f} s",
            shorten(stage["because"], 200),
        ]
        for stage in output["stages"]
    ]
    say(table(rows))
    for example in [one for stage in output["stages"] for one in stage["examples"]][:SHOWN]:
        say(
            [
                f"  {shorten(example['prompt'], 70)}",
                f"    alone: {shorten(example['alone'], 90)}",
                f"    got:   {shorten(example['got'], 90)}",
                f"    {shorten(example['why'], 150)}",
            ]
        )
    say(f"note: {shorten(note, 160)}" for note in output["notes"])
