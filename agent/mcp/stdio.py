"""The server over the program's own stdin and stdout, for a client that started it.

No threads wait here, so that the program can always end. A line is read up to a limit. One that is longer, or
that is no message, is answered as far as it tells whom.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import sys
from contextlib import suppress
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter
from pydantic import ValidationError

from tools.errors import ToolError

LIMIT = 5 << 20
"""Bytes of a line."""
_BLOCK = 1 << 16
_ATOMIC = 4096
"""Bytes that a pipe which can be written to takes at once."""
_ID = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,100}")')


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client until it closes its end. What else is printed meanwhile goes to stderr.

    Raises ``ToolError`` where there is no stdin.
    """
    if sys.stdin is None:
        raise ToolError(
            "stdin is closed, and nobody can ask for anything; a client starts this, see docs/mcp.md"
        )
    given, told = _taken(0), _taken(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    writer: Any = Writer(told)
    lines: Any = Lines(given, writer)
    async with stdio_server(lines, writer) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _taken(number: int) -> int:
    """Another number for a stream, which children do not have."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)


def _can_wait(handle: int) -> bool:
    """Whether it is a stream that may have nothing just now; a file always has, and cannot be waited for."""
    mode = os.fstat(handle).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(handle)


class Lines:
    """Messages of a client, each a line. ``answers`` is where those are answered that are none."""

    def __init__(self, handle: int, answers: Writer) -> None:
        self._handle = handle
        self._waits = _can_wait(handle)
        self._answers = answers
        self._buffer = b""

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        while (line := await self._line()) is not None:
            text = line.decode("utf-8", "replace")
            try:
                jsonrpc_message_adapter.validate_json(text, by_name=False)
            except ValidationError as error:
                if line.strip():
                    await self._refuse(line, PARSE_ERROR, f"no message: {error.errors()[0]['msg']}")
            else:
                return text
        raise StopAsyncIteration

    async def _refuse(self, line: bytes, code: int, why: str) -> None:
        """Say why a line is not heeded. Where it names a request, that is at its beginning or at its end."""
        found = _ID.search(line[:200]) or next(reversed(list(_ID.finditer(line[-200:]))), None)
        answered = {"jsonrpc": "2.0", "id": json.loads(found[1]) if found else None}
        await self._answers.write(json.dumps({**answered, "error": {"code": code, "message": why}}) + "\n")

    async def _line(self) -> bytes | None:
        seen = 0
        while (end := self._buffer.find(b"\n", seen)) < 0:
            seen = len(self._buffer)
            if seen > LIMIT:
                await self._pass_over()
                seen = 0
            if not await self._more():
                # What no line end follows was never sent whole.
                return None
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return line

    async def _more(self) -> bool:
        if self._waits:
            await anyio.wait_readable(self._handle)
        block = os.read(self._handle, _BLOCK)
        self._buffer += block
        return bool(block)

    async def _pass_over(self) -> None:
        """Leave out a line that is too long to be kept; its end is looked for."""
        first, last, size = self._buffer[:_BLOCK], b"", 0
        while (end := self._buffer.find(b"\n")) < 0:
            size += len(self._buffer)
            last = self._buffer[-_BLOCK:]
            self._buffer = b""
            if not await self._more():
                return
        ends = first + last + self._buffer[:end]
        self._buffer = self._buffer[end + 1 :]
        await self._refuse(
            ends, INVALID_REQUEST, f"a message of {size + end} bytes; at most {LIMIT} are read"
        )


class Writer:
    """What is written, in pieces that never wait for a reader who is not there."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._waits = _can_wait(handle)
        self._lock = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write whole lines, one after the other."""
        rest = memoryview(text.encode("utf-8", "replace"))
        async with self._lock:
            # Who cannot be told any more soon closes the other end, too.
            with suppress(OSError):
                await self._all(rest)

    async def _all(self, rest: memoryview) -> None:
        while rest:
            if self._waits:
                await anyio.wait_writable(self._handle)
            rest = rest[os.write(self._handle, rest[:_ATOMIC]) :]

    async def flush(self) -> None:
        """All is written already."""
