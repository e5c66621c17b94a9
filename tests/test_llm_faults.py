"""What a model may do wrong, and what may go wrong around it: survived, on record, told in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from investigations import NAME, setting, transcript, whole
from model_runs import FERN, GATES, bodies, environment_in, investigate, results, the_end
from pydantic import BaseModel
from scripted_model import Request, ScriptedModel, Step, call, say
from tiny_engine import write_engine

from agent.policy import Grants, Policy
from agent.replay import replay
from agent.session import resume
from memory.home import Home
from memory.vocabulary import Effect
from tools.base import Tool, tool
from transcripts.check import check
from transcripts.events import Answered, Asked, Called, Found, Noted, Returned, Said
from transcripts.log import read


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


class Given(BaseModel):
    text: str = ""


class Gave(BaseModel):
    text: str


@tool(effect=Effect.READS)
def long_output(args: Given, context: Any) -> Gave:
    """Says very much."""
    return Gave(text="line of output\n" * 7_000_000)


@tool(effect=Effect.USES_GPU)
def run_kernel(args: Given, context: Any) -> Gave:
    """Would run something."""
    return Gave(text=f"ran {args.text}")


@tool(effect=Effect.READS)
def echo(args: Given, context: Any) -> Gave:
    """Says the same."""
    return Gave(text=args.text)


EXTRA: dict[str, Tool[Any, Any]] = {one.name: one for one in (long_output, run_kernel, echo)}


def replayed(home: Home) -> None:
    """The log is whole, and the same is decided on its answers."""
    path = transcript(home)
    assert check(path, whole(home)) == []
    found = replay(read(path), lambda sha256: json.loads(whole(home)(sha256)))
    assert found.difference is None, "\n".join(found.difference.diff())
    assert found.board.concluded is not None


def run(home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch, *steps: Any, **given: Any) -> Any:
    """An investigation by a script; what came of it, and the requests."""
    llm = given.pop("llm", None)
    with ScriptedModel(steps).use(monkeypatch) as model:
        concluded = investigate(home, engine, llm, tools=EXTRA, **given)
    replayed(home)
    return concluded, model.requests


def test_malformed_arguments_are_answered_and_never_sent_again(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = say(None, call("echo", '{"text": "a'), call("echo", text="b"), call("echo", "7"))

    def look(request: Request) -> None:
        first, second, third = results(request)
        assert "no JSON object" in first
        assert "nothing was run" in first
        assert "echo: ok" in second
        assert "it is a int" in third
        sent = [one["function"]["arguments"] for one in request["messages"][2]["tool_calls"]]
        assert sent == ["{}", '{"text": "b"}', "{}"]

    concluded, _ = run(home, engine, monkeypatch, broken, say(None, the_end(), look=look))
    assert concluded.exit_code == 0
    asked = [one for one in bodies(home, Called) if one.tool == "echo"]
    assert [one.input for one in asked] == [{"text": "b"}]
    (raw,) = [one for one in bodies(home, Said) if "tool_calls" in one.message and "text" in str(one.message)]
    assert raw.message["tool_calls"][0]["function"]["arguments"] == '{"text": "a'


def test_wrong_calls_are_results_that_say_what_is_right(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = say(None, call("shell", command="ls"), call("read_source", file="x"), call("echo", text=5))

    def look(request: Request) -> None:
        unknown, lacking, typed = results(request)
        assert "no tool 'shell'" in unknown
        assert "read_source" in unknown
        assert "environment: Field required" in lacking
        assert "text: Input should be a valid string" in typed

    concluded, _ = run(home, engine, monkeypatch, wrong, say(None, the_end(), look=look))
    assert concluded.exit_code == 0


def test_a_hundred_calls_of_one_answer_come_back_in_their_order(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [call("echo", text=f"number {n}") for n in range(100)]

    def look(request: Request) -> None:
        told = results(request)
        assert [f'"text":"number {n}"' in text for n, text in enumerate(told)] == [True] * 100

    run(home, engine, monkeypatch, say(None, *calls), say(None, the_end(), look=look))
    assert len({one.call for one in bodies(home, Called)}) == len(bodies(home, Called))


def test_more_calls_than_are_run_are_answered_too(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [call("echo", text=f"{n}") for n in range(130)]

    def look(request: Request) -> None:
        told = results(request)
        assert len(told) == 130
        assert ["more than 128 calls" in text for text in told] == [False] * 128 + [True] * 2

    run(home, engine, monkeypatch, say(None, *calls), say(None, the_end(), look=look))


def test_a_hundred_megabytes_are_a_beginning_an_end_and_a_pointer(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def more(request: Request) -> Step:
        (told,) = results(request)
        assert len(told) < 33_000
        name = told.split(" ", 1)[0]
        assert f"read_artifact of={name}" in told
        return say(None, call("read_artifact", of=name, start=50_000_000, length=40))

    def look(request: Request) -> None:
        (told,) = results(request)
        assert '"start":50000000' in told
        assert "output" in told

    run(
        home, engine, monkeypatch, say(None, call("long_output")), more, say(None, the_end(), look=look)
    )  # fmt: skip
    assert transcript(home).stat().st_size < 2_000_000


def test_a_third_call_that_gives_the_same_is_not_run(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = say(None, call("echo", text="again"))

    def look(request: Request) -> None:
        assert "asked the same and gave the same" in results(request)[0]

    run(home, engine, monkeypatch, same, same, same, say(None, the_end(), look=look))
    last = bodies(home, Returned)[-2]
    assert last.status == "denied"


def test_what_changes_may_be_asked_as_often_as_it_does(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter("abcd")
    changing = replace(echo, run=lambda args, context: Gave(text=next(seen)))
    with ScriptedModel([say(None, call("echo"))] * 4 + [say(None, the_end())]).use(monkeypatch):
        investigate(home, engine, tools={"echo": changing})
    assert [one.status for one in bodies(home, Returned)][-5:] == ["ok"] * 5


def test_words_alone_bring_it_to_an_end(home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    concluded, requests = run(
        home, engine, monkeypatch, *[say("I think.")] * 3, say("It may be birch.")
    )  # fmt: skip
    assert (concluded.exit_reason, concluded.exit_code) == ("stopped", 4)
    assert concluded.answer is not None
    assert "answers in a row without a call" in concluded.summary
    assert [one.get("tool_choice") for one in requests] == [None, None, None, "none"]


@pytest.mark.parametrize(
    ("budget", "usage", "words"),
    [
        ({"steps": 2}, None, "2 of 2 steps"),
        ({"tokens": 1000}, {"prompt_tokens": 400, "completion_tokens": 150}, "1650 of 1000 tokens"),
        ({"cost": 0.01}, {"prompt_tokens": 4000, "completion_tokens": 500}, "$0.01 of $0.01"),
        ({"minutes": 0.0021}, None, "minutes"),
    ],
)
def test_at_a_limit_it_is_asked_once_more_and_can_go_on(
    budget: dict[str, float],
    usage: dict[str, int] | None,
    words: str,
    home: Home,
    engine: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = [say(None, call("echo", text=f"{n}"), usage=usage) for n in range(2)]
    llm = {"budget": budget, "prices": {"scripted": {"input": 1.0, "output": 2.0}}}
    if "minutes" in budget:
        llm["budget"] = {"minutes": 1e-9}
        work = []
    last = say("Elm is open.", call("echo", text="never run"), usage=usage)
    concluded, requests = run(home, engine, monkeypatch, *work, last, llm=llm)
    assert (concluded.exit_reason, concluded.exit_code) == ("stopped", 4)
    assert words in concluded.summary
    assert concluded.answer is not None
    assert requests[-1]["tool_choice"] == "none"
    assert "budget of this run is used up" in requests[-1]["messages"][-1]["content"]
    assert "never run" not in str(bodies(home, Called))
    # Who goes on grants as much again.
    if "minutes" not in budget:
        with ScriptedModel([say(None, the_end())]).use(monkeypatch):
            assert resume(home, transcript(home), setting=setting(tools=EXTRA)).exit_code == 0
        replayed(home)


def test_a_tool_has_a_limit_of_its_own(home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [call("echo", text=f"{n}") for n in range(3)]

    def look(request: Request) -> None:
        assert ["may be called 2 times" in text for text in results(request)] == [False, False, True]

    run(
        home, engine, monkeypatch, say(None, *calls), say(None, the_end(), look=look),
        llm={"calls": {"echo": 2}},
    )  # fmt: skip


def too_long(at: int) -> Callable[[Request], Step]:
    """Refuses what has more characters than ``at``, as servers with a shorter context do."""

    def answer(request: Request) -> Step:
        if len(json.dumps(request["messages"])) > at:
            return Step(status=400, body={"error": {"message": "maximum context length is 8192 tokens"}})
        return say(None, the_end())

    return answer


def test_a_server_that_reads_less_gets_less(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = [say(None, call("echo", text=f"{n} " + "x" * 15_000)) for n in range(8)]
    concluded, requests = run(home, engine, monkeypatch, *work, *[too_long(60_000)] * 3)
    assert concluded.exit_code == 0
    told = requests[-1]["messages"]
    assert [one["role"] for one in told[:3]] == ["system", "user", "assistant"]
    assert "left out" in told[1]["content"]
    assert "echo: ok" in told[1]["content"]
    paired(told)


def test_a_server_that_reads_next_to_nothing_is_told_of(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = say(None, call("echo", text="x" * 9000))
    concluded, _ = run(home, engine, monkeypatch, work, *[too_long(10)] * 4)
    assert (concluded.exit_reason, concluded.exit_code) == ("stopped", 4)
    assert "more was sent than the model reads" in concluded.summary


def test_a_long_conversation_is_made_shorter_and_keeps_calls_with_their_results(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(request: Request) -> Step:
        spans = [{"file": GATES, "start": 6, "end": 7, "quote": "raise ValueError"}]
        return say(None, call("record_finding", {**FERN, "verdict": "blocked", "spans": spans}))

    def work(number: int) -> Callable[[Request], Step]:
        def step(request: Request) -> Step:
            paired(request["messages"])
            sizes.append(len(json.dumps(request["messages"])))
            return say(
                f"step {number}", *(call("echo", text=f"{number}.{n} " + "y" * 3000) for n in range(3))
            )

        return step

    def look(request: Request) -> None:
        text = request["messages"][1]["content"]
        assert "Findings recorded here: " in text
        recorded.append(text)

    sizes: list[int] = []
    recorded: list[str] = []
    reading = lambda request: say(  # noqa: E731
        None, call("read_source", environment=environment_in(request), file=GATES)
    )
    concluded, requests = run(
        home, engine, monkeypatch, reading, found, *[work(n) for n in range(30)],
        say(None, the_end(), look=look), llm={"context": 20_000},
    )  # fmt: skip
    assert concluded.exit_code == 0
    assert max(sizes) < 90_000
    assert sum("made shorter" in one.text for one in bodies(home, Noted)) >= 3
    assert len(bodies(home, Found)) > 1
    paired(requests[-1]["messages"])


def paired(messages: list[dict[str, Any]]) -> None:
    """Every result follows the answer that asked for it, and every call has one."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
        else:
            assert waiting == []
            waiting = [one["id"] for one in message.get("tool_calls", ())]
    assert waiting == []


def test_what_was_not_granted_is_refused_and_nobody_inherits_what_was(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = say(None, call("run_kernel", text="gemm"))

    def refused(words: str) -> Callable[[Request], None]:
        def look(request: Request) -> None:
            assert words in results(request)[0]

        return look

    def denied(request: Request) -> Step:
        refused("a person grants it with --allow uses_gpu")(request)
        return Step(status=401)

    asked: list[dict[str, Any]] = []

    def ask(tool: Tool[Any, Any], called: Called) -> bool:
        asked.append(called.input)
        return len(asked) == 1

    with ScriptedModel([kernel, denied]).use(monkeypatch) as model:
        assert investigate(home, engine, tools=EXTRA).exit_code == 3
    assert "run_kernel" not in str(model.requests[0]["tools"])
    granted = Grants(Policy(frozenset({Effect.READS, Effect.USES_GPU})))
    second = say(None, call("run_kernel", text="two"), look=lambda _: None)
    with ScriptedModel([second, Step(status=401, look=refused("ran two"))]).use(monkeypatch):
        assert resume(home, transcript(home), setting=setting(tools=EXTRA, grants=granted)).exit_code == 3
    third = say(None, call("run_kernel", text="three"))
    with ScriptedModel([third, denied]).use(monkeypatch):
        resume(home, transcript(home), setting=setting(tools=EXTRA))
    steps = [
        say(None, call("run_kernel", text="four")),
        say(None, call("run_kernel", text="five"), look=refused("ran four")),
        say(None, the_end(), look=refused("the person was asked and refused")),
    ]
    with ScriptedModel(steps).use(monkeypatch):
        resume(home, transcript(home), setting=setting(tools=EXTRA, grants=Grants(ask=ask)))
    assert asked == [{"text": "four"}, {"text": "five"}]
    assert [one.text for one in bodies(home, Noted) if "allowed by the person" in one.text] != []
    replayed(home)


@pytest.mark.parametrize("status", [401, 404])
def test_what_a_person_must_mend_is_3_and_can_be_gone_on_with(
    status: int, home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    concluded, _ = run(home, engine, monkeypatch, Step(status=status, body={"error": {"message": "no"}}))
    assert (concluded.exit_reason, concluded.exit_code) == ("missing", 3)
    with ScriptedModel([say(None, the_end())]).use(monkeypatch):
        assert resume(home, transcript(home), setting=setting()).exit_code == 0
    replayed(home)


def test_faults_of_a_server_are_on_record_and_do_not_end_it(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = {"retry-after": "0"}
    faults = [Step(status=429, headers=soon), Step(status=500, headers=soon)]
    concluded, _ = run(home, engine, monkeypatch, *faults, say(None, the_end()))
    assert concluded.exit_code == 0
    assert [one.text.split(":")[0] for one in bodies(home, Noted)] == ["r1", "r1"]
    assert len(bodies(home, Asked)) == len(bodies(home, Answered)) == 1


def acts(request: Request) -> Step:
    """A model that looks at the conversation alone: the same after a break as without one."""
    told = str(request["messages"])
    if "search_source: ok" not in told:
        return say("I look.", call("search_source", environment=environment_in(request), pattern="cedar"))
    if "read_source: ok" not in told:
        reading = call("read_source", environment=environment_in(request), file=GATES)
        return say("I read.", reading, call("echo", text="beside"))
    if "record_finding: ok" not in told:
        spans = [{"file": GATES, "start": 6, "end": 7, "quote": "raise ValueError"}]
        return say(None, call("record_finding", {**FERN, "verdict": "blocked", "spans": spans}))
    if "update_hypothesis: ok" not in told:
        moved = {"component": "attention", "backend": "fern", "state": "inconclusive", "because": "so"}
        return say(None, call("update_hypothesis", moved))
    return say(None, the_end())


def test_killed_after_any_event_it_goes_on_to_the_same_end(
    home: Home, engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel([acts] * 5).use(monkeypatch):
        assert investigate(home, engine, tools=EXTRA).exit_code == 0
    lines = transcript(home).read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"kind":"said"' in line)
    found = {one.finding.id for one in bodies(home, Found)}
    for left in range(first, len(lines)):
        path = transcript(home)
        path.write_bytes(b"".join(lines[:left]))
        home.findings_db.unlink(missing_ok=True)
        with ScriptedModel(acts for _ in range(5)).use(monkeypatch) as model:
            model.all_needed = False
            assert resume(home, path, setting=setting(tools=EXTRA)).exit_code == 0, left
        for one in model.requests:
            paired(one["messages"])
        replayed(home)
        assert {one.finding.id for one in bodies(home, Found)} == found


def test_the_same_answers_write_the_same_bytes(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for name in ("one", "two"):
        home = Home(tmp_path / name).prepare()
        with ScriptedModel([acts] * 5).use(monkeypatch):
            investigate(home, engine, tools=EXTRA)
        written.append((home.transcripts / f"{NAME}.jsonl").read_bytes())
    assert written[0] == written[1]
