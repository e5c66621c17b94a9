"""What came of calls is the same from memory and from the file; of many, little is held in memory."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from record import RECORDED, SESSIONS

from agent import calls
from agent.board import Board
from agent.replay import replay
from memory.artifacts import Artifacts
from memory.vocabulary import Effect
from transcripts.events import Called, Event, Returned
from transcripts.log import read

ARTIFACTS = Artifacts(RECORDED / "artifacts")


def asked(number: int) -> Called:
    return Called(call=f"c{number}", tool="t", effect=Effect.READS, input={"n": number, "text": "x" * 200})


def gave(number: int) -> Returned:
    return Returned(call=f"c{number}", status="ok", output={"n": number, "text": "„ü“" * 100})


def test_old_calls_are_read_again_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "NEWEST", 3)
    kept = calls.Calls()
    for number in range(20):
        kept.ask(asked(number))
        if number % 5:
            kept.answer(gave(number), 2 * number, f"{number:064x}")
    assert list(kept.values()) == [asked(number) for number in range(20)]
    for number in range(20):
        assert kept.result(f"c{number}") == (gave(number) if number % 5 else None)
        assert kept.seq(f"c{number}") == (2 * number if number % 5 else -1)
    assert kept.open == ["c0", "c5", "c10", "c15"]
    assert kept.result("c99") is None
    kept.answer(gave(99), 1, "0" * 64)
    assert "c99" not in kept


def test_without_room_outside_all_is_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(calls, "NEWEST", 3)
    monkeypatch.setattr(calls.tempfile, "TemporaryFile", full)
    kept = calls.Calls()
    for number in range(20):
        kept.ask(asked(number))
    assert list(kept.values()) == [asked(number) for number in range(20)]


@pytest.mark.parametrize("name", SESSIONS)
def test_a_driver_decides_the_same_on_calls_that_are_read_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "NEWEST", 2)
    replayed = replay(read(RECORDED / f"{name}.jsonl"), lambda sha256: json.loads(ARTIFACTS.get(sha256)))
    assert replayed.difference is None


def test_a_board_of_many_calls_takes_little_memory() -> None:
    """Calls beyond the newest take less than 500 bytes each, of 1,300 bytes of JSON and more in memory."""

    def add(board: Board, first: int, last: int) -> int:
        for number in range(first, last):
            for seq, body in ((2 * number, asked(number)), (2 * number + 1, gave(number))):
                board.add(Event(seq=seq, at="", data=body, prev="0" * 64, hash="0" * 64))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        board = Board(lambda _: None)
        before = add(board, 0, 2500)
        assert add(board, 2500, 10_000) - before < 7500 * 500
    finally:
        tracemalloc.stop()
    assert board.output("c3") == gave(3).output
    assert len(board.results("t")) == 10_000
