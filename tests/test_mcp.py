"""``agent mcp``: another agent drives the tools, and what it does is an investigation like any other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.client.client import Client
from mcp_clients import LONG, QUESTION, Raw, begun, over_stdio, refused, told
from program import agent
from tiny_engine import GATES as GATES_SOURCE, SERVER_ARGS, write_engine
from wheel_index import Index

from agent.board_tools import BOARD_TOOLS
from agent.mcp.begin import Beginnings, Given
from agent.mcp.desks import Desks
from agent.mcp.server import make_server
from agent.policy import READING, Grants, Policy
from agent.session import Setting
from memory.canonical import text_sha256
from memory.home import Home
from memory.vocabulary import Effect
from tools.registry import registry
from tools.source.tree import SourceTree
from transcripts.events import Called, Concluded, Returned
from transcripts.log import read
from transcripts.reader import transcript_path

GATES = "sglang/srt/gates.py"


def found(backend: str, verdict: str, start: int, end: int, quote: str, **more: Any) -> dict[str, Any]:
    """A call of ``record_finding`` about an option of the tiny engine, by lines of its gate."""
    span = {"file": GATES, "start": start, "end": end, "quote": quote, **more}
    because = {"because": "architecture"} if verdict == "blocked" else {}
    return {
        "component": "fp4_gemm",
        "backend": backend,
        "verdict": verdict,
        "spans": [span],
        **because,
    }


def whole_claim(engine: Path) -> dict[str, Any]:
    """A claim as the planner makes it, with lines that do stand there."""
    lines = SourceTree(engine).evidence(GATES, 8, 8, idiom="x").model_dump(mode="json")
    return {
        "component": "fp4_gemm",
        "backend": "cedar",
        "arch": "sm120",
        "engine": "sglang",
        "packages": {"sglang": "9.9.0"},
        "level": "static",
        "verdict": "no_static_obstacle",
        "source_evidence": [lines],
    }


CEDAR = ("cedar", "blocked", 6, 7, "cedar needs 10.x")
AMBER = ("amber", "no_static_obstacle", 8, 8, "return server_args.fp4_gemm_backend")


def statuses(home: Home, name: str) -> list[tuple[str, str]]:
    """Tool and status of every call of an investigation, in order."""
    bodies = [event.data for event in read(transcript_path(home, name))]
    tools = {one.call: one.tool for one in bodies if isinstance(one, Called)}
    return [(tools[one.call], one.status) for one in bodies if isinstance(one, Returned)]


def test_a_client_investigates_and_what_it_found_is_kept_with_evidence_that_checks(
    home: Home, tmp_path: Path
) -> None:
    engine = write_engine(tmp_path / "engine")
    names = []

    async def client(session: Client) -> None:
        offered = {tool.name for tool in (await session.list_tools()).tools}
        assert {*registry(), *BOARD_TOOLS} <= offered
        refused(await session.call_tool("list_environments", {}), "call begin_investigation first")
        names.append(begun(await session.call_tool("begin_investigation", QUESTION)))
        refused(await session.call_tool("record_finding", found(*CEDAR)), "was not read")
        seen = await session.call_tool("read_source", {"environment": str(engine), "file": GATES})
        assert "cedar needs 10.x" in told(seen)
        for forged, why in (
            (found("cedar", "blocked", 6, 7, "cedar needs 12.x"), "does not say"),
            (found(*CEDAR, sha256=text_sha256("other lines")), "these are other lines"),
            (found("cedar", "blocked", 60, 61, "cedar needs 10.x"), "not in the environment"),
            ({**found(*CEDAR), "spans": [], "events": [{"event": 9999, "quote": "cedar"}]}, "event 9999"),
            ({**found(*CEDAR), "level": "probe", "outcome": "ok", "verdict": None}, ""),
            ({"claim": whole_claim(engine)}, "not taken whole"),
        ):
            refused(await session.call_tool("record_finding", forged), why)
        for one in (CEDAR, AMBER):
            kept = await session.call_tool("record_finding", found(*one))
            assert not kept.is_error, told(kept)
            (finding,) = re.findall(r'"id":"([0-9a-f]+)"', told(kept))
            moved = {"component": "fp4_gemm", "backend": one[0], "state": "predicted", "because": "read"}
            refused(await session.call_tool("update_hypothesis", moved), "needs a finding")
            moved["finding"] = finding
            assert not (await session.call_tool("update_hypothesis", moved)).is_error
        refused(await session.call_tool("record_finding", found("cedar", *AMBER[1:])), "more cautious")
        (board,) = (await session.read_resource("assay://board")).contents
        assert f"cedar (architecture; {GATES}:6)" in str(board)
        end = {"result": "answered", "account": "amber gets through; cedar is ruled out for this GPU."}
        refused(await session.call_tool("conclude", {**end, "result": "none_viable"}), "the board says")
        refused(await session.call_tool("conclude", {**end, "choices": {"fp4_gemm": "cedar"}}), "blocked")
        ended = await session.call_tool("conclude", end)
        assert not ended.is_error, told(ended)
        assert "--fp4-gemm-backend amber" in told(ended)
        refused(await session.call_tool("gpu_status", {}), "has ended: answered")

    over_stdio(home.root, client, "-e", str(engine))

    (name,) = names
    assert statuses(home, name)[-1] == ("conclude", "ok")
    assert agent("replay", name, "--verify").returncode == 0
    assert "decides the same again" in agent("replay", name).stdout
    assert "--fp4-gemm-backend amber" in agent("report", name).stdout
    kept = json.loads(agent("findings", "list", "--json").stdout)["findings"]
    assert {one["backend"]: one["transcript"] for one in kept} == {"cedar": name, "amber": name}


def test_a_client_is_not_let_wait_longer_than_it_may_have_patience(home: Home, tmp_path: Path) -> None:
    given = Given(environment=str(write_engine(tmp_path / "engine")))
    tools = {**registry(), **BOARD_TOOLS}
    setting = Setting(tools=tools, policy=READING)
    desks = Desks(home, Beginnings(home, given, READING), setting, shared=False)

    async def clients() -> None:
        hasty = make_server(desks, tools, READING, patience=0.0)
        patient = make_server(desks, tools, READING, patience=LONG)
        async with Client(hasty) as one, Client(patient) as other:
            # Nobody else has their turn while this is held.
            with desks.turn:
                first = await one.call_tool("begin_investigation", QUESTION)
                assert "still at work" in told(first)
                refused(await one.call_tool("gpu_status", {}), "not run", "read_board")
            board = await other.call_tool("read_board", {})
            assert "fp4_gemm" in told(board)
            (name,) = (path.stem for path in home.transcripts.glob("*.jsonl"))
            assert begun(first) == name
        await anyio.to_thread.run_sync(desks.close)

    anyio.run(clients)


@pytest.mark.parametrize("granted", [False, True])
def test_packages_are_those_that_the_person_gave_unless_more_was_granted(
    home: Home, index: Index, granted: bool
) -> None:
    files = {"sglang/srt/server_args.py": SERVER_ARGS, "sglang/srt/gates.py": GATES_SOURCE}
    for version in ("9.9.0", "9.9.1"):
        index.add("sglang", version, files=files)
    index.add("evil", "1.0")
    policy = Policy(READING.allowed | ({Effect.WRITES_ENVIRONMENT} if granted else set()))
    tools = {**registry(), **BOARD_TOOLS}
    given = Given(requirements=("sglang==9.9.0",))
    desks = Desks(
        home,
        Beginnings(home, given, policy),
        Setting(tools=tools, policy=policy, grants=Grants(policy)),
        shared=False,
    )

    async def client() -> None:
        async with Client(make_server(desks, tools, policy)) as session:
            board = await session.call_tool("begin_investigation", QUESTION)
            assert "sglang 9.9.0" in told(board)
            more = {**QUESTION, "packages": ["sglang==9.9.1"]}
            board = await session.call_tool("begin_investigation", more)
            assert board.is_error is not granted
            assert ("sglang 9.9.1" if granted else "was not granted") in told(board)
            evil = {"packages": ["evil==1.0"]}
            why = "neither an engine" if granted else "was not granted"
            refused(await session.call_tool("create_environment", evil), why)
            refused(await session.call_tool("begin_investigation", {**QUESTION, **evil}), why)
        await anyio.to_thread.run_sync(desks.close)

    anyio.run(client)


def test_a_client_that_left_has_its_end_on_record_and_can_come_back(home: Home, tmp_path: Path) -> None:
    engine = write_engine(tmp_path / "engine")
    # Not the client of the SDK, which has a server killed that takes two seconds to end.
    with Raw(home.root, "-e", str(engine)) as client:
        name = client.begin()
        assert client.leave() == 0
    path = transcript_path(home, name)
    *_, last = read(path)
    assert isinstance(last.data, Concluded)
    assert last.data.exit_reason == "stopped"
    with Raw(home.root, "-e", str(engine)) as client:
        text, wrong = client.call("resume_investigation", investigation=name)
        assert not wrong
        assert name in text
        assert client.call("gpu_status")[1] is False
        assert client.leave() == 0
    assert statuses(home, name)[-1] == ("gpu_status", "ok")
    assert agent("replay", name).returncode == 0
