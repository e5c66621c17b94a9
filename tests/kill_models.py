"""Kills investigations in which a model decides, at random moments, and goes on with what is left of each.

``python tests/kill_models.py FOLDER COUNT SEED`` prints one JSON document, or leaves with a traceback. After
each end the log must be whole, decide the same again, and hold the findings of an undisturbed run.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import openai  # noqa: F401 - once, for all children
from investigations import finished_twice, setting, transcript
from model_runs import bodies, investigate
from scripted_model import Request, ScriptedModel, Step
from stress import PATIENCE, ended, fork, hear, rebuilt, rows
from test_llm_faults import EXTRA, acts, paired, replayed
from tiny_engine import write_engine

from agent.session import resume
from memory.home import Home
from memory.store import Store
from transcripts.catch_up import catch_up
from transcripts.events import Found, Resumed


def serve(say: Any) -> None:
    """The model, in a process of its own."""

    def answer(request: Request) -> Step:
        paired(request["messages"])
        return acts(request)

    with ScriptedModel(answer for _ in range(10**9)) as model:
        say(model.url)
        threading.Event().wait()


def work_on(home: Home, engine: Path, say: Any) -> None:
    """Begin, or go on with what was begun; says each step."""
    if transcript(home).exists():
        concluded = resume(home, transcript(home), setting=setting(tools=EXTRA, say=say))
    else:
        concluded = investigate(home, engine, tools=EXTRA, say=say)
    assert concluded.exit_reason == "answered", concluded.summary


def _asked(path: Path) -> bool:
    return path.exists() and b'"kind":"asked"' in path.read_bytes()


def kills(folder: Path, count: int, chance: random.Random) -> dict[str, Any]:
    engine = write_engine(folder / "site-packages")
    first = Home(folder / "undisturbed").prepare()
    work_on(first, engine, lambda _: None)
    expected = {one.finding.id for one in bodies(first, Found)}
    assert expected
    seen: Counter[str] = Counter()
    runs = 0
    while seen["kills"] < count:
        runs += 1
        home = Home(folder / f"run-{runs}").prepare()
        done = False
        while not done:
            child, reading = fork(partial(work_on, home, engine))
            hear(reading, PATIENCE, lines=chance.randrange(1, 7))
            select.select([], [], [], chance.random() / 50)
            os.kill(child, signal.SIGKILL)
            hear(reading)
            os.close(reading)
            status = ended(child)
            assert status in (0, -signal.SIGKILL), "it ended by itself, and not well"
            if status != 0:
                seen["kills"] += 1
                seen["when the model had been asked"] += _asked(transcript(home))
            done = status == 0 or chance.random() < 0.3
        # What was killed in its first moment has no log yet, or one without an event: it begins anew.
        if transcript(home).exists() and not transcript(home).read_bytes().count(b"\n"):
            transcript(home).unlink()
        work_on(home, engine, lambda _: None)
        replayed(home)
        assert finished_twice(transcript(home)) == []
        assert {one.finding.id for one in bodies(home, Found)} == expected
        with Store(home) as store:
            assert catch_up(store, home.transcripts) == []
        assert rows(home) == rebuilt(home)
        seen["gone on"] += len(bodies(home, Resumed))
    return {**seen, "runs": runs}


if __name__ == "__main__":
    model, said = fork(serve)
    try:
        os.environ |= {"OPENAI_BASE_URL": hear(said, PATIENCE, lines=1)[0], "OPENAI_API_KEY": "none"}
        print(json.dumps(kills(Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3]))))
    finally:
        os.kill(model, signal.SIGKILL)
        ended(model)
