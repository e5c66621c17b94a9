"""Kills what creates, upgrades, rolls back and collects; looks after each death at what is left.

``python -P tests/kill_upgrades.py HOME COUNT SEED`` prints one JSON document, or leaves with a traceback. uv
finds its index by the environment that this is started in.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import random
import select
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from stress import PATIENCE, ended, fork, hear

from memory.clock import SystemClock
from memory.home import Home
from memory.names import distribution
from tools.base import ToolError
from tools.environment.choosing import roll_back
from tools.environment.collect import collect, collection
from tools.environment.create import create_environment
from tools.environment.history import choose, read_history
from tools.environment.model import Environment
from tools.environment.plan import Wanted
from tools.environment.staging import PARTIAL
from tools.environment.store import chosen, list_environments, open_environment
from tools.environment.upgrade import upgrade
from tools.source.tree import SourceTree

NAME = "work"
KINDS = {"create", "upgrade", "rollback"}
ENGINES, LIBRARIES = ("0.5.9", "0.5.10"), tuple(f"0.6.{number}" for number in range(3, 15))


def silent(_: str) -> None:
    pass


def work_on(home: Home, say: Callable[[Any], None], seed: float) -> None:
    """Do one thing after the other until killed; says what was begun and what was done."""
    chance = random.Random(seed)
    while True:
        match chance.randrange(8):
            case 0 | 1:
                say("create")
                pair = [f"sglang=={chance.choice(ENGINES)}", f"flashinfer-python=={chance.choice(LIBRARIES)}"]
                made = create_environment(home, pair, None, silent)
                choose(home, NAME, chosen(made), "create", SystemClock())
            case 2 | 3 | 4:
                say("upgrade")
                to = chance.choice([*(f"flashinfer-python=={one}" for one in LIBRARIES), "latest"])
                upgrade(home, NAME, Wanted((to,)), lambda _: True, silent, SystemClock())
            case 5:
                say("rollback")
                # There may be nothing before it, or it was not kept for going back.
                with suppress(ToolError):
                    roll_back(home, NAME, SystemClock())
            case _:
                say("collect")
                collect(home, collection(home).gone)
        say("done")


def check_whole(environment: Environment) -> None:
    """Every file that the packages recorded is there as it was recorded, and no other."""
    there = {path for path in environment.root.rglob("*") if path.is_file()}
    known = set()
    for record in environment.root.glob("*.dist-info/RECORD"):
        for name, digest, _ in csv.reader(record.read_text().splitlines()):
            path = environment.root / name
            known.add(path)
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
                assert digest == "sha256=" + found.rstrip(b"=").decode(), path
    installer = {path for path in there if path.parent.name.endswith(".dist-info")}
    assert known <= there, known - there
    assert there - installer <= known, there - installer - known
    held = {distribution(name): version for name, version in SourceTree(environment.root).packages.items()}
    assert held == environment.packages


def kills(home: Home, count: int, chance: random.Random) -> dict[str, Any]:
    first = create_environment(home, ["sglang==0.5.9", "flashinfer-python==0.6.5"], None, silent)
    making = 0
    choose(home, NAME, chosen(first), "create", SystemClock())
    seen: Counter[str] = Counter()
    below: list[psutil.Process] = []
    # The moments are random: until they were within everything that can be done.
    while seen.total() < count or (not (seen.keys() >= KINDS and making > 5) and seen.total() < 10 * count):
        before = read_history(home, NAME)
        child, reading = fork(lambda say: work_on(home, say, chance.random()))
        said = hear(reading, PATIENCE, lines=chance.randrange(1, 6))
        select.select([], [], [], chance.choice([0.0, chance.random() / 100, chance.random() / 3]))
        os.kill(child, signal.SIGSTOP)  # so that it starts no more
        below = psutil.Process(child).children(recursive=True)
        os.kill(child, signal.SIGKILL)
        said += hear(reading)
        os.close(reading)
        assert ended(child) == -signal.SIGKILL, said
        seen[said[-1]] += 1
        making += any((home.environments / PARTIAL).glob("*/whole/*"))

        after = read_history(home, NAME)
        assert before is not None
        assert after is not None
        assert after.choices[: len(before.choices)] == before.choices, "nothing that was is forgotten"
        check_whole(open_environment(home, NAME))
        for environment in list_environments(home):
            check_whole(environment)
    # What the last one had started ends at a time of its own, and may be writing until then.
    psutil.wait_procs(below, timeout=PATIENCE)
    collect(home, collection(home).gone)
    assert list((home.environments / PARTIAL).iterdir()) == []
    left = list_environments(home)
    history = read_history(home, NAME)
    assert history is not None
    needed = {history.current.environment, history.previous.environment if history.previous else ""}
    assert {one.name for one in left} <= needed, "the rest gave its space back"
    folders = [path for path in home.environments.iterdir() if not path.name.startswith(".")]
    assert {path.name for path in folders} == {one.name for one in left}
    return {"kills": seen.total(), "in": dict(seen), "making": making}


if __name__ == "__main__":
    prepared = Home(Path(sys.argv[1])).prepare()
    print(json.dumps(kills(prepared, int(sys.argv[2]), random.Random(sys.argv[3]))))
