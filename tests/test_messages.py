"""A conversation is written once, whatever its length and however often it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memory.artifacts import Artifacts
from memory.clock import FixedClock
from transcripts.events import Asked, Opened, Said
from transcripts.log import Log, read
from transcripts.messages import Messages, message_id

OPENED = Opened(investigation="t", program="p", driver="d", question="q", seed=0)


def message(number: int, size: int = 200) -> dict[str, Any]:
    return {"role": "user", "content": f"{number} " + "x" * size}


def converse(folder: Path, turns: int) -> int:
    """Bytes of a log in which the whole conversation is sent at every turn."""
    path, artifacts = folder / "t.jsonl", Artifacts(folder / "artifacts")
    with Log.create(path, OPENED, FixedClock()) as log:
        messages = Messages(log.append, artifacts.put, artifacts.get)
        history: list[dict[str, Any]] = []
        for number in range(turns):
            history.append(message(number))
            head = messages.say_all(history)
            assert head is not None
            log.append(Asked(request=f"r{number}", model="m", head=head))
            assert messages.conversation(head) == history
    return path.stat().st_size


def test_a_long_conversation_grows_the_log_in_proportion(tmp_path: Path) -> None:
    for name in ("short", "long"):
        (tmp_path / name).mkdir()
    short, long = converse(tmp_path / "short", 20), converse(tmp_path / "long", 200)
    assert long < 11 * short


def test_what_was_said_is_found_again_in_the_log(tmp_path: Path) -> None:
    path, artifacts = tmp_path / "t.jsonl", Artifacts(tmp_path / "artifacts")
    history = [message(0), message(1, size=100_000), message(2)]
    with Log.create(path, OPENED, FixedClock()) as log:
        head = Messages(log.append, artifacts.put, artifacts.get).say_all(history)
    assert path.stat().st_size < 10_000
    said = [event.data for event in read(path) if isinstance(event.data, Said)]
    again = Messages(lambda _: pytest.fail("nothing is new"), artifacts.put, artifacts.get, said)
    assert again.conversation(head) == history
    assert again.say_all(history) == head


def test_the_same_words_after_others_are_another_message(tmp_path: Path) -> None:
    assert message_id(message(0), None) != message_id(message(0), message_id(message(1), None))
