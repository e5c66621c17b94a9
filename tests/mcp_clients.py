"""Clients of ``agent mcp``: the SDK's own, over a child's stdin and stdout or over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from program import START, variables

QUESTION = {"question": "qwen3.5 nvfp4 on sm120"}
LONG = 120.0
"""Seconds after which a test is stuck."""


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
