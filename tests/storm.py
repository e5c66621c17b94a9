"""Investigations that are killed at random moments and resumed: forked, so that each starts at once.

``python tests/storm.py FOLDER COUNT SEED`` prints one JSON document, or leaves with a traceback.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from investigations import NAME, investigate, setting, sound, transcript
from stress import ended, fork, hear
from tiny_engine import write_engine

from agent.session import resume
from memory.clock import SystemClock
from memory.home import Home
from transcripts.events import Resumed, Returned
from transcripts.log import read


def live(home: Home, engine: Path, say: Callable[[Any], None]) -> None:
    """Begin, or go on with what is there; says how it ended."""
    os.setsid()
    path = transcript(home)
    if path.exists():
        done = resume(home, path, setting=setting(clock=SystemClock()))
    else:
        done = investigate(home, engine, clock=SystemClock())
    say(done.model_dump(mode="json"))


def one(home: Home, engine: Path, chance: random.Random, counts: dict[str, int]) -> Any:
    """How an investigation ends that is killed until it is quicker than that: each has more time than the
    one before, since on a busy machine none may have enough at first."""
    longest = 0.4
    while True:
        child, reading = fork(lambda say: live(home, engine, say))
        select.select([reading], [], [], chance.random() * longest)
        longest *= 1.1
        os.kill(child, signal.SIGKILL)
        said = hear(reading)
        os.close(reading)
        ended(child)
        strays = [process for process in psutil.process_iter() if _session(process.pid) == child]
        assert strays == [], strays
        if said:
            return said[0]
        counts["kills"] += 1


def storm(folder: Path, count: int, chance: random.Random) -> dict[str, int]:
    engine = write_engine(folder / "site-packages")
    first = Home(folder / "undisturbed").prepare()
    undisturbed = investigate(first, engine).model_dump(mode="json")
    counts = {"kills": 0, "resumed": 0, "interrupted": 0, "torn": 0}
    number = 0
    # The moments are random: until they were of every kind.
    while counts["kills"] < count or (
        not (counts["resumed"] > count // 3 and counts["interrupted"]) and counts["kills"] < 20 * count
    ):
        home = Home(folder / f"home-{number}").prepare()
        assert one(home, engine, chance, counts) == undisturbed
        sound(home, transcript(home))
        for event in read(transcript(home)):
            counts["resumed"] += isinstance(event.data, Resumed)
            counts["torn"] += isinstance(event.data, Resumed) and event.data.cut > 0
            counts["interrupted"] += isinstance(event.data, Returned) and event.data.status == "interrupted"
        number += 1
    assert transcript(first).stem == NAME
    return {"investigations": number, **counts}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


if __name__ == "__main__":
    print(json.dumps(storm(Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3]))))
