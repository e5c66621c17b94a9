"""Clients of ``agent mcp``: the SDK's own, over a child's stdin and stdout or over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from program import SECONDS, START, variables

QUESTION = {"question": "qwen3.5 nvfp4 on sm120"}
LONG = SECONDS
"""After which a test is stuck."""


def over_stdio(home: Path, client: Callable[[Client], Awaitable[None]], *args: str) -> None:
    """Start ``agent mcp ARGS`` and let ``client`` use it."""

    async def use() -> None:
        command, *first = START
        server = StdioServerParameters(
            command=command, args=[*first, "mcp", *args], env=variables(home), cwd=home.parent
        )
        with anyio.fail_after(LONG):
            async with Client(stdio_client(server)) as session:
                await client(session)

    anyio.run(use)


def told(result: Any) -> str:
    """The words of a result."""
    (content,) = result.content
    return str(content.text)


def refused(result: Any, *words: str) -> None:
    assert result.is_error, told(result)
    for word in words:
        assert word in told(result)


def begun(result: Any) -> str:
    """The name of the investigation that was begun."""
    assert not result.is_error, told(result)
    return told(result).split()[1]


class Raw:
    """A client that says exactly what it is told to, line by line."""

    def __init__(self, home: Path, *args: str, **more: str) -> None:
        self.process = subprocess.Popen(
            [*START, "mcp", *args],
            env=variables(home, **more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        client = {"name": "raw", "version": "1"}
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start})
        assert "result" in self.answer()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next message of the server."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, tool: str, **arguments: Any) -> None:
        """Call a tool; the answer is not waited for."""
        called = {"name": tool, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": called})

    def call(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        """What a tool says, and whether that is an error."""
        self.ask(tool, **arguments)
        answer = self.answer()
        assert answer["id"] == tool, answer
        result = answer["result"]
        return result["content"][0]["text"], result.get("isError", False)

    def cancel(self, asked: str) -> None:
        """Take back what was asked; there will be no answer."""
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": asked}})

    def begin(self) -> str:
        text, wrong = self.call("begin_investigation", **QUESTION)
        assert not wrong, text
        return text.split()[1]

    def leave(self) -> int:
        """Close both ends; returns the exit code."""
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            return self.process.wait(LONG)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.leave()


def slow_tool(folder: Path) -> Path:
    """A plug-in with a tool that tells a pipe that it runs, and then waits. Returns the pipe."""
    info = folder / "slowly-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slowly\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[assay.tools]\nwait = slowly:wait\nwait_for_child = slowly:wait_for_child\n", encoding="utf-8"
    )
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    (folder / "slowly.py").write_text(
        "import tempfile\n"
        "from pathlib import Path\n"
        "from pydantic import BaseModel\n"
        "from tools.environment.child import run_child\n"
        "from memory.vocabulary import Effect\n"
        "from tools.base import tool\n"
        "from tools.stopping import pause\n"
        "class Nothing(BaseModel):\n"
        "    pass\n"
        "@tool(effect=Effect.READS)\n"
        "def wait(args: Nothing, context: object) -> Nothing:\n"
        '    """Wait."""\n'
        f"    open({str(pipe)!r}, 'w').close()\n"
        "    pause(3600)\n"
        "    return Nothing()\n"
        "@tool(effect=Effect.READS)\n"
        "def wait_for_child(args: Nothing, context: object) -> Nothing:\n"
        '    """Wait for a child process, which tells the pipe its number."""\n'
        "    folder = Path(tempfile.mkdtemp())\n"
        f"    command = ['/bin/sh', '-c', 'echo $$ > {pipe}; exec sleep 3600']\n"
        "    run_child(command, environment={}, folder=folder, output=folder / 'out', seconds=3600)\n"
        "    return Nothing()\n",
        encoding="utf-8",
    )
    return pipe
