"""Steering: what a person asks of a running investigation is an event before the next step, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from investigations import NAME, documents, investigate, setting, sound, transcript, whole
from model_runs import GATES, environment_in, investigate as led, results, the_end
from program import ROOT
from scripted_model import ScriptedModel, call, say
from tiny_engine import fake_trace_many, write_engine

from agent.board import Board
from agent.cli.main import run
from agent.cli.steer import FINISHED
from agent.drivers.planner import Planner
from agent.fork import fork
from agent.loop import Call
from agent.policy import Heeding, Policy
from agent.replay import replay
from agent.session import FINAL, board_of, resume
from memory.artifacts import Artifacts
from memory.home import Home
from memory.vocabulary import Effect, HypothesisState, Level
from tools.registry import registry
from transcripts.check import check
from transcripts.events import Called, Concluded, HypothesisChanged, Returned, Steered
from transcripts.inbox import Inbox, inbox_of, leave
from transcripts.log import read


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


def asking(number: int, asks: str, component: str | None = None, backend: str | None = None) -> Steered:
    return Steered.model_validate(
        {"message": f"{number:x}", "asks": asks, "component": component, "backend": backend}
    )


def leaving(home: Home, *messages: Steered) -> Callable[[Any, Sequence[Any]], Any]:
    """Traces that leave messages while they run."""

    def trace(context: Any, inputs: Sequence[Any]) -> Any:
        for message in messages:
            leave(transcript(home), message)
        return fake_trace_many(context, inputs)

    return trace


def traced(path: Path) -> list[tuple[str, str]]:
    asked = [one["input"] for one in documents(path) if one.get("tool") == "trace_viability"]
    return [(one["component"], one["backend"]) for one in asked]


def kinds(path: Path) -> list[str]:
    return [one["kind"] for one in documents(path)]


def test_what_is_skipped_is_not_tested_and_the_answer_says_so(home: Home, engine: Path) -> None:
    leave(transcript(home), asking(1, "skip", "attention"))
    leave(transcript(home), asking(2, "skip", "moe_runner", "dune"))
    concluded = investigate(home, engine)
    path = transcript(home)
    cells = traced(path)
    assert {component for component, _ in cells} == {"fp4_gemm", "moe_runner"}
    assert ("moe_runner", "dune") not in cells
    assert concluded.answer is not None
    assert "as asked while it ran: skip attention" in concluded.answer.target.assumed
    assert "as asked while it ran: skip moe_runner dune" in concluded.answer.target.assumed
    left = [one for one in documents(path) if one.get("because") == "skipped, as a person asked"]
    assert {(one["component"], one["backend"]) for one in left} == {
        ("attention", "elm"), ("attention", "fern"), ("moe_runner", "dune"),
    }  # fmt: skip
    assert {one["state"] for one in left} == {"inconclusive"}
    sound(home, path)


def test_what_is_preferred_is_tested_first_and_the_last_word_counts(home: Home, engine: Path) -> None:
    for number, (asks, component, backend) in enumerate(
        (("skip", "moe_runner", None), ("prefer", "moe_runner", "dune"), ("prefer", "attention", "fern"))
    ):
        leave(transcript(home), asking(number, asks, component, backend))
    investigate(home, engine)
    cells = traced(transcript(home))
    assert set(cells[:2]) == {("moe_runner", "dune"), ("attention", "fern")}
    assert [one for one in cells if one[0] == "moe_runner"] == [("moe_runner", "dune")]
    sound(home, transcript(home))


def test_a_message_is_heeded_before_the_next_step_and_stop_ends_it(home: Home, engine: Path) -> None:
    given = {"batches": {"trace_viability": leaving(home, asking(7, "stop"))}}
    concluded = investigate(home, engine, **given)
    path = transcript(home)
    assert (concluded.exit_reason, concluded.exit_code) == ("stopped", 4)
    assert kinds(path)[-2:] == ["steered", "concluded"]
    assert Counter(kinds(path))["returned"] == Counter(kinds(path))["called"], "the step itself was finished"
    assert traced(path), "it was going on when it was asked to stop"
    assert "found" not in kinds(path)
    again = resume(home, path, setting=setting())
    assert again.exit_reason == "answered", "the same message counts once, also where another goes on"
    assert Counter(kinds(path))["steered"] == 1
    assert again.answer is not None
    assert not [one for one in again.answer.target.assumed if "as asked" in one]
    sound(home, path)


def test_it_is_replayed_forked_and_resumed_as_it_was(home: Home, engine: Path) -> None:
    leave(transcript(home), asking(1, "prefer", "attention"))
    investigate(home, engine, batches={"trace_viability": leaving(home, asking(2, "skip", "fp4_gemm"))})
    path = transcript(home)
    places = [seq for seq, kind in enumerate(kinds(path)) if kind == "steered"]
    assert len(places) == 2
    done = replay(read(path), lambda name: json.loads(whole(home)(name)))
    assert (done.difference, done.events) == (None, len(kinds(path)))
    assert check(path, whole(home)) == []
    inbox_of(path).unlink()  # what is on record needs it no more
    assert replay(read(path), lambda name: json.loads(whole(home)(name))).difference is None
    name, concluded = fork(home, path, "planner", until=places[0], setting=setting(), name="20260102-abcdef")
    assert concluded.answer is not None
    assert "as asked while it ran: prefer attention" in concluded.answer.target.assumed
    assert not inbox_of(home.transcripts / f"{name}.jsonl").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"nothing\n", b"[" * 5000 + b"\n", b'{"asks":"skip"}\n', b'{"message":"zz","asks":"stop"}\n',
        b'{"message":"1","asks":"erase"}\n', b"\xff\xfe\n", b'{"message":"1","asks":"stop"}',  # torn
        b'{"message":"1","asks":"skip","component":"' + b"x" * 5000 + b'"}\n',
    ],
)  # fmt: skip
def test_what_is_no_message_is_passed_over(home: Home, engine: Path, line: bytes) -> None:
    inbox_of(transcript(home)).write_bytes(line)
    leave(transcript(home), asking(3, "prefer", "attention"))
    found = list(Inbox(transcript(home))(set()))
    wanted = [asking(3, "prefer", "attention")]
    torn = not line.endswith(b"\n")  # whoever writes after it ends its line
    assert found == ([asking(1, "stop")] if torn else []) + wanted
    if not torn:
        assert investigate(home, engine).exit_reason == "answered"


def test_an_inbox_is_read_as_it_grows_and_each_message_once(home: Home) -> None:
    path = transcript(home)
    inbox = Inbox(path)
    assert list(inbox(set())) == []
    leave(path, asking(1, "stop"))
    leave(path, asking(2, "stop"))
    assert [one.message for one in inbox({"1"})] == ["2"]
    assert list(inbox(set())) == []
    with inbox_of(path).open("ab") as file:
        file.write(b'{"message":"4","asks":"st')
    assert list(inbox(set())) == []
    with inbox_of(path).open("ab") as file:
        file.write(b'op"}\n')
    assert [one.message for one in inbox(set())] == ["4"]


def test_whoever_decides_tests_nothing_that_is_skipped(home: Home, engine: Path) -> None:
    investigate(home, engine)
    board = board_of(transcript(home), Artifacts(home.artifacts))
    rules = Heeding(board, Policy(frozenset(Effect)))
    tool = registry()["trace_viability"]
    given = {"component": "attention", "backend": "elm"}
    called = Called(call="c99", tool=tool.name, effect=tool.effect, input=given)
    assert rules.rule(tool, called).refusal is None
    board.steered.append(asking(1, "skip", "attention"))
    assert rules.rule(tool, called).refusal is None, "the planner leaves it alone by itself"
    board.led = True
    assert rules.rule(tool, called).refusal == "not run: the person asked to skip attention elm"
    saying = called.model_copy(update={"tool": "record_finding"})
    assert rules.rule(registry()["record_finding"], saying).refusal is None


# The command


def unfinished(home: Home, engine: Path, end: Concluded | None = None) -> Path:
    """A transcript that has hypotheses and no end, as of a process that runs."""
    investigate(home, engine)
    path = transcript(home)
    if end is None:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    return path


def steer(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert run(["steer", *args]) == code
    said = capsys.readouterr()
    assert len((said.err if code else said.out).splitlines()) == 1 or "--json" in args
    return said.err if code else said.out


def test_the_command_leaves_a_message(home: Home, engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unfinished(home, engine)
    before = path.read_bytes()
    assert "skip attention; it is heeded before its next step" in steer(capsys, NAME, "skip", "attention")
    found = json.loads(steer(capsys, NAME[:10], "prefer", "moe_runner/dune", "--json"))
    assert (found["asks"], found["component"], found["backend"]) == ("prefer", "moe_runner", "dune")
    subject = next(one["id"] for one in documents(path) if one["kind"] == "hypothesis")
    assert f"skip {'attention'}" not in steer(capsys, NAME, "skip", subject[:6])
    steer(capsys, NAME, "stop")
    assert [one.asks for one in Inbox(path)(set())] == ["skip", "prefer", "skip", "stop"]
    assert path.read_bytes() == before, "history is not for whoever steers to write"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("nope", "stop"), "no transcript 'nope'"),
        ((NAME, "skip"), "skip what?"),
        ((NAME, "skip", ""), "skip what?"),
        ((NAME, "skip", "atention"), "did you mean attention"),
        ((NAME, "skip", "attention/elmo"), "did you mean attention/elm"),
        ((NAME, "skip", "zzz"), "it has "),
        ((NAME, "skip", "dune"), "'dune' is a backend; say of which component: moe_runner/dune"),
        ((NAME, "prefer", "amber"), "is a backend of several components"),
        ((NAME, "stop", "attention"), "skip attention"),
        ((NAME, "erase"), "erase"),
        ((NAME, "skip", "x" * 4000), "has no"),
        ((NAME, "skip", "a\x1b[2J"), "has no"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    home: Home, engine: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], says: str
) -> None:
    path = unfinished(home, engine)
    said = steer(capsys, *args, code=2)
    assert says in said
    assert "\x1b" not in said
    assert not inbox_of(path).exists()


def test_what_came_to_its_end_is_not_steered_and_what_stopped_when_it_goes_on(
    home: Home, engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert FINISHED == FINAL
    investigate(home, engine)
    assert "came to its end already (answered)" in steer(capsys, NAME, "stop", code=2)
    path = transcript(home)
    path.unlink()
    investigate(home, engine, batches={"trace_viability": leaving(home, asking(1, "stop"))})
    assert "has stopped already (stopped); go on with" in steer(capsys, NAME, "stop", code=2)
    assert f"heeded by: agent resume {NAME}" in steer(capsys, NAME, "skip", "attention")
    assert resume(home, path, setting=setting()).exit_reason == "answered"
    assert "steered" in kinds(path)[-200:]


def test_before_there_are_hypotheses_a_component_is_taken_as_it_is_named(
    home: Home, engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unfinished(home, engine)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert "skip what/ever" in steer(capsys, NAME, "skip", "what/ever")
    assert "is no COMPONENT" in steer(capsys, NAME, "skip", "what/", code=2)


def test_many_who_steer_at_once_lose_no_message(home: Home, engine: Path) -> None:
    path = unfinished(home, engine)
    script = (
        "import sys\nfrom pathlib import Path\nfrom transcripts.events import Steered\n"
        "from transcripts.inbox import leave\n"
        "for n in range(50):\n    message = f'{sys.argv[2]}{n:02x}'\n"
        "    leave(Path(sys.argv[1]), Steered(message=message, asks='stop'))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    going = [
        subprocess.Popen([sys.executable, "-P", "-c", script, str(path), str(one)], env=env)
        for one in range(4)
    ]
    assert [one.wait(timeout=300) for one in going] == [0] * 4
    found = [one.message for one in Inbox(path)(set())]
    assert len(found) == len(set(found)) == 200


def test_a_killed_process_heeds_nothing_twice(home: Home, engine: Path) -> None:
    """Cut off right behind the message: whoever goes on finds it on record, and in the inbox."""
    leave(transcript(home), asking(5, "skip", "attention"))
    investigate(home, engine)
    path = transcript(home)
    lines = path.read_bytes().splitlines(keepends=True)
    place = kinds(path).index("steered")
    for end in (place, place + 1):
        path.write_bytes(b"".join(lines[:end]))
        assert resume(home, path, setting=setting()).exit_reason == "answered"
        assert kinds(path).count("steered") == 1
        assert {component for component, _ in traced(path)} == {"fp4_gemm", "moe_runner"}
        sound(home, path)


def test_a_model_is_told_and_cannot_test_what_is_skipped(
    home: Home, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(request: dict[str, Any]) -> Any:
        leave(transcript(home), asking(9, "skip", "attention", "fern"))
        return say(None, call("read_source", environment=environment_in(request), file=GATES))

    def insist(request: dict[str, Any]) -> Any:
        assert "skip attention fern" in request["messages"][-1]["content"]
        cell = {"component": "attention", "backend": "fern", "arch": "sm120"}
        return say(None, call("trace_viability", environment=environment_in(request), **cell))

    def end(request: dict[str, Any]) -> Any:
        assert "the person asked to skip attention fern" in results(request)[0]
        assert "skip attention fern" not in request["messages"][-1]["content"].split("asked to")[0]
        return say(None, the_end())

    with ScriptedModel([begin, insist, end]).use(monkeypatch):
        concluded = led(home, engine)
    assert concluded.exit_reason == "answered"
    assert kinds(transcript(home)).count("steered") == 1
    sound(home, transcript(home))


def test_between_two_calls_of_one_decision_it_is_heeded_too(home: Home, engine: Path) -> None:
    tool = registry()["record_finding"]

    def keep(args: Any, context: Any) -> Any:
        if not inbox_of(transcript(home)).exists():
            leave(transcript(home), asking(1, "stop"))
        return tool.run(args, context)

    concluded = investigate(home, engine, tools={"record_finding": replace(tool, run=keep)})
    path = transcript(home)
    assert concluded.exit_reason == "stopped"
    assert kinds(path).count("found") == 1, "the call that was going on was finished, the next was not begun"
    assert kinds(path)[-2:] == ["steered", "concluded"]
    assert resume(home, path, setting=setting()).exit_reason == "answered"
    assert kinds(path).count("found") > 1
    sound(home, path)


class Dear:
    """A rung above reading, as probes are one: it notes what it would run."""

    name, level = "dear", Level.PROBE

    def __init__(self) -> None:
        self.asked: list[str] = []

    def applicable(self, board: Board, hypothesis: HypothesisChanged) -> bool:
        return hypothesis.state is HypothesisState.PREDICTED

    def cost(self) -> float:
        return 1.0

    def calls(self, board: Board, hypotheses: Sequence[HypothesisChanged]) -> list[Call]:
        self.asked = [one.component for one in hypotheses]
        return [Call("probe_kernel", {}, hypothesis=one.id) for one in hypotheses]

    def read(self, board: Board, hypothesis: HypothesisChanged, returned: Returned) -> None:
        return None


def test_what_was_read_already_is_not_run_where_it_is_skipped(home: Home, engine: Path) -> None:
    investigate(home, engine)
    board = board_of(transcript(home), Artifacts(home.artifacts))
    board.steered += [asking(1, "skip", "moe_runner"), asking(2, "prefer", "attention")]
    rung = Dear()
    Planner([rung]).decide(board)
    assert rung.asked
    assert "moe_runner" not in rung.asked
    assert rung.asked[0] == "attention"
