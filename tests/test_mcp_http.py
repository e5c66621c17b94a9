"""``agent mcp --http``: for who knows the token, on this machine, and several of them."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_clients import LONG, QUESTION, begun, refused
from program import START, agent, one_line, variables
from tiny_engine import write_engine

from memory.home import Home
from transcripts.events import Called
from transcripts.log import read
from transcripts.reader import transcript_path

TOKEN = "a-token-of-some-length-1"  # noqa: S105 - of this test alone
INITIALISE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    }
).encode()


@dataclass(frozen=True)
class Server:
    home: Home
    port: int

    def post(self, body: bytes = INITIALISE, **headers: str) -> int:
        """The status of one request; ``headers`` beside those that are right."""
        right = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            connection.putrequest("POST", "/mcp", skip_host=True, skip_accept_encoding=True)
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            for name, value in {**right, **given}.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(body)
            return connection.getresponse().status
        finally:
            connection.close()

    @asynccontextmanager
    async def client(self, mode: str) -> AsyncIterator[Client]:
        """A client of the SDK that speaks the newest protocol (``auto``) or the one before (``legacy``)."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{self.port}/mcp"
        async with (
            httpx2.AsyncClient(headers=headers, timeout=LONG) as connection,
            Client(streamable_http_client(url, http_client=connection), mode=mode) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    home = Home(folder / "home").prepare()
    engine = write_engine(folder / "engine")
    process = subprocess.Popen(
        [*START, "mcp", "--http", "0", "-e", str(engine)],
        env=variables(home.root, ASSAY_MCP_TOKEN=TOKEN),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serving on" in line)
        yield Server(home, int(line.split(":")[2].split("/")[0]))
        process.terminate()
        said = process.stderr.read()
        assert process.wait(LONG) == 130
        assert "Traceback" not in said
        assert TOKEN not in said


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:PORT"}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer a-token-of-some-length-2"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": "Bearer täken"}, 401),
        ({"Host": "evil.example:PORT"}, 421),
        ({"Host": "127.0.0.1.evil.example:PORT"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": "evil.example:PORT", "MCP_Protocol_Version": "2026-07-28"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example", "MCP_Protocol_Version": "2026-07-28"}, 403),
        ({"Content_Type": "text/plain"}, 400),
    ],
)
def test_only_who_knows_the_token_and_asks_for_this_host_is_served(
    server: Server, headers: dict[str, str], status: int
) -> None:
    given = {name: value.replace("PORT", str(server.port)) for name, value in headers.items()}
    assert server.post(**given) == status


def test_a_body_that_is_too_long_is_refused(server: Server) -> None:
    assert server.post(Content_Length=str(100_000_000)) in {400, 413}


def test_two_clients_at_once_have_an_investigation_each(server: Server) -> None:
    names: dict[str, str] = {}

    async def investigate(mode: str) -> None:
        async with server.client(mode) as client:
            names[mode] = begun(await client.call_tool("begin_investigation", QUESTION))
            refused(await client.call_tool("gpu_status", {}), "say which investigation")
            mine = {"investigation": names[mode]}
            for number in range(3):
                assert not (await client.call_tool("find_symbol", {**mine, **symbol(mode, number)})).is_error
            (board,) = (await client.read_resource(f"assay://board/{names[mode]}")).contents
            assert "fp4_gemm" in str(board)

    def symbol(mode: str, number: int) -> dict[str, str]:
        return {"environment": str(server.home.root.parent / "engine"), "name": f"{mode}_{number}"}

    async def both() -> None:
        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(investigate, "auto")
                tasks.start_soon(investigate, "legacy")

    anyio.run(both)
    for mode, name in names.items():
        asked = [
            event.data.input["name"]
            for event in read(transcript_path(server.home, name))
            if isinstance(event.data, Called) and event.data.tool == "find_symbol"
        ]
        assert asked == [f"{mode}_{number}" for number in range(3)]


@pytest.mark.parametrize(
    ("args", "token", "code", "words"),
    [
        (["--http", "0"], "short", 2, "at least 16 characters"),
        (["--http", "0", "-e", "/nowhere/at/all"], TOKEN, 3, "no folder"),
        (["-e", "/nowhere/at/all"], TOKEN, 3, "no folder"),
        (["-e", "x", "-p", "sglang"], TOKEN, 2, "not both"),
        (["--allow", "everything"], TOKEN, 2, "everything"),
        (["--allow", "uses_gpu"], TOKEN, 2, "go together"),
        (["--gpu-minutes", "5"], TOKEN, 2, "go together"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    home: Home, args: list[str], token: str, code: int, words: str
) -> None:
    one_line(agent("mcp", *args, home=home.root, ASSAY_MCP_TOKEN=token), code, words)


def test_a_port_that_is_taken_is_said_in_one_line(server: Server, home: Home) -> None:
    taken = agent("mcp", "--http", str(server.port), home=home.root, ASSAY_MCP_TOKEN=TOKEN)
    one_line(taken, 2, "cannot listen", "choose another")
