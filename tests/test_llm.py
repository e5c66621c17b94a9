"""A model decides: over real HTTP, with typed calls, and every answer on record before it counts."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from investigations import QUESTION, setting, sound, transcript
from model_runs import DECIDES, FERN, GATES, bodies, environment_in, investigate, results, the_end
from program import START, variables
from scripted_model import ScriptedModel, call, say
from tiny_engine import write_engine

from agent.cli.main import run
from agent.session import resume
from memory.home import Home
from transcripts.events import Answered, Asked, Noted, Returned
from transcripts.log import read


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


def finding_id_in(request: dict[str, Any]) -> str:
    (text,) = (text for text in results(request) if "record_finding: ok" in text)
    body = text.split("⟧\n", 1)[1].rsplit("\n⟦", 1)[0]
    return str(json.loads(body)["id"])


def decide_fern(request: dict[str, Any]) -> Any:
    moved = call(
        "update_hypothesis", component="attention", backend="fern", state="predicted",
        because="its gate refuses all but 10.x", finding=finding_id_in(request),
    )  # fmt: skip
    return say(None, moved)


STEPS = [
    lambda request: say(
        "I read why fern is undecided.",
        call("read_source", environment=environment_in(request), file=GATES),
        call("search_source", environment=environment_in(request), pattern="fern"),
    ),
    say(
        None,
        call("record_finding", {**FERN, "verdict": "blocked", "spans": [DECIDES]}),
    ),
    decide_fern,
    say(None, the_end()),
]  # fmt: skip


def test_a_model_decides_what_the_planner_left_and_concludes(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(STEPS).use(monkeypatch) as model:
        concluded = investigate(home, engine)
    assert (concluded.exit_reason, concluded.exit_code) == ("answered", 0)
    assert concluded.answer is not None
    (fern,) = [row for row in concluded.answer.backends if row.backend == "fern"]
    assert (fern.verdict, fern.because, fern.state) == ("blocked", "architecture", "predicted")
    assert fern.evidence[0].file == GATES
    assert [len(bodies(home, kind)) for kind in (Asked, Answered)] == [4, 4]
    assert all(one.status == "ok" for one in bodies(home, Returned))
    assert "fern" in model.requests[0]["messages"][1]["content"]
    sound(home, transcript(home))


def test_what_a_model_chooses_stands_in_the_command(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner leaves attention to the engine; a model that has read why names a value."""
    chosen = the_end(choices={"attention": "elm", "fp4_gemm": "amber"})
    with ScriptedModel([say(None, chosen)]).use(monkeypatch):
        concluded = investigate(home, engine)
    assert concluded.answer is not None
    found = concluded.answer.recommendation
    assert found is not None
    assert "--attention-backend elm" in found.command
    assert "--fp4-gemm-backend amber" in found.command
    assert "--moe-runner-backend birch" in found.command
    assert not found.tested
    assert any("the driver's choice" in note for note in found.ranked_by)
    sound(home, transcript(home))


def test_what_a_model_asks_beside_the_point_moves_no_ground(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options that the answer is about are the planner's, whatever else is listed later."""
    steps = [
        lambda request: say(
            None,
            call("list_backends", environment=environment_in(request), component="attention"),
            call("list_backends", environment=environment_in(request), component="nothing"),
            call("find_model", environment=environment_in(request), model="another"),
        ),
        say(None, the_end()),
    ]
    with ScriptedModel(steps).use(monkeypatch):
        concluded = investigate(home, engine)
    assert (concluded.exit_reason, concluded.exit_code) == ("answered", 0)
    assert "fp4_gemm birch" in concluded.summary
    assert "moe_runner birch" in concluded.summary
    sound(home, transcript(home))


def test_at_the_command_line_the_account_follows_the_answer(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with ScriptedModel([say(None, the_end(result="stopped"))]).use(monkeypatch):
        assert run(["investigate", QUESTION, "-e", str(engine)]) == 4
    said = capfd.readouterr()
    assert "driver: llm (scripted)" in said.err
    assert "Run what the board recommends" in said.out
    assert run(["report", "--last"]) == 0
    assert "Run what the board recommends" in capfd.readouterr().out
    assert run(["replay", "--last"]) == 0
    assert run(["replay", "--last", "--verify"]) == 0


def test_auto_takes_the_planner_where_no_model_is_configured(
    home: Home, engine: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["investigate", QUESTION, "-e", str(engine)]) == 4
    assert "driver: planner (no model is configured)" in capfd.readouterr().err
    assert run(["investigate", QUESTION, "-e", str(engine), "--driver", "llm"]) == 3
    assert "--model NAME or ASSAY_MODEL" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (
            ["--driver", "llm", "--model", "m"],
            3,
            "where m is to be asked: set OPENAI_API_KEY, or OPENAI_BASE_URL",
        ),
        (["--model", "m"], 3, "where m is to be asked: set OPENAI_API_KEY, or OPENAI_BASE_URL"),
        (["--budget", "steps=3"], 3, "--budget needs a model: --model NAME or ASSAY_MODEL"),
        (
            ["--driver", "planner", "--model", "m"],
            2,
            "--model is for a model, and --driver planner asks none",
        ),
        (["--driver", "planner", "--budget", "steps=3"], 2, "--budget is for a model, and --driver planner"),
    ],
)
def test_what_is_said_of_a_model_is_heeded_or_refused(
    said: list[str], code: int, words: str, home: Home, engine: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["investigate", QUESTION, "-e", str(engine), *said]) == code
    assert words in capfd.readouterr().err
    assert not list(home.transcripts.glob("*"))


def test_a_model_without_a_place_is_not_taken_silently_by_auto(
    home: Home, engine: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_MODEL", "m")
    run(["investigate", QUESTION, "-e", str(engine)])
    assert "driver: planner (it is not said where to ask m)" in capfd.readouterr().err


def test_who_goes_on_may_give_another_budget_and_another_model(
    home: Home, engine: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks(number: int) -> Any:
        return say(None, call("find_model", environment="nowhere", model=f"{number}"))

    last = say("So far nothing.")
    asked = ["investigate", QUESTION, "-e", str(engine), "--budget", "steps=1", "--budget", "tokens=100000"]
    with ScriptedModel([looks(1), last]).use(monkeypatch, "first"):
        assert run(asked) == 4
    assert "1 of 1 steps" in capfd.readouterr().err
    with ScriptedModel([looks(2), looks(3), last]).use(monkeypatch, "of the environment"):
        assert run(["resume", "--last", "--budget", "steps=2", "--model", "second"]) == 4
    assert "2 of 2 steps" in capfd.readouterr().err
    with ScriptedModel([looks(4), looks(5), say(None, the_end(result="stopped"))]).use(
        monkeypatch, "of the environment"
    ) as model:
        assert run(["resume", "--last", "--budget", "steps=3"]) == 4
    capfd.readouterr()
    (path,) = home.transcripts.glob("*.jsonl")
    events = [event.data for event in read(path)]
    assert [one.model for one in events if isinstance(one, Asked)] == ["first"] * 2 + ["second"] * 6
    assert {one["model"] for one in model.requests} == {"second"}
    assert run(["replay", "--last"]) == 0
    assert run(["replay", "--last", "--verify"]) == 0
    assert run(["resume", "--last", "--budget", "cost=1"]) == 2
    assert "no price is known for second" in capfd.readouterr().err


def test_a_budget_is_nothing_to_an_investigation_that_no_model_decides(
    home: Home, engine: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["investigate", QUESTION, "-e", str(engine)])
    assert run(["resume", "--last", "--budget", "steps=2"]) == 2
    assert "is decided by planner, not by a model" in capfd.readouterr().err


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000/v1", "file:///etc/passwd", "http://", "http://a:99999", "http://["]
)
def test_what_is_no_address_is_not_waited_for(
    home: Home, engine: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    asked = ["investigate", QUESTION, "-e", str(engine), "--driver", "llm", "--model", "m"]
    assert run(asked) == 3
    assert capfd.readouterr().err.splitlines()[-1].startswith("agent: OPENAI_BASE_URL is no address")


@pytest.mark.parametrize(
    ("typed", "words"), [(b"n\n", "the person was asked and refused"), (b"y\n", "neither an")]
)
def test_at_a_terminal_the_person_is_asked_with_the_exact_call(
    typed: bytes, words: str, home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = say(None, call("create_environment", packages=["left-pad==1.0"]))

    def look(request: dict[str, Any]) -> None:
        assert words in results(request)[0]

    steps = [install, say(None, the_end(result="stopped"), look=look)]
    ours, theirs = pty.openpty()
    with ScriptedModel(steps).use(monkeypatch), os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [*START, "investigate", QUESTION, "-e", str(engine), "--json"],
            env=variables(home.root), stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += terminal.read(4096)
        os.write(terminal.fileno(), typed)
        with suppress(OSError):  # the end of a terminal
            while more := terminal.read(4096):
                said += more
        assert process.wait() == 4
    assert b"the model asks for create_environment (writes_environment)" in said
    assert b'"left-pad==1.0"' in said
    allowed = [one.text for one in bodies_of(home, Noted) if "allowed by the person" in one.text]
    assert len(allowed) == (typed == b"y\n")


def bodies_of(home: Home, kind: type) -> list[Any]:
    (path,) = home.transcripts.glob("*.jsonl")
    return [event.data for event in read(path) if isinstance(event.data, kind)]


@pytest.mark.parametrize("streamed", [True, False])
def test_by_the_responses_api_a_model_decides_the_same_and_what_it_reasoned_is_handed_back(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    asked = {"prompt_tokens": 100, "completion_tokens": 20}
    first, second, *rest = STEPS

    def with_usage(request: dict[str, Any]) -> Any:
        return replace(first(request), usage=asked, streamed=streamed)  # type: ignore[operator]

    with ScriptedModel([with_usage, replace(second, streamed=streamed), *rest]).use(monkeypatch) as model:
        concluded = investigate(home, engine, {"api": "responses"})
    assert concluded.exit_reason == "answered", concluded.summary
    last = model.requests[-1]
    assert (last["store"], last["stream"], last["include"]) == (False, True, ["reasoning.encrypted_content"])
    assert last["tools"][0]["type"] == "function"
    assert "name" in last["tools"][0]
    kinds = [item.get("type", item.get("role")) for item in last["input"]]
    assert kinds[:6] == ["system", "user", "reasoning", "assistant", "function_call", "function_call"]
    assert last["input"][2]["encrypted_content"] == "thought of I read why fern is undecided."
    assert kinds.count("reasoning") == 3
    assert bodies(home, Answered)[0].usage == {"prompt_tokens": 100, "completion_tokens": 20}
    assert {one.settings["api"] for one in bodies(home, Asked)} == {"responses"}
    sound(home, transcript(home))


def test_what_another_interface_reasoned_is_not_sent_to_chat_completions(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"api": "responses", "budget": {"steps": 1}}
    with ScriptedModel([say("I look.", call("read_board")), say("So far.")]).use(monkeypatch):
        assert investigate(home, engine, limit).exit_code == 4
    with ScriptedModel([say(None, the_end())]).use(monkeypatch) as model:
        concluded = resume(home, transcript(home), setting=setting(), llm={"api": "chat"})
    assert concluded.exit_code == 0, concluded.summary
    assert "reasoning" not in str(model.requests[0]["messages"])
    assert "tool_calls" in model.requests[0]["messages"][2]
    sound(home, transcript(home))
