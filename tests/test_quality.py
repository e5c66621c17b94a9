"""The quality gate, on a real HTTP server with a made-up model: faults are named, sound servers pass."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from completions import Fake

from memory.artifacts import Artifacts
from memory.home import Home
from memory.terms import Outcome
from tools import stopping
from tools.base import ToolError
from tools.quality.answer import Answer, read_answer
from tools.quality.checked import Checked, CheckServer
from tools.quality.client import Request, Server, Waiting, base_url
from tools.quality.gate import check_server
from tools.quality.masks import masking
from tools.quality.paired import least_loss, mcnemar
from tools.quality.prompts import crowd, fixed, questions
from tools.quality.stages import judge_alone, judge_crowd, judge_paired

STRESS = int(os.environ.get("ASSAY_STRESS", "1"))
HEALTHY = 200 if STRESS > 1 else 6
BUSY = 8
"""Requests at once from which a fault shows: far fewer than are asked for, whatever the scheduler does."""


class Desk:
    """What a tool is given."""

    def __init__(self, home: Home, *servers: Fake) -> None:
        self.home = home
        self.servers = {one.url: one.key for one in servers}
        self.said: list[str] = []

    def progress(self, text: str) -> None:
        self.said.append(text)


def checked(home: Home, server: Fake, *others: Fake, **given: Any) -> Checked:
    args = CheckServer(
        url=server.url, **{"timeout": 60, "questions": 0, "concurrency": 24, "rounds": 2, **given}
    )
    found = check_server.run(args, Desk(home, server, *others))
    assert isinstance(found, Checked)
    return found


@pytest.mark.parametrize(
    ("fault", "outcome", "says"),
    [
        ("nan", "nan", "16 of 16 answers: the logprob of token 3 is no number"),
        ("null", "nan", "the logprob of token 3 is no number"),
        ("nan error", "nan", "HTTP 500: "),
        ("nan reason", "nan", "it ended for: NaN happened"),
        ("error", "crashed", "HTTP 500: "),
        ("crash", "crashed", "the connection ended"),
        ("empty", "wrong", "more than half of the answers are empty"),
        ("characters", "wrong", "8 of 8 answers are no language: characters that are none"),
        ("one token", "wrong", "8 of 8 answers are no language: '!' over and over"),
    ],
)
def test_a_fault_that_shows_alone_is_named(home: Home, fault: str, outcome: str, says: str) -> None:
    with Fake(fault=fault) as server:
        found = checked(home, server)
    assert (found.outcome.value, found.level.value) == (outcome, "server")
    assert says in found.because
    assert [stage.name for stage in found.stages] == ["alone"], "what failed is asked nothing more"
    assert found.stages[0].examples
    assert found.run is None, "nobody is to be compared with it"


@pytest.mark.parametrize(
    ("fault", "outcome", "says"),
    [
        ("nan", "stress_failed", "the logprob of token 3 is no number"),
        ("nan error", "stress_failed", "HTTP 500: "),
        ("error", "stress_failed", "HTTP 500: "),
        ("crash", "crashed", "the connection ended"),
        ("empty", "stress_failed", "no text"),
        ("characters", "stress_failed", "characters that are none"),
        ("one token", "stress_failed", "nats or more apart"),
        ("neighbour", "stress_failed", "it is the answer to another prompt"),
        ("other", "stress_failed", "nats or more apart"),
        ("moved", "stress_failed", "the same token's logprob moved by"),
    ],
)
def test_a_fault_that_shows_only_under_load_is_caught(
    home: Home, fault: str, outcome: str, says: str
) -> None:
    with Fake(fault=fault, at=BUSY, share=0.5, noise=0.05) as server:
        found = checked(home, server)
    assert server.peak >= BUSY, "the stand-in never had as many at once"
    assert (found.outcome.value, found.level.value) == (outcome, "stress")
    assert found.because.startswith("crowd: right alone, under load not: ")
    assert says in found.because
    assert [stage.outcome for stage in found.stages[:-1]] == [Outcome.OK]


@pytest.mark.parametrize("at", [1, BUSY])
def test_a_request_that_never_ends_is_a_hang(home: Home, at: int) -> None:
    with Fake(fault="hang", at=at) as server:
        found = checked(home, server, timeout=2)
    assert found.outcome is Outcome.HUNG
    assert len(server.seen) == (1 if at == 1 else len(server.seen)), "one is enough to know it"


@pytest.mark.parametrize("seed", range(HEALTHY))
def test_a_sound_server_is_never_called_bad(home: Home, seed: int) -> None:
    flat = seed % 5 == 4
    with Fake(noise=(0.0, 0.03, 0.08, 0.15, 0.03)[seed % 5], seed=seed, flat=flat) as server:
        found = checked(home, server, concurrency=64 if HEALTHY > 100 else 24, rounds=4, random_weights=flat)
    assert found.outcome is Outcome.OK, found.because
    assert found.level.value == "stress"
    assert found.run is not None


def test_near_ties_that_flip_under_load_are_told_and_not_held_against_it(home: Home) -> None:
    with Fake(noise=0.15, seed=3) as server:
        found = checked(home, server, rounds=4)
    crowded = found.stages[-1]
    assert crowded.figures["different"] > 0, "with such noise some text must take another turn"
    assert "took another turn at a near tie" in crowded.because


def test_one_doubtful_answer_is_asked_about_again_and_two_decide() -> None:
    # The answers of one run, without a server: which of them is odd is chosen here.
    sound, odd = Fake(seed=5), Fake(seed=5, fault="other")
    asked = [{"prompt": one, "max_tokens": 32, "logprobs": 5} for one in fixed()]
    texts = [sound.complete(one, 1, 0) for one in asked]

    def answers(*bad: int) -> list[Answer]:
        return [
            read_answer(*odd.struck(one, texts, place))
            if place in bad
            else read_answer(200, sound.worded(one, texts[place]))
            for place, one in enumerate(asked)
        ]

    alone = answers()
    assert judge_alone(alone, alone, random_weights=False).outcome is Outcome.OK
    once = judge_crowd(alone, [(answers(0), [])])
    assert (once.outcome, once.again) == (Outcome.OK, True)
    assert once.notes[0].startswith("once under load: token 4 is ")
    assert judge_crowd(alone, [(answers(0), []), (answers(), [])]).outcome is Outcome.OK
    assert judge_crowd(alone, [(answers(0), []), (answers(5), [])]).outcome is Outcome.STRESS_FAILED
    again = judge_alone(alone, answers(3, 7), random_weights=False)
    assert (again.outcome, again.because[:40]) == (Outcome.WRONG, "asked again alone, 2 of 8 answers are ot")


def test_random_weights_are_garbage_unless_they_are_said_to_be_random(home: Home) -> None:
    with Fake(flat=True) as server:
        found = checked(home, server)
        assert (found.outcome, found.level.value) == (Outcome.WRONG, "server")
        assert "--random-weights" in found.because
        assert checked(home, server, random_weights=True).outcome is Outcome.OK


def test_random_weights_may_say_nothing_in_a_crowd(home: Home) -> None:
    token = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5}]}
    said = read_answer(200, json.dumps({"choices": [{"text": "a", "logprobs": token}]}).encode())
    silent = read_answer(200, json.dumps({"choices": [{"text": "", "logprobs": None}]}).encode())
    rounds = [([said] * 8, [silent] * 4)]
    assert judge_crowd([said] * 8, rounds).outcome is Outcome.STRESS_FAILED
    assert judge_crowd([said] * 8, rounds, random_weights=True).outcome is Outcome.OK


@pytest.mark.parametrize("logprobs", [True, False])
def test_a_server_of_chats_alone_is_asked_as_one(logprobs: bool, home: Home) -> None:
    number = 60
    with Fake(chat=True, logprobs=logprobs, answers=answered(number)) as server:
        found = checked(home, server, questions=number)
        assert found.outcome is Outcome.OK, found.because
        assert found.stages[-1].figures["right"] == number
        assert any("chats alone" in note for note in found.notes)
    with Fake(chat=True, fault="nan", at=4) as server:
        bad = checked(home, server)
    assert bad.outcome is Outcome.STRESS_FAILED
    assert "is no number" in bad.because


def answered(number: int, wrong: int = 0, seed: int = 0) -> dict[str, str]:
    """What a model says to the questions, the first ``wrong`` of them wrongly."""
    asked = [*questions(seed, number), *questions(seed + 1_000_003, number)]
    return {
        one.prompt: "no idea" if place % number < wrong else one.answer for place, one in enumerate(asked)
    }


def test_fewer_right_answers_than_the_reference_are_wrong_and_as_many_are_not(home: Home) -> None:
    number = 60
    with Fake(answers=answered(number)) as right, Fake(answers=answered(number, 12)) as worse:
        same = checked(home, right, worse, reference=worse.url, questions=number)
        assert same.outcome is Outcome.OK, same.because
        found = checked(home, worse, right, reference=right.url, questions=number)
    assert found.outcome is Outcome.WRONG
    assert found.because.startswith(
        "paired: worse than the reference: 48 of 60 right, the reference 60; 12 disc"
    )
    assert found.stages[-1].figures["lost"] == 12


def test_what_a_server_answered_is_kept_and_is_a_reference_for_another(home: Home) -> None:
    number = 60
    with Fake(answers=answered(number)) as right, Fake(answers=answered(number, 20)) as worse:
        first = checked(home, right, questions=number)
        assert first.run is not None
        found = checked(home, worse, reference_run=first.run, questions=number)
        assert found.outcome is Outcome.WRONG
        same = checked(home, right, reference_run=first.run, questions=number)
    assert (same.outcome, [one.name for one in same.stages]) == (
        Outcome.OK, ["alone", "crowd", "paired", "oracle"],
    )  # fmt: skip
    assert same.stages[-1].figures["first_choice"] == 1.0
    assert same.stages[-1].figures["kl"] == pytest.approx(0, abs=1e-9)


def test_another_model_than_the_references_is_told_by_its_logprobs(home: Home) -> None:
    with Fake(seed=1) as server, Fake(seed=2) as other:
        found = checked(home, server, other, reference=other.url)
    assert found.outcome is Outcome.WRONG or found.stages[-1].outcome is Outcome.NOT_RUN
    with Fake(seed=1) as server, Fake(seed=1) as other:
        found = checked(home, server, other, reference=other.url)
    assert found.stages[-1].because.startswith("first choices agree at 100.0 % of 256 positions")


def test_no_request_is_answered_out_of_a_cache(home: Home) -> None:
    with Fake() as server:
        checked(home, server, rounds=1, concurrency=4)
    salts = [one["cache_salt"] for one in server.seen]
    assert len(set(salts)) == len(salts) == 16 + 12


@pytest.mark.parametrize("field", ["ignore_eos", "cache_salt", "logprobs"])
def test_a_server_that_does_not_know_a_field_is_asked_without(home: Home, field: str) -> None:
    with Fake(refuses=field) as server:
        found = checked(home, server)
    assert found.outcome is Outcome.OK
    assert any("no logprobs" in note for note in found.notes) is (field == "logprobs")


def test_prompts_that_are_longer_than_the_context_are_left_out(home: Home) -> None:
    with Fake(longest=300) as server:
        found = checked(home, server)
    assert found.outcome is Outcome.OK
    assert found.stages[0].figures["prompts"] == 7
    with Fake(longest=3) as server, pytest.raises(ToolError, match="refuses every prompt"):
        checked(home, server)


def test_only_servers_that_were_given_are_asked_and_with_their_key(home: Home) -> None:
    with Fake(key="letmein") as server:
        assert checked(home, server, rounds=1, concurrency=2).outcome is Outcome.OK
        desk = Desk(home)
        with pytest.raises(ToolError, match="no server that may be asked here"):
            check_server.run(CheckServer(url=server.url), desk)
        desk.servers = {server.url: None}
        with pytest.raises(ToolError, match="wants a key"):
            check_server.run(CheckServer(url=server.url), desk)
    with pytest.raises(ToolError, match="does not answer") as failed:
        Server(server.url).models()
    assert failed.value.missing


def test_a_setting_that_hides_nan_is_refused(home: Home) -> None:
    with Fake() as server, pytest.raises(ToolError, match="SGLANG_SANITIZE_NAN_LOGITS=1 hides NaN"):
        checked(home, server, engine="sglang", settings={"SGLANG_SANITIZE_NAN_LOGITS": "1"})
    assert masking("sglang", {"SGLANG_SANITIZE_NAN_LOGITS": "False"}) is None
    assert masking(None, {"SGLANG_SANITIZE_NAN_LOGITS": "true"}) is not None
    assert masking("vllm", {"OTHER": "1"}) is None


def test_asking_ends_where_it_is_asked_to_stop() -> None:
    stop = stopping.Stop()
    ended: list[BaseException] = []

    def ask(url: str) -> None:
        with stopping.under(stop):
            try:
                Server(url, "toy").ask([Request("a", 4)] * 3, in_flight=3, seconds=300)
            except BaseException as error:  # noqa: BLE001 - what it is is the question
                ended.append(error)

    with Fake(fault="hang") as server:
        thread = threading.Thread(target=ask, args=(server.url,))
        thread.start()
        stop.ask()
        thread.join(120)
    assert [type(one) for one in ended] == [stopping.Stopped]


def test_a_list_of_models_without_end_is_not_read_to_its_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as connection, contextlib.suppress(OSError):
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                while True:
                    connection.sendall(b"[" * 65536)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ToolError, match="no list of models"):
            Server(f"http://127.0.0.1:{listening.getsockname()[1]}").models()
        thread.join(120)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"text": 1}]}',
        b"[" * 100_000,
        b'{"choices": [7]}',
    ],
)
def test_whatever_a_server_answers_is_data(data: bytes) -> None:
    assert read_answer(200, data).ended == "failed"


def test_an_answer_of_hostile_shapes_is_read() -> None:
    hostile = (
        b'{"choices": [{"text": "\\u202e", "logprobs": {"tokens": 3, '
        b'"token_logprobs": [NaN, -1e999, "x", null, 5], "top_logprobs": [{"a": NaN}, 7, null]}}]}'
    )
    answer = read_answer(200, hostile)
    assert answer.ended == "answered"
    assert [one.logprob for one in answer.tokens] == [None] * 5
    assert not answer.finite


@pytest.mark.parametrize(
    "url", ["", "ftp://a", "http://", "http://u:p@h", "http://h:0", "http://h?x=1", "127.0.0.1:80"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ToolError, match="no address"):
        base_url(url)
    assert base_url("http://h:1/v1/") == "http://h:1"


def test_questions_have_one_answer_and_are_the_same_for_a_seed() -> None:
    asked = questions(7, 50)
    assert asked == questions(7, 50)
    assert asked != questions(8, 50)
    assert all(one.right(f" {one.answer}\nQ: more") for one in asked)
    assert not any(one.right(f" {one.answer}9") for one in asked)
    assert not any(one.right("") for one in asked)
    assert len({one.prompt for one in asked}) == 50
    assert crowd(1, 40) == crowd(1, 40) != crowd(2, 40)
    assert len(set(crowd(1, 40))) == 40


def test_mcnemars_test_is_exact_and_says_what_it_could_have_seen() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 0) == 2 / 32
    assert mcnemar(0, 5) == 2 / 32
    assert mcnemar(9, 1) == pytest.approx(0.021484375)  # 2 * (1 + 10) / 2**10
    assert mcnemar(3, 3) == 1.0
    assert least_loss(200, 0, 0.02) == pytest.approx(0.05, abs=0.01)
    assert least_loss(200, 5, 0.02) > least_loss(200, 0, 0.02)
    assert least_loss(3, 0, 0.02) == 1.0
    assert judge_paired([True] * 9, [True] * 9, again=False).outcome is Outcome.OK
    doubtful = judge_paired([False] * 8 + [True] * 2, [True] * 10, again=False)
    assert (doubtful.outcome, doubtful.again) == (Outcome.OK, True)
    better = judge_paired([True] * 10, [False] * 10, again=True)
    assert better.outcome is Outcome.OK


def test_what_answers_otherwise_than_a_server_of_models_is_none(home: Home) -> None:
    with Fake(fault="page") as other, pytest.raises(ToolError, match="expected an OpenAI-compatible server"):
        checked(home, other)
    with Fake(fault="page", at=4) as server:
        assert checked(home, server).outcome is Outcome.STRESS_FAILED, "it has answered before"


def test_a_stored_run_is_held_against_no_question_that_it_was_not_asked(home: Home) -> None:
    with Fake() as server:
        run = checked(home, server, questions=0).run
        found = checked(home, server, questions=4, reference_run=run)
        assert run is not None
        asked = len(server.seen)
        with pytest.raises(ToolError, match="asked with --seed 0; ask with the same"):
            checked(home, server, questions=4, seed=1, reference_run=run)
        assert len(server.seen) == asked, "which is known before anything is asked"
    paired = next(one for one in found.stages if one.name == "paired")
    assert paired.because.endswith(" of 4 questions right, the stored run was asked none of them")
    assert found.stages[-1].name == "oracle"


def test_a_stored_run_that_is_none_is_refused(home: Home, tmp_path: Path) -> None:
    with Fake() as server, pytest.raises(ToolError, match="no stored run"):
        checked(home, server, reference_run=Artifacts(home.artifacts).put(b'{"format": 1}'))


def test_a_slow_server_is_waited_for_as_long_as_it_answers_somebody() -> None:
    now = time.monotonic()
    clock = Waiting(600, math.inf)
    assert clock.left(now - 700) < 0, "nobody was answered since it was asked"
    clock.answered = now
    assert 0 < clock.left(now - 700) <= 600
    assert Waiting(600, now - 1).left(now) < 0


def test_time_that_is_used_up_says_nothing_of_the_server(home: Home) -> None:
    with Fake(fault="hang", at=BUSY) as server:
        found = checked(home, server, minutes=0.05, timeout=600)
    assert found.outcome is Outcome.NOT_RUN
    assert "stopped after 0.05 minutes" in found.because
