"""Whole investigations of the tiny engine, in process, with a clock and ids of their own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stress import rebuilt, rows
from tiny_engine import FAKE_TRACE, fake_trace_many

from agent.replay import replay
from agent.session import Setting, start
from memory.clock import FixedClock
from memory.home import Home
from tools.registry import registry
from transcripts.chain import encode
from transcripts.check import check
from transcripts.events import GENESIS, Concluded
from transcripts.log import read

QUESTION = "qwen3.5 nvfp4 on sm120"
NAME = "20260101-abcdef"


def setting(**given: Any) -> Setting:
    tools = {**registry(), "trace_viability": FAKE_TRACE, **given.pop("tools", {})}
    return Setting(
        **{"clock": FixedClock(), "batches": {"trace_viability": fake_trace_many}, "tools": tools, **given}
    )


def investigate(home: Home, engine: Path, **given: Any) -> Concluded:
    """From the question to the answer, undisturbed."""
    return start(home, QUESTION, {"environment": str(engine)}, name=NAME, setting=setting(**given))


def transcript(home: Home) -> Path:
    return home.transcripts / f"{NAME}.jsonl"


def documents(path: Path) -> list[dict[str, Any]]:
    return [event.data.model_dump(mode="json") for event in read(path)]


def rewrite(path: Path, change: Callable[[int, dict[str, Any]], None]) -> None:
    """Change events and make every hash after them anew, as one would who wants to deceive."""
    lines, prev = [], GENESIS
    for seq, line in enumerate(path.read_bytes().splitlines()):
        value = json.loads(line)
        change(seq, value["data"])
        text, prev = encode(seq, value["at"], value["data"], prev)
        lines.append(text)
    path.write_bytes(b"".join(lines))


def whole(home: Home) -> Any:
    return lambda sha256: (home.artifacts / sha256[:2] / sha256[2:]).read_bytes()


def finished_twice(path: Path) -> list[Any]:
    """Calls with the same input that came to an end more than once, but for those to be made again."""
    bodies = documents(path)
    again = {call for one in bodies if one["kind"] == "resumed" for call in one.get("again", ())}
    asked = {
        one["call"]: (one["tool"], json.dumps(one["input"])) for one in bodies if one["kind"] == "called"
    }
    done = Counter(
        asked[one["call"]]
        for one in bodies
        if one["kind"] == "returned" and one["status"] == "ok" and one["call"] not in again
    )
    return [call for call, times in done.items() if times > 1]


def sound(home: Home, path: Path) -> None:
    """What must hold of a transcript that was resumed: intact, nothing twice, replayable, rows as rebuilt."""
    assert check(path, whole(home)) == []
    assert finished_twice(path) == []
    assert replay(read(path), lambda sha256: json.loads(whole(home)(sha256))).difference is None
    assert rows(home) == rebuilt(home)
