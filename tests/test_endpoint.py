"""Asking a model: what may go well is tried again, on record; what cannot is said in one line."""

from __future__ import annotations

import hashlib
import itertools
import socket
from typing import Any

import pytest
from scripted_model import ScriptedModel, Step, call, say

from agent.model.answers import OVERFLOW, wishes
from agent.model.endpoint import LONGEST_WAIT, TRIES, Endpoint
from transcripts.events import GENESIS, Answered, Asked, Body, Event, Noted, Said

ASKED = Asked(request="r1", model="scripted", head="a" * 64, tools="b" * 64)
OFFERED = [{"type": "function", "function": {"name": "read", "description": "d", "parameters": {}}}]
MESSAGES = [{"role": "user", "content": "go"}]


class Kept:
    """What an endpoint recorded, and how long it waited."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.waits: list[float] = []

    def ask(self, messages: list[dict[str, Any]] | None = None, **given: Any) -> Answered:
        endpoint = Endpoint(
            lambda _: OFFERED, lambda data: hashlib.sha256(data).hexdigest(), sleep=self.waits.append, **given
        )
        endpoint.answer(ASKED, messages or MESSAGES, self._record)
        (*_, last) = self.bodies
        assert isinstance(last, Answered)
        assert sum(isinstance(one, Answered) for one in self.bodies) == 1
        return last

    def _record(self, body: Body) -> Event:
        self.bodies.append(body)
        if isinstance(body, Noted):
            assert len(self.waits) < self.count(Noted), "a wait is on record before it begins"
        at = "2026-01-01T00:00:00.000Z"
        return Event(seq=len(self.bodies), at=at, data=body, prev=GENESIS, hash=GENESIS)

    def count(self, kind: type) -> int:
        return sum(isinstance(one, kind) for one in self.bodies)

    @property
    def message(self) -> dict[str, Any]:
        (said,) = [one for one in self.bodies if isinstance(one, Said)]
        assert said.parent == ASKED.head
        return dict(said.message or {})


@pytest.fixture
def kept() -> Kept:
    return Kept()


DONE = say("done", usage={"prompt_tokens": 10, "completion_tokens": 2})


@pytest.mark.parametrize(
    ("fault", "least", "most", "words"),
    [
        (Step(status=429, headers={"retry-after": "3"}, body={"error": {"message": "slow"}}), 3, 3, "429: "),
        (Step(status=429, headers={"retry-after-ms": "40"}), 0.04, 0.04, "429"),
        (Step(status=429, headers={"retry-after": "Thu, 01 Jan 2026 00:00:07 GMT"}), 7, 7, "429"),
        (Step(status=500, body=b"<html>oops"), 1, 2, "500"),
        (Step(status=503), 1, 2, "503"),
        (say("half an answer", cut=True), 1, 2, "broke off"),
        (say("  \n"), 1, 2, "empty"),
        (Step(), 1, 2, "empty"),
        (Step(body=b"no json"), 1, 2, "no JSON"),
        (Step(body=b"[1]"), 1, 2, "no JSON object"),
        (Step(body={"error": {"message": "the engine died"}}), 1, 2, "the engine died"),
        (Step(body={"choices": [{"message": {"content": 7, "tool_calls": 4}}]}), 1, 2, "empty"),
    ],
)
def test_what_may_go_well_is_tried_again_after_a_wait_on_record(
    fault: Step, least: float, most: float, words: str, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel([fault, DONE]).use(monkeypatch):
        answered = kept.ask(now=lambda: 1767225600.0)
    assert (answered.status, answered.error) == ("ok", None)
    (waited,) = kept.waits
    assert least <= waited <= most
    assert answered.waited == pytest.approx(waited, abs=0.001)
    (noted,) = [one for one in kept.bodies if isinstance(one, Noted)]
    assert words in noted.text
    assert "try 2 of 6" in noted.text
    assert kept.message == {"role": "assistant", "content": "done"}
    assert answered.usage == {"prompt_tokens": 10, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (401, "bad key", "missing: 127.0.0.1:"),
        (404, "no such model", "OPENAI_BASE_URL"),
        (400, "tools are not supported", "trying again would not help"),
        (400, "This model's maximum context length is 8192 tokens", OVERFLOW),
        (413, "", OVERFLOW),
        (429, "insufficient_quota: pay", "no quota"),
    ],
)
def test_what_cannot_go_well_is_not_tried_again(
    status: int, message: str, words: str, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel([Step(status=status, body={"error": {"message": message}})]).use(monkeypatch):
        answered = kept.ask()
    assert answered.status == "error"
    assert words in (answered.error or "")
    assert "\n" not in (answered.error or "")
    assert kept.waits == []


def test_a_server_that_asks_for_too_long_a_wait_is_left(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = {"retry-after": str(LONGEST_WAIT + 1)}
    with ScriptedModel([Step(status=429, headers=wait)]).use(monkeypatch):
        assert "resume then" in (kept.ask().error or "")
    assert kept.waits == []


def test_it_gives_up_and_says_how_long_it_waited(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedModel([Step(status=502)] * TRIES).use(monkeypatch):
        answered = kept.ask()
    assert answered.status == "error"
    assert len(kept.waits) == kept.count(Noted) == TRIES - 1
    assert answered.waited == pytest.approx(sum(kept.waits), abs=0.01)
    assert kept.waits[0] < kept.waits[2] < kept.waits[4]


def test_nobody_there_is_one_line(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:pw@127.0.0.1:{taken.getsockname()[1]}/v1?key=abc")
        answered = kept.ask(tries=2)
    assert "cannot reach 127.0.0.1:" in (answered.error or "")
    assert "pw" not in (answered.error or "")
    assert "abc" not in (answered.error or "")


@pytest.mark.parametrize("streamed", [True, False])
def test_calls_come_whole_and_with_names_of_their_own(
    streamed: bool, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [call("read", file="a", id="x"), call("read", file="b", id="x"), call("find", "{not json")]
    with ScriptedModel([say("I look.", *calls, streamed=streamed)]).use(monkeypatch):
        kept.ask()
    message = kept.message
    assert [one["id"] for one in message["tool_calls"]] == ["x", "r1-2", "r1-3"]
    first, second, third = wishes(message)
    assert (first.tool, first.input, second.input) == ("read", {"file": "a"}, {"file": "b"})
    assert "no JSON object" in (third.wrong or "")
    assert message["tool_calls"][2]["function"]["arguments"] == "{not json"


def test_what_was_no_json_is_sent_as_what_servers_read(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            call("read", "{no", id="1"),
            call("read", "[2]", id="2"),
            call("read", file="a", id="3"),
        ],
    }
    with ScriptedModel([DONE]).use(monkeypatch) as model:
        kept.ask([*MESSAGES, said])
    (request,) = model.requests
    sent = [one["function"]["arguments"] for one in request["messages"][1]["tool_calls"]]
    assert sent == ["{}", "{}", '{"file": "a"}']
    assert request["tools"] == OFFERED
    assert request["stream"] is True
    assert request["model"] == "scripted"


def test_an_answer_without_end_is_ended(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedModel([say("x" * 5_000_000)] * 2).use(monkeypatch):
        assert "characters" in (kept.ask(tries=2).error or "")


def test_signs_of_life_are_no_answer(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says every minute that it is still there, and nothing else."""
    alive = Step(body=b": still there\n\n" * 100, headers={"content-type": "text/event-stream"})
    minutes = itertools.count(0, 60)
    with ScriptedModel([alive, DONE]).use(monkeypatch):
        assert kept.ask(monotonic=lambda: float(next(minutes))).status == "ok"
    (noted,) = [one for one in kept.bodies if isinstance(one, Noted)]
    assert "no end of the answer within 1800 s" in noted.text


def test_figures_of_a_server_are_not_trusted(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = {
        "prompt_tokens": -5,
        "completion_tokens": "many",
        "prompt_tokens_details": {"cached_tokens": True},
    }
    with ScriptedModel([say("done", usage=usage)]).use(monkeypatch):
        assert kept.ask().usage == {}


def test_a_secret_in_an_answer_is_not_recorded(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-proj-" + "aB3dE5fG7hJ9kL2mN4pQ6rS8tU0vW1xY"
    with ScriptedModel([say(f"the key is {key}")]).use(monkeypatch):
        kept.ask()
    assert key not in str(kept.bodies)
    assert "[redacted:" in kept.message["content"]
