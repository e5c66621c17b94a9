"""A server from its start to its end: what it was given is there, and what was begun is ended on record."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from agent.board_tools import BOARD_TOOLS
from agent.execute import batch_functions
from agent.mcp.begin import Beginnings, Given
from agent.mcp.desks import Desks
from agent.mcp.http import HOST, PATH, listening, serve_http
from agent.mcp.meter import Meter
from agent.mcp.server import make_server
from agent.mcp.stdio import serve_stdio
from agent.policy import Grants, Policy
from agent.session import Setting
from memory.clock import SystemClock
from memory.home import Home
from memory.vocabulary import Effect
from tools.errors import ToolError
from tools.registry import registry
from transcripts.redaction.secrets import JSON


@dataclass(frozen=True)
class Granted:
    """What clients may do besides reading. ``gpu_minutes`` are for all of them together."""

    effects: frozenset[Effect] = frozenset()
    gpu_minutes: float | None = None
    budget: Mapping[str, Any] = field(default_factory=dict)
    """Of each investigation, as the option ``llm`` of a transcript has it."""


def serve(
    home: Home,
    given: Given,
    granted: Granted,
    say: Callable[[str], None],
    redact: Callable[[JSON], JSON],
    port: int | None,
    token: str,
) -> None:
    """Serve until the client closes its end (``port`` None: stdin and stdout), or until asked to end.

    Raises ``ToolError`` where the port is taken.
    """
    policy = Policy(granted.effects | {Effect.READS})
    tools = {**registry(), **BOARD_TOOLS}
    batches = batch_functions()
    if granted.gpu_minutes is not None:
        tools = Meter(granted.gpu_minutes, SystemClock()).metered(tools)
        batches = {
            name: batch for name, batch in batches.items() if tools[name].effect is not Effect.USES_GPU
        }
    setting = Setting(
        say=say, tools=tools, batches=batches, policy=Grants(policy), grants=Grants(policy), redact=redact
    )
    beginnings = Beginnings(home, given, policy)
    desks = Desks(home, beginnings, setting, shared=port is not None, budget=granted.budget)
    server = make_server(desks, tools, policy)
    logging.getLogger().addHandler(_Said(say))
    if port is None:
        if sys.stdin is not None and sys.stdin.isatty():
            say("serving on stdin and stdout, for a client that starts this (docs/mcp.md); Ctrl-D ends it")
        anyio.run(_ended, desks, serve_stdio(server))
        return
    try:
        listener = listening(port)
    except OSError as error:
        raise ToolError(
            f"cannot listen on {HOST}:{port}: {error.strerror or error}; choose another"
        ) from error
    with listener:
        say(f"serving on http://{HOST}:{listener.getsockname()[1]}{PATH}")
        anyio.run(_ended, desks, serve_http(server, listener, token))


async def _ended(desks: Desks, serving: Awaitable[None]) -> None:
    """Serve, and then have every investigation end on record."""
    try:
        await serving
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(desks.close)


class _Said(logging.Handler):
    """Warnings of libraries, said as all else is: what a client sent may stand in them."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())
