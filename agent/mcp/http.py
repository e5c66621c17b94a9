"""The server over HTTP, for clients of this machine alone: they must know the token, ask for this host, and
not be the page of another one in a browser."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

HOST = "127.0.0.1"
PATH = "/mcp"
GRACE = 2
"""Seconds that open streams have to end."""

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


def listening(port: int) -> socket.socket:
    """A socket of this machine alone; ``port`` 0 takes a free one. Raises ``OSError``."""
    return socket.create_server((HOST, port))


async def serve_http(server: Server[Any], listener: socket.socket, token: str) -> None:
    """Serve clients until the program is asked to end."""
    port = listener.getsockname()[1]
    names = [f"{name}:{port}" for name in (HOST, "localhost")]
    security = TransportSecuritySettings(
        allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
    )
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    config = uvicorn.Config(
        guarded(app, token), log_config=None, access_log=False, timeout_graceful_shutdown=GRACE, lifespan="on"
    )
    await uvicorn.Server(config).serve(sockets=[listener])


def guarded(app: App, token: str) -> App:
    """``app`` for who knows ``token``."""
    known = f"Bearer {token}".encode()

    async def guard(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        if scope["type"] == "http" and len(given) == 1 and hmac.compare_digest(given[0], known):
            await app(scope, receive, send)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"the token of this server is needed\n"})

    return guard
