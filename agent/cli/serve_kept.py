"""``agent serve --keep``: the same in the background, and ``list`` and ``stop`` for what runs there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, say, table, the_home
from agent.text import safe

if TYPE_CHECKING:
    from memory.home import Home

ENDING = 60.0
"""Seconds for a server to be ended by the process that looks after it."""


def kept(home: Home, *, as_json: bool) -> int:
    """Run the same command again, apart from this terminal, until its server is ready."""
    folder = home.root / "servers"
    folder.mkdir(parents=True, exist_ok=True)
    words = [word for word in sys.argv[1:] if word != "--keep"]
    place = words.index("--") if "--" in words else len(words)
    words.insert(place, "--json") if "--json" not in words[:place] else None
    answer, told = folder / f"kept-{os.getpid()}.json", folder / f"kept-{os.getpid()}.log"
    with answer.open("wb") as out, told.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agent.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        document = _awaited(process, answer, told)
        last = [line for line in told.read_text("utf-8", "replace").splitlines() if line.strip()]
    except BaseException:
        process.terminate()
        process.wait(ENDING)
        raise
    finally:  # what it says from now on nobody reads
        answer.unlink(missing_ok=True)
        told.unlink(missing_ok=True)
    if document is None:
        raise CommandError(last[-1].removeprefix("agent: ") if last else "it ended and said nothing", 1)
    if "failure" in document:
        if as_json:
            emit(document)
        else:
            failure = document["failure"]
            say([safe(f"{failure['outcome']}: {failure['because']}"), safe(f"log: {document['log']}")])
        return 1
    if as_json:
        emit(document)
    else:
        say([f"ready: {document['base_url']}/v1  model {document['model']}  key {document['api_key']}",
             f"agent serve stop {document['name']}   ends it"])  # fmt: skip
    return 0


def _awaited(process: subprocess.Popen[bytes], answer: Path, told: Path) -> dict[str, Any] | None:
    shown = 0
    while True:
        ended = process.poll() is not None
        said = told.read_text("utf-8", "replace")
        for line in said[shown:].splitlines():
            if line.startswith("· "):
                progress(line[2:])
        shown = len(said)
        try:
            document = json.loads(answer.read_text("utf-8"))
        except ValueError:
            if ended:
                return None
            time.sleep(0.1)
            continue
        return document if isinstance(document, dict) else None


def _there(home: Home) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for record in sorted((home.root / "servers").glob("*/record.json")):
        try:
            document = json.loads(record.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and "port" in document:
            found.append((record.parent.name, document))
    return found


@click.command("list")
@json_option
def list_(as_json: bool) -> None:
    """The servers of ours that run on this machine.

    \b
    Examples:
      agent serve list
      agent serve list --json
    """
    home = the_home()
    from tools.server.ending import sweep

    sweep(home, progress)
    there = _there(home)
    if as_json:
        keys = ("engine", "model", "port", "gpus")
        emit({"servers": [{"name": name, **{key: one.get(key) for key in keys}} for name, one in there]})
        return
    rows = [
        [name, str(one.get("engine")), str(one.get("port")), str(one.get("model"))] for name, one in there
    ]
    say(table(rows) if rows else ["no server of ours runs"])


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "every", is_flag=True, help="All of ours.")
def stop(names: tuple[str, ...], every: bool) -> int:
    """End servers by name, with all their processes; only such as this program started.

    \b
    Examples:
      agent serve stop 1f0c
      agent serve stop --all
    """
    if not names and not every:
        raise CommandError("name a server (agent serve list), or --all")
    home = the_home()
    from tools.server.ending import owner_of, sweep

    there = dict(_there(home))
    wanted = list(there)
    if not every:
        wanted = []
        for name in names:
            fits = [one for one in there if one.startswith(name)]
            if len(fits) != 1:
                raise CommandError(f"{len(fits)} servers are called {name!r}; see agent serve list")
            wanted += fits
    for name in wanted:
        owner = owner_of(there[name])
        if owner is not None:
            owner.send_signal(signal.SIGTERM)
            until = time.monotonic() + ENDING
            while (home.root / "servers" / name / "record.json").exists() and time.monotonic() < until:
                time.sleep(0.1)
    sweep(home, progress)
    left = [name for name, _ in _there(home) if name in wanted]
    say([f"ended {safe(name)}" if name not in left else f"{safe(name)} is still there" for name in wanted])
    return 1 if left else 0
