"""``agent mcp``: another agent drives the tools, and what it does is an investigation like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp_clients import QUESTION, begun, over_stdio, refused, told
from program import agent
from tiny_engine import write_engine

from memory.canonical import text_sha256
from memory.home import Home
from tools.environment.store import open_environment
from tools.registry import registry
from transcripts.events import Called, Concluded, Returned
from transcripts.log import read
from transcripts.reader import transcript_path

GATES = "sglang/srt/gates.py"


def claim(home: Home, engine: Path, **changed: Any) -> dict[str, Any]:
    """What the tiny engine's gate says of cedar, to be recorded; ``changed`` in its evidence."""
    environment = open_environment(home, str(engine))
    lines = environment.tree().evidence(GATES, 6, 7, idiom="read by the driver").model_dump(mode="json")
    return {
        "environment": environment.path,
        "claim": {
            "component": "fp4_gemm",
            "backend": "cedar",
            "arch": "sm120",
            "engine": "sglang",
            "packages": environment.packages,
            "level": "static",
            "verdict": "blocked",
            "because": "architecture",
            "source_evidence": [{**lines, **changed}],
        },
    }


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
        assert set(registry()) <= offered
        refused(await session.call_tool("list_environments", {}), "call begin_investigation first")
        names.append(begun(await session.call_tool("begin_investigation", QUESTION)))
        seen = await session.call_tool("read_source", {"environment": str(engine), "file": GATES})
        assert "cedar needs 10.x" in told(seen)
        forged = claim(home, engine, sha256=text_sha256("other lines"))
        refused(await session.call_tool("record_finding", forged), GATES)
        assert not (await session.call_tool("record_finding", claim(home, engine))).is_error
        (board,) = (await session.read_resource("assay://board")).contents
        assert "fp4_gemm" in str(board)

    over_stdio(home.root, client, "-e", str(engine))

    (name,) = names
    assert statuses(home, name)[-3:] == [
        ("read_source", "ok"),
        ("record_finding", "error"),
        ("record_finding", "ok"),
    ]
    assert agent("replay", name, "--verify").returncode == 0
    assert "decides the same again" in agent("replay", name).stdout
    (found,) = json.loads(agent("findings", "list", "--json").stdout)["findings"]
    assert found["backend"] == "cedar"


def test_a_client_that_left_has_its_end_on_record_and_can_come_back(home: Home, tmp_path: Path) -> None:
    engine = write_engine(tmp_path / "engine")
    names = []

    async def first(session: Client) -> None:
        names.append(begun(await session.call_tool("begin_investigation", QUESTION)))

    async def second(session: Client) -> None:
        assert begun(await session.call_tool("resume_investigation", {"investigation": names[0]})) == names[0]
        assert not (await session.call_tool("gpu_status", {})).is_error

    over_stdio(home.root, first, "-e", str(engine))
    path = transcript_path(home, names[0])
    *_, last = read(path)
    assert isinstance(last.data, Concluded)
    assert last.data.exit_reason == "stopped"
    over_stdio(home.root, second, "-e", str(engine))
    assert statuses(home, names[0])[-1][0] == "gpu_status"
    assert agent("replay", names[0]).returncode == 0
