"""Investigations of the tiny engine in which a model decides, and what is read off them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from investigations import NAME, QUESTION, setting, transcript
from scripted_model import call

from agent.session import start
from memory.home import Home
from transcripts.events import Concluded
from transcripts.log import read

GATES = "sglang/srt/gates.py"
LINES = {"file": GATES, "start": 6, "end": 7}
FERN = {"component": "attention", "backend": "fern", "because": "architecture"}
DECIDES = {**LINES, "quote": 'raise ValueError("cedar needs 10.x")'}


def investigate(home: Home, engine: Path, llm: dict[str, Any] | None = None, **given: Any) -> Concluded:
    options = {"environment": str(engine), "llm": {"model": "scripted", **(llm or {})}}
    return start(home, QUESTION, options, name=NAME, setting=setting(**given), driver="llm")


def bodies(home: Home, kind: type) -> list[Any]:
    return [event.data for event in read(transcript(home)) if isinstance(event.data, kind)]


def results(request: dict[str, Any]) -> list[str]:
    """What the last answer's calls gave, as the model was told."""
    last = max(n for n, message in enumerate(request["messages"]) if message["role"] == "assistant")
    return [message["content"] for message in request["messages"][last + 1 :]]


def the_end(**given: Any) -> dict[str, Any]:
    account = "Run what the board recommends; nothing else is known."
    return call("conclude", {"result": "answered", "account": account, **given})


def environment_in(request: dict[str, Any]) -> str:
    text = request["messages"][1]["content"]
    return str(next(line for line in text.splitlines() if line.startswith("Environment: "))[13:])
