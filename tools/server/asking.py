"""Asking a server of ours over HTTP: 127.0.0.1 alone, no proxy, no redirect, answers of a bounded size."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.errors import ToolError

LARGEST = 64 << 20
"""Bytes of an answer."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    def document(self) -> Any:
        """As JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


def ask(
    port: int,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    seconds: float,
    method: str | None = None,
) -> Answer:
    """``body`` makes it a POST. Raises ``OSError`` where there is no answer (in time), :class:`ToolError` for
    one that is too large or no HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method or ("POST" if body is not None else "GET"), path, data, headers)
        response = connection.getresponse()
        read = response.read(LARGEST + 1)
    except http.client.HTTPException as error:
        raise ConnectionError(f"no HTTP: {type(error).__name__}") from error
    finally:
        connection.close()
    if len(read) > LARGEST:
        raise ToolError(f"the answer to {path} is larger than {LARGEST >> 20} MB")
    return Answer(response.status, read)
