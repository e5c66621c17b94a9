"""``agent mcp`` and a client that means harm, is broken, or is suddenly gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
from mcp_clients import LONG, QUESTION, Raw, slow_tool
from program import ROOT, agent
from test_mcp import statuses
from tiny_engine import write_engine

from memory.home import Home
from transcripts.events import Concluded
from transcripts.log import read, verify
from transcripts.reader import transcript_path


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "engine")


def last(home: Home, name: str) -> object:
    *_, event = read(transcript_path(home, name))
    return event.data


def test_what_was_not_granted_is_refused_and_recorded(home: Home, engine: Path, tmp_path: Path) -> None:
    """Reading elsewhere, fetching packages, another environment, rights of its own."""
    (tmp_path / "secret.txt").write_text("top secret", encoding="utf-8")
    here = str(engine)
    begins = [
        ({"environment": str(tmp_path)}, "not one of the folders"),
        ({"environment": "../.."}, "not one of the folders"),
        ({"packages": ["evil==1"]}, "writes_environment was not granted"),
        ({"allow": ["writes_environment"]}, "allow"),
        ({"question": "qwen3.5 nvfp4"}, "no GPU architecture"),
        ({"scenario": ["nonsense"]}, "KEY=VALUE"),
    ]
    calls = [
        ("read_source", {"environment": str(tmp_path), "file": "secret.txt"}, "not one of the folders"),
        ("read_source", {"environment": here, "file": "../secret.txt"}, "outside the environment"),
        ("create_environment", {"packages": ["evil==1"]}, "was not granted"),
        ("upgrade_environment", {"to": ["sglang==0.5.9"]}, "was not granted"),
        ("adopt_environment", {"path": str(tmp_path)}, "no tool"),
        ("run_shell", {"command": "id"}, "no tool"),
        ("read_source", {"environment": here, "file": "x", "start": "NaN"}, "start"),
    ]
    with Raw(home.root, "-e", here) as client:
        for given, why in begins:
            text, wrong = client.call("begin_investigation", **{**QUESTION, **given})
            assert wrong
            assert why in text
        assert not list(home.transcripts.glob("*.jsonl"))
        name = client.begin()
        for tool, arguments, why in calls:
            text, wrong = client.call(tool, **arguments)
            assert wrong
            assert why in text
            assert "top secret" not in text
        # What cannot be begun takes the place of nothing.
        assert client.call("begin_investigation", question="nothing at all")[1] is True
        assert client.call("gpu_status")[1] is False
    *refused, end = statuses(home, name)[-len(calls) - 1 :]
    assert end == ("gpu_status", "ok")
    assert [tool for tool, _ in refused] == [tool for tool, _, _ in calls]
    assert {status for _, status in refused} == {"error", "denied"}


def test_only_what_a_client_began_here_is_gone_on_with(home: Home, engine: Path) -> None:
    """Neither what the person began, nor what another server was given to read."""
    agent("investigate", QUESTION["question"], "-e", str(engine))
    (persons,) = (path.stem for path in home.transcripts.glob("*.jsonl"))
    with Raw(home.root, "-e", str(engine)) as client:
        name = client.begin()
        client.leave()
    with Raw(home.root) as client:
        for investigation, why in (
            (persons, "not begun by a client"),
            (name, "not one of the folders"),
            ("../home/transcripts/x", "no investigation"),
            ("", "no investigation"),
        ):
            text, wrong = client.call("resume_investigation", investigation=investigation)
            assert wrong
            assert why in text
        text, wrong = client.call("begin_investigation", **QUESTION)
        assert wrong
        assert "say which environment" in text


def test_what_is_no_message_or_too_long_is_answered_and_harms_nothing(home: Home, engine: Path) -> None:
    params = b'{"name":"gpu_status","arguments":{"x":"%s"}}'
    params = b'{"name":"gpu_status","arguments":{"x":"%s"}}'
    asked = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":' + params + b"}"
    broken = [b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"id":11}', asked % (12, b"\\ud800")]
    with Raw(home.root, "-e", str(engine)) as client:
        name = client.begin()
        for line in broken:
            client.send(line)
        answers = [client.answer() for _ in broken]
        assert [one["id"] for one in answers] == [None, None, None, None, 11, 12]
        assert all("no message" in one["error"]["message"] for one in answers)
        at_its_end = b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"%s"},"id":14}'
        for number, line in ((13, asked % (13, b"a" * 20_000_000)), (14, at_its_end % (b"a" * 6_000_000))):
            client.send(line)
            answer = client.answer()
            assert answer["id"] == number
            assert f"a message of {len(line)} bytes" in answer["error"]["message"]
        client.send(asked % (15, b"a" * 5_000_000))
        assert "at most" in client.answer()["result"]["content"][0]["text"]
        assert client.call("gpu_status")[1] is False
    assert statuses(home, name)[-1] == ("gpu_status", "ok")
    assert verify(transcript_path(home, name)) == []


def test_a_call_that_is_cancelled_is_ended_with_its_processes(
    home: Home, engine: Path, tmp_path: Path
) -> None:
    pipe = slow_tool(tmp_path / "plugin")
    path = os.pathsep.join([str(ROOT), str(tmp_path / "plugin")])
    with Raw(home.root, "-e", str(engine), PYTHONPATH=path) as client:
        name = client.begin()
        client.ask("wait_for_child")
        with pipe.open(encoding="utf-8") as running:
            child = int(running.readline())
        client.cancel("wait_for_child")
        assert client.call("gpu_status")[1] is False
        assert not psutil.pid_exists(child)
        assert statuses(home, name)[-2:] == [("wait_for_child", "interrupted"), ("gpu_status", "ok")]
        # It stands for nobody: the same may be asked again, and the client goes on to its end.
        client.ask("wait_for_child")
        with pipe.open(encoding="utf-8") as running:
            running.readline()
        client.cancel("wait_for_child")
        account = "Nothing was found that runs."
        assert client.call("conclude", result="stopped", account=account)[1] is False
        assert client.leave() == 0
    assert verify(transcript_path(home, name)) == []
    assert agent("replay", name).returncode == 0


def test_a_client_has_a_budget_and_is_not_given_the_same_a_third_time(home: Home, engine: Path) -> None:
    with Raw(
        home.root, "-e", str(engine), "--budget", "steps=5", "--budget", "calls.list_backends=1"
    ) as client:
        name = client.begin()
        here = {"environment": str(engine)}
        assert client.call("list_source", **here)[1] is False
        assert client.call("list_source", **here)[1] is False
        assert "asked the same and gave the same" in client.call("list_source", **here)[0]
        assert client.call("list_backends", **here)[1] is False
        text, wrong = client.call("list_backends", **here, component="attention")
        assert wrong
        assert "may be called 1 times" in text
        text, wrong = client.call("gpu_status")
        assert wrong
        assert "5 of 5 steps of this investigation are used up" in text
        assert "of 5 steps" in client.call("read_board")[0]
        account = "Nothing was found that runs."
        assert client.call("conclude", result="stopped", account=account)[1] is False
        assert client.leave() == 0
    assert verify(transcript_path(home, name)) == []
    assert agent("replay", name).returncode == 0


def test_a_budget_that_cannot_be_kept_is_refused(home: Home) -> None:
    done = agent("mcp", "--budget", "cost=1", home=home.root)
    assert done.returncode == 2
    assert "--budget cost is not seen here" in done.stderr


@pytest.mark.parametrize("how", ["leaves", signal.SIGTERM, signal.SIGKILL])
def test_a_client_or_server_that_is_gone_in_a_call_leaves_a_whole_transcript(
    home: Home, engine: Path, tmp_path: Path, how: str | signal.Signals
) -> None:
    pipe = slow_tool(tmp_path / "plugin")
    path = os.pathsep.join([str(ROOT), str(tmp_path / "plugin")])
    with Raw(home.root, "-e", str(engine), PYTHONPATH=path) as client:
        name = client.begin()
        client.ask("wait")
        with pipe.open(encoding="utf-8") as running:
            running.read()
        if isinstance(how, signal.Signals):
            client.process.send_signal(how)
            assert client.process.wait(LONG) == (130 if how is signal.SIGTERM else -how)
        else:
            assert client.leave() == 0
    assert verify(transcript_path(home, name)) == []
    if how != signal.SIGKILL:
        end = last(home, name)
        assert isinstance(end, Concluded)
        assert end.exit_reason == "interrupted"
        assert statuses(home, name)[-1] == ("wait", "interrupted")
        return
    ended = agent("resume", name)
    assert ended.returncode == 4
    assert "the client left" in ended.stderr
    assert "1 calls had not returned: who asked for them is gone" in ended.stderr
    assert statuses(home, name)[-1] == ("wait", "interrupted")
    with Raw(home.root, "-e", str(engine)) as client:
        assert client.call("resume_investigation", investigation=name)[1] is False
        assert client.call("gpu_status")[1] is False
    assert agent("replay", name).returncode == 0
