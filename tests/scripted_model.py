"""A model whose answers are written beforehand, over real HTTP on loopback.

A request that no step is left for is an error, and so is a step that no request came for: both are raised
when the context ends. What a step looks at in its request is checked while the client waits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import pytest

Request = dict[str, Any]


def call(tool: str, given: Any = None, /, id: str | None = None, **more: Any) -> dict[str, Any]:  # noqa: A002
    """A call of an answer. ``given``: raw text in place of the arguments."""
    arguments = given if isinstance(given, str) else json.dumps(more if given is None else given)
    return {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}


@dataclass
class Step:
    """One answer. ``look``: called with the request first; what it raises is raised at the end."""

    content: str | None = None
    calls: Sequence[dict[str, Any]] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    """In place of an answer: JSON with ``status``, or raw bytes."""
    cut: bool = False
    """The connection ends in the middle of the answer."""
    streamed: bool = True
    usage: dict[str, Any] | None = None
    look: Callable[[Request], Any] = lambda _: None


def say(content: str | None = None, *calls: dict[str, Any], **given: Any) -> Step:
    return Step(content, calls, **given)


class ScriptedModel:
    """Serves ``steps`` in order at :attr:`url`. As a context: at its end all of them must have been taken."""

    def __init__(self, steps: Iterable[Step | Callable[[Request], Step]]) -> None:
        self._steps = iter(steps)
        self._lock = threading.Lock()
        self.all_needed = True
        """Whether a step that is left over at the end is an error."""
        self.requests: list[Request] = []
        self.headers: list[dict[str, str]] = []
        self.wrong: list[BaseException] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def use(self, monkeypatch: pytest.MonkeyPatch, model: str = "scripted") -> ScriptedModel:
        """Be what the program finds configured."""
        monkeypatch.setenv("OPENAI_BASE_URL", self.url)
        monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-nothing")
        monkeypatch.setenv("ASSAY_MODEL", model)
        return self

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self.wrong:  # what was seen here comes before what followed from it
            raise self.wrong[0] from error
        if error is None and self.all_needed and (left := list(self._steps)):
            raise AssertionError(f"{len(left)} steps were not asked for, the first: {left[0]}")

    def _answer(self, request: Request, headers: dict[str, str]) -> Step:
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
            step = next(self._steps, None)
            try:
                assert step is not None, f"request {len(self.requests)} was not expected"
                if not isinstance(step, Step):
                    step = step(request)
                step.look(request)
            except BaseException as error:  # noqa: BLE001 - raised when the context ends
                self.wrong.append(error)
                return Step(status=400, body={"error": {"message": f"the script is at its end: {error}"}})
            return step

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                responds = self.path.endswith("/responses")
                if responds:
                    request["messages"] = messages_of(request["input"])
                step = model._answer(request, dict(self.headers))
                if step.body is not None or step.status != 200:
                    body = step.body if isinstance(step.body, bytes) else json.dumps(step.body or {}).encode()
                    return self.whole(step, body)
                if not step.streamed:
                    told = response(step) if responds else answer(step, "message")
                    return self.whole(step, json.dumps(told).encode())
                streamed = events(step) if responds else chunks(step)
                lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in streamed]
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.close_connection = True
                if step.cut:
                    self.send_header("content-length", "1000000")
                    lines = [lines[0], lines[1][:20]]
                self.end_headers()
                self.wfile.write(b"".join(lines))
                return None

            def whole(self, step: Step, body: bytes) -> None:
                self.send_response(step.status)
                for name, value in {"content-type": "application/json", **step.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler


def answer(step: Step, name: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step.content}
    if step.calls:
        message["tool_calls"] = list(step.calls)
    choice = {"index": 0, name: message, "finish_reason": "tool_calls" if step.calls else "stop"}
    return {
        "id": "x",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [choice],
        "usage": step.usage,
    }


def messages_of(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Input of the Responses API as messages, so that a script can look at either."""
    messages: list[dict[str, Any]] = []
    for item in items:
        match item.get("type", "message"):
            case "function_call_output":
                messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            case "function_call":
                if messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "content": None})
                function = {"name": item["name"], "arguments": item["arguments"]}
                asked = {"id": item["call_id"], "type": "function", "function": function}
                messages[-1].setdefault("tool_calls", []).append(asked)
            case "message":
                messages.append(dict(item))
            case other:
                assert other == "reasoning", other
    return messages


def response(step: Step) -> dict[str, Any]:
    """An answer of the Responses API: what it reasoned, its words, its calls."""
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": f"thought of {step.content}"}
    ]
    if step.content is not None:
        content = [{"type": "output_text", "text": step.content, "annotations": []}]
        output.append({"type": "message", "id": "m", "role": "assistant", "content": content})
    for number, one in enumerate(step.calls):
        asked = {"call_id": one["id"] or f"call-{number}", **one["function"]}
        output.append({"type": "function_call", "id": f"fc{number}", **asked})
    usage = step.usage and {
        "input_tokens": step.usage["prompt_tokens"], "output_tokens": step.usage["completion_tokens"],
    }  # fmt: skip
    return {"id": "r", "object": "response", "status": "completed", "output": output, "usage": usage}


def events(step: Step) -> Iterable[Any]:
    """As the Responses API streams: a beginning, words, and the whole answer at the end."""
    yield {"type": "response.created", "response": {"id": "r", "output": []}}
    yield {"type": "response.output_text.delta", "delta": step.content or ""}
    yield {"type": "response.completed", "response": response(step)}


def chunks(step: Step) -> Iterable[Any]:
    """As a server streams: the text in two pieces, a call's name before its arguments, the usage last."""
    words = step.content or ""
    middle = len(words) // 2
    for text in (words[:middle], words[middle:]):
        yield {
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]
        }
    for index, one in enumerate(step.calls):
        function = one["function"]
        for delta in (
            {"index": index, "id": one["id"], "function": {"name": function["name"], "arguments": ""}},
            {"index": index, "function": {"arguments": function["arguments"][:7]}},
            {"index": index, "function": {"arguments": function["arguments"][7:]}},
        ):
            yield {"choices": [{"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if step.calls else "stop"}]}
    if step.usage is not None:
        yield {"choices": [], "usage": step.usage}
