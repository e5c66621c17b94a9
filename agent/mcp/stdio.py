"""The server over the program's own stdin and stdout, for a client that started it.

No threads wait here, so that the program can always end. A line is read up to a limit; of a longer one its
end is looked for, and its call is answered as one that is too long.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from contextlib import suppress
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from agent.mcp.server import TOO_LONG

LIMIT = 5 << 20
"""Bytes of a line."""
_BLOCK = 1 << 16
_ATOMIC = 4096
"""Bytes that a pipe which can be written to takes at once."""
_ID = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,100}")')


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client until it closes its end. What else is printed meanwhile goes to stderr."""
    given, told = _taken(0), _taken(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    lines: Any = Lines(given)
    writer: Any = Writer(told)
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
    """Lines of a file, as text."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._waits = _can_wait(handle)
        self._buffer = b""
        self._ended = False

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        while True:
            line = await self._line()
            if line is None:
                raise StopAsyncIteration
            if line.strip():
                return line.decode("utf-8", "replace")

    async def _line(self) -> bytes | None:
        seen = 0
        while (end := self._buffer.find(b"\n", seen)) < 0:
            seen = len(self._buffer)
            if seen > LIMIT:
                return await self._too_long()
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

    async def _too_long(self) -> bytes | None:
        """A call that is answered with what was wrong, in place of a line that is too long to be read."""
        size, first = 0, self._buffer[:_BLOCK]
        last = b""
        while (end := self._buffer.find(b"\n")) < 0:
            size += len(self._buffer)
            last = (last + self._buffer)[-_ATOMIC:]
            self._buffer = b""
            if not await self._more():
                return None
        size += end
        last = (last + self._buffer[:end])[-_ATOMIC:]
        self._buffer = self._buffer[end + 1 :]
        found = _ID.search(first[:200]) or next(reversed(list(_ID.finditer(last[-200:]))), None)
        if found is None:
            return b"{}"
        called = {"name": TOO_LONG, "arguments": {"bytes": size}}
        request = {"jsonrpc": "2.0", "id": json.loads(found[1]), "method": "tools/call", "params": called}
        return json.dumps(request).encode()


class Writer:
    """What is written, in pieces that never wait for a reader who is not there."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._waits = _can_wait(handle)

    async def write(self, text: str) -> None:
        rest = memoryview(text.encode("utf-8", "replace"))
        # Who does not read any more soon closes the other end, too.
        with suppress(BrokenPipeError, ConnectionResetError):
            while rest:
                if self._waits:
                    await anyio.wait_writable(self._handle)
                rest = rest[os.write(self._handle, rest[:_ATOMIC]) :]

    async def flush(self) -> None:
        """All is written already."""
