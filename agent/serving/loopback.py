"""Datasette answers those who ask for this machine by its own name: a page elsewhere whose name leads here
(DNS rebinding) is refused, or it could read the findings through the browser of whoever looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from datasette import hookimpl

NAME = "loopback"
"""Under which the names are in the metadata's ``plugins``: ``{"hosts": ["127.0.0.1:8001", …]}``."""

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


@hookimpl  # type: ignore[untyped-decorator]
def asgi_wrapper(datasette: Any) -> Callable[[App], App]:
    hosts = {str(name).encode() for name in (datasette.plugin_config(NAME) or {}).get("hosts", ())}

    def wrap(app: App) -> App:
        async def guard(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            asked = [value.lower() for name, value in scope.get("headers", ()) if name == b"host"]
            if scope["type"] == "lifespan" or (len(asked) == 1 and asked[0] in hosts):
                await app(scope, receive, send)
                return
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            said = b"refused: this server is for this machine alone, under " + b", ".join(sorted(hosts))
            await send({"type": "http.response.body", "body": said + b"\n"})

        return guard

    return wrap
