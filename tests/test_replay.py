"""Replay: the same decisions from the recorded results, or the first difference by its number."""

from __future__ import annotations

import hashlib
import json
import random
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from investigations import NAME, documents, investigate, rewrite, setting, transcript
from tiny_engine import failing_trace, fake_trace_many, write_engine

from agent.board import Board
from agent.cli.main import run
from agent.drivers.planner import Planner, conclusion_of
from agent.fork import fork
from agent.loop import Decision, Driver
from agent.replay import Replayed, replay
from agent.session import resume
from memory.artifacts import ArtifactError, Artifacts
from memory.canonical import finding_id
from memory.home import Home
from memory.vocabulary import EventEvidence
from tools.base import ToolError
from transcripts.check import check
from transcripts.events import Found, Opened, Resumed
from transcripts.log import read


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "site-packages")


@pytest.fixture
def done(home: Home, engine: Path) -> Path:
    investigate(home, engine)
    return transcript(home)


def again(path: Path, home: Home, **given: Any) -> Replayed:
    return replay(read(path), lambda sha256: json.loads(artifact(home)(sha256)), **given)


def artifact(home: Home) -> Callable[[str], bytes]:
    return lambda sha256: (home.artifacts / sha256[:2] / sha256[2:]).read_bytes()


def numbers(path: Path, **fields: Any) -> list[int]:
    """Events whose body has these fields."""
    return [seq for seq, one in enumerate(documents(path)) if fields.items() <= one.items()]


def test_the_same_decisions_without_running_anything(
    done: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: pytest.fail("a program was started"))
    monkeypatch.setattr(socket, "socket", lambda *args, **kwargs: pytest.fail("the network was asked"))
    before = {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()}
    replayed = again(done, home)
    assert replayed.difference is None
    assert replayed.events == len(done.read_bytes().splitlines())
    assert {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()} == before


def test_every_beginning_of_a_log_is_replayed(done: Path, home: Home) -> None:
    """A log whose process was killed after any event, and --until, are the same question."""
    count = len(done.read_bytes().splitlines())
    for until in range(count):
        replayed = again(done, home, until=until)
        assert (replayed.difference, replayed.events) == (None, until + 1)


@pytest.mark.parametrize("left", [8, 20, 33, 45])
def test_a_log_that_was_resumed_is_replayed(done: Path, home: Home, left: int) -> None:
    done.write_bytes(b"".join(done.read_bytes().splitlines(keepends=True)[:left]))
    home.findings_db.unlink()
    resume(home, done, setting=setting())
    assert again(done, home).difference is None
    # What a resumption found open follows from what stands before it.
    (number,) = numbers(done, kind="resumed")
    rewrite(done, lambda seq, data: data.update(open=["c1"]) if seq == number else None)
    difference = again(done, home).difference
    assert difference is not None
    assert difference.event == number
    assert [(one.event, one.message[:9]) for one in check(done, artifact(home))] == [(number, "says that")]


def test_failures_and_ctrl_c_are_replayed_as_they_came(home: Home, tmp_path: Path, engine: Path) -> None:
    def interrupt(context: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    assert investigate(home, engine, batches={"trace_viability": interrupt}).exit_code == 130
    assert again(transcript(home), home).difference is None
    other = Home(tmp_path / "failing").prepare()
    from tiny_engine import FAKE_TRACE

    investigate(other, engine, batches={}, tools={"trace_viability": replace(FAKE_TRACE, run=failing_trace)})
    assert any("ZeroDivisionError" in one.get("text", "") for one in documents(transcript(other)))
    assert again(transcript(other), other).difference is None


def test_a_copy_under_another_name_goes_on_as_what_it_says_it_is(done: Path, home: Home) -> None:
    (number, *_) = numbers(done, kind="found")
    copy = done.with_name("copy.jsonl")
    copy.write_bytes(b"".join(done.read_bytes().splitlines(keepends=True)[:number]))
    resume(home, copy, setting=setting())
    assert check(copy, artifact(home)) == []
    assert again(copy, home).difference is None


class Wordy(Planner):
    """Gives another reason for one of its calls."""

    def decide(self, board: Board) -> Decision:
        decision = super().decide(board)
        calls = [
            replace(call, why="because") if call.hypothesis and call.tool == "record_finding" else call
            for call in decision.calls
        ]
        return replace(decision, calls=calls)


class Hasty(Planner):
    """Concludes before anything is recorded."""

    def decide(self, board: Board) -> Decision:
        decision = super().decide(board)
        if any(call.tool == "record_finding" for call in decision.calls):
            return Decision(conclude=conclusion_of(board))
        return decision


@pytest.mark.parametrize("driver", [Wordy, Hasty])
def test_the_first_other_decision_is_named(done: Path, home: Home, driver: Callable[[], Driver]) -> None:
    difference = again(done, home, drivers=lambda name: driver()).difference
    assert difference is not None
    assert difference.event == numbers(done, tool="record_finding")[0]
    diff = "\n".join(difference.diff())
    assert "-" in diff
    assert ("because" if driver is Wordy else "concluded") in diff
    assert check(done, artifact(home)) == []


def test_any_changed_result_that_decides_something_is_caught(done: Path, home: Home) -> None:
    """The hashes are made anew, so that the chain holds: the driver decides otherwise all the same."""
    original = done.read_bytes()
    traces = [one["call"] for one in documents(done) if one.get("tool") == "trace_viability"]
    results = [seq for seq, one in enumerate(documents(done)) if one.get("call") in traces][len(traces) :]
    assert len(results) == 10
    for number in results:

        def change(seq: int, data: Any, number: int = number) -> None:
            if seq == number:
                row = data["output"]["row"]
                row["verdict"] = "blocked" if row["verdict"] != "blocked" else "no_static_obstacle"

        rewrite(done, change)
        assert check(done, artifact(home)) == []
        difference = again(done, home).difference
        assert difference is not None
        assert difference.event > number
        done.write_bytes(original)


def test_a_finding_that_no_result_says_is_caught_by_the_log_alone(done: Path, home: Home) -> None:
    original = done.read_bytes()
    (number, *_) = numbers(done, kind="found")
    returned = number - 1
    for at, change in [
        (number, lambda data: data["finding"].update(id="0" * 16)),
        (number, lambda data: data["finding"]["claim"].update(backend="other")),
        (number, lambda data: data["finding"].update(event=3)),
        (returned, lambda data: data["output"]["claim"].update(arch="sm90")),
        (number, lambda data: data["finding"]["claim"]["source_evidence"][0].update(text="a():\n    pass")),
        (returned, lambda data: data.update(call="c999")),
        (returned, lambda data: data.update(status="interrupted")),
    ]:  # fmt: skip
        rewrite(done, lambda seq, data, at=at, change=change: change(data) if seq == at else None)
        problems = check(done, artifact(home))
        assert {one.event for one in problems} & {number, returned}, (at, problems)
        done.write_bytes(original)
    assert check(done, artifact(home)) == []


def test_evidence_that_is_an_event_is_looked_up_in_the_log(done: Path, home: Home) -> None:
    """The head it names must be an event, the words must stand in the one it cites, before the finding."""
    (number, *_) = numbers(done, kind="found")
    hashes = [event.hash for event in read(done)]
    good = {"transcript": NAME, "event": number - 2, "head": hashes[number - 2], "excerpt": "record_finding"}

    def cite(**wrong: Any) -> list[str]:
        item = {**good, **wrong}
        from hashlib import sha256

        item.setdefault("sha256", sha256(item["excerpt"].encode()).hexdigest())
        EventEvidence.model_validate(item)

        def change(seq: int, data: Any) -> None:
            if seq == number:
                data["finding"]["claim"]["event_evidence"] = [item]

        original = done.read_bytes()
        rewrite(done, change)
        said = [one.message for one in check(done, artifact(home))]
        done.write_bytes(original)
        return [one for one in said if "id of its claim" not in one and "result before it" not in one]

    assert cite() == []
    assert "does not say" in cite(excerpt="nothing of the kind")[0]
    assert "hashes to" in cite(sha256="0" * 64)[0]
    assert "is no event between" in cite(head="0" * 64)[0]
    assert "is no event between" in cite(head=hashes[number - 3])[0]
    assert "is no event between" in cite(head=hashes[-1])[0]


def test_results_whose_whole_is_gone_or_damaged(done: Path, home: Home, engine: Path) -> None:
    from pydantic import BaseModel

    class Large(BaseModel):
        text: str = "x" * 100_000

    assert again(done, home).difference is None
    big = Home(home.root.with_name("big")).prepare()
    from tools.registry import registry

    real = registry()["list_backends"]

    class More(real.result):  # type: ignore[name-defined,misc]
        padding: str = "x" * 50_000

    def listing(args: Any, context: Any) -> Any:
        return More.model_validate(real.run(args, context).model_dump())

    investigate(big, engine, tools={"list_backends": replace(real, run=listing)})
    path = transcript(big)
    (kept,) = [one["artifact"] for one in documents(path) if one.get("artifact")]
    assert again(path, big).difference is None
    assert check(path, artifact(big)) == []
    assert check(path, lambda sha256: None) == []
    number = next(seq for seq, one in enumerate(documents(path)) if one.get("artifact"))
    rewrite(path, lambda seq, data: data.update(output="y" + data["output"]) if seq == number else None)
    assert [one.event for one in check(path, artifact(big))] == [number]
    (big.artifacts / kept[:2] / kept[2:]).unlink()

    def gone(sha256: str) -> Any:
        raise ArtifactError(f"no artifact {sha256}")

    with pytest.raises(ArtifactError):
        replay(read(path), gone)


@pytest.mark.parametrize("data", [b"\xff\xfe\0", b"not JSON", b"[" * 100_000])
def test_an_artifact_that_is_no_result_is_a_problem(
    done: Path, home: Home, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (number, *_) = numbers(done, kind="returned")
    sha256 = Artifacts(home.artifacts).put(data)
    shown = data.decode(errors="replace")
    whole = {"artifact": sha256, "artifact_bytes": len(data), "output": shown}
    rewrite(done, lambda seq, body: body.update(whole) if seq == number else None)
    assert run(["replay", NAME, "--verify"]) == 1
    assert f"event {number}: artifact {sha256} holds no JSON" in capsys.readouterr().out
    assert run(["replay", NAME]) == 4
    assert "holds no JSON" in capsys.readouterr().err


def test_a_finding_whose_result_is_not_here_whole_is_no_problem(done: Path, home: Home) -> None:
    (number, *_) = numbers(done, kind="found")
    gone = {"artifact": "0" * 64, "artifact_bytes": 50_000, "output": "{"}
    rewrite(done, lambda seq, body: body.update(gone) if seq == number - 1 else None)
    assert check(done, lambda sha256: None) == []
    # What is missing is no excuse for what another result does not say.
    rewrite(done, lambda seq, body: body.update(output={}) if seq == number + 2 else None)
    assert [one.event for one in check(done, lambda sha256: None)] == [number + 3]


def test_any_flipped_bit_is_named_and_is_exit_one(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = bytearray(done.read_bytes())
    lines = original.splitlines(keepends=True)
    ends = [sum(map(len, lines[: n + 1])) for n in range(len(lines))]
    chance = random.Random(7)
    for _ in range(200):
        at = chance.randrange(len(original))
        changed = bytearray(original)
        changed[at] ^= 1 << chance.randrange(8)
        done.write_bytes(changed)
        assert run(["replay", NAME, "--verify"]) == 1, at
        event = next(n for n, end in enumerate(ends) if at < end)
        assert f"event {event}: " in capsys.readouterr().out, at
        assert run(["replay", NAME]) == 1, at
        said = capsys.readouterr()
        assert f"event {event}: " in said.err + said.out, at
    done.write_bytes(original)
    assert run(["replay", NAME, "--verify"]) == 0
    assert run(["replay", NAME, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["same"]


def test_a_difference_at_the_command_line(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (number, *_) = numbers(done, kind="hypothesis", state="predicted")
    rewrite(done, lambda seq, data: data.update(because="a hunch") if seq == number else None)
    assert run(["replay", NAME]) == 1
    said = capsys.readouterr().out
    assert f"event {number}: hypothesis" in said
    assert '-  "because": "a hunch"' in said or '- "because": "a hunch"' in said
    assert run(["replay", NAME, "--json"]) == 1
    difference = json.loads(capsys.readouterr().out)["difference"]
    assert difference["event"] == number
    assert difference["recorded"]["because"] == "a hunch"
    assert run(["replay", NAME, "--verify"]) == 0


@pytest.mark.parametrize("until", [0, 5, 14, 30, 44, 60, None])
def test_a_fork_goes_on_live_in_a_transcript_of_its_own(
    done: Path, home: Home, engine: Path, until: int | None
) -> None:
    before = done.read_bytes()
    name, concluded = fork(home, done, "planner", until=until, setting=setting(), name="20260101-fedcba")
    assert (concluded.exit_reason, name) == ("answered", "20260101-fedcba")
    assert concluded.answer is not None
    assert concluded.answer.transcript == name
    assert done.read_bytes() == before
    path = home.transcripts / f"{name}.jsonl"
    bodies = [event.data for event in read(path)]
    last = len(before.splitlines()) - 2 if until is None else until
    assert isinstance(bodies[0], Opened)
    assert bodies[0].parent == f"{NAME}@{last}"
    assert isinstance(bodies[last + 1], Resumed)
    assert check(path, artifact(home)) == []
    assert again(path, home).difference is None
    original = {row.backend: row.verdict for row in list(read(done))[-1].data.answer.backends}  # type: ignore[union-attr]
    assert {row.backend: row.verdict for row in concluded.answer.backends} == original


def test_a_fork_keeps_findings_that_cite_an_event(done: Path, home: Home) -> None:
    """Their ids stand for what they cite, which goes on to lie in the parent."""
    (number, *_) = numbers(done, kind="found")
    cited = list(read(done))[number - 2]
    item = {"transcript": NAME, "event": cited.seq, "head": cited.hash, "excerpt": "record_finding"}
    item["sha256"] = hashlib.sha256(b"record_finding").hexdigest()

    def cite(seq: int, data: Any) -> None:
        if seq in {number - 1, number}:
            finding = data["output"] if data["kind"] == "returned" else data["finding"]
            finding["claim"]["event_evidence"] = [item]
            finding["id"] = finding_id(finding["claim"])

    rewrite(done, cite)
    assert check(done, artifact(home)) == []
    name, _ = fork(home, done, "planner", until=number, setting=setting(), name="20260101-fedcba")
    path = home.transcripts / f"{name}.jsonl"
    assert check(path, artifact(home)) == []
    found = list(read(path))[number].data
    assert isinstance(found, Found)
    assert (found.finding.transcript, found.finding.claim.event_evidence[0].transcript) == (name, NAME)


def test_a_fork_that_cannot_be(done: Path, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ToolError, match="ends with event"):
        fork(home, done, "planner", until=10_000, setting=setting())
    assert run(["replay", NAME, "--fork", "llm"]) == 3
    assert "needs a model" in capsys.readouterr().err
    assert run(["replay", NAME, "--verify", "--until", "3"]) == 2
    assert len(list(home.transcripts.glob("*"))) == 1


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 2),
        (b"\x7fELF\x02\x01\x01\x00" * 40, 2),
        (b'{"type":"user","uuid":"1"}\n{"type":"assistant"}\n', 2),
        (b"[1, 2]\n", 2),
    ],
)
@pytest.mark.parametrize("options", [[], ["--verify"], ["--fork", "planner"]])
def test_what_is_no_transcript_is_wrong_input(
    tmp_path: Path, content: bytes, code: int, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(content)
    assert run(["replay", str(path), *options]) == code
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if line.startswith("agent: ")]) == 1


def test_a_newer_format_is_refused(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(done, lambda seq, data: data.update(format=2) if seq == 0 else None)
    for options in ([], ["--verify"], ["--fork", "planner"]):
        assert run(["replay", NAME, *options]) == 2
        assert "upgrade assay-agent" in capsys.readouterr().err
    assert run(["resume", NAME]) == 2
    assert "upgrade assay-agent" in capsys.readouterr().err


def test_the_batch_is_followed_as_it_was_recorded(home: Home, engine: Path) -> None:
    """Calls that ran one by one, and the same that ran together, are replayed alike."""
    investigate(home, engine, batches={})
    one_by_one = [one["kind"] for one in documents(transcript(home))]
    assert again(transcript(home), home).difference is None
    other = Home(home.root.with_name("other")).prepare()
    investigate(other, engine, batches={"trace_viability": fake_trace_many})
    assert again(transcript(other), other).difference is None
    assert sorted(one_by_one) == sorted(one["kind"] for one in documents(transcript(other)))
