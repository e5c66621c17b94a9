"""The Responses API: what is said in chat completions, as its items, and its answers as one message.

Nothing is stored there (``store`` is false): what a model reasoned comes back encrypted, is kept with its
message and handed over again with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.model.answers import REASONED
from agent.model.reply import Reply, ReplyError, text_of

SETTINGS: Mapping[str, Any] = {"stream": True, "store": False, "include": ["reasoning.encrypted_content"]}
_ENDS = {"response.completed", "response.incomplete"}
_BROKEN = {"response.failed", "error"}


def items(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The items that a message is."""
    if message["role"] == "tool":
        output = {"type": "function_call_output", "call_id": message["tool_call_id"]}
        yield {**output, "output": message["content"]}
        return
    yield from message.get(REASONED) or ()
    if message.get("content"):
        yield {"role": message["role"], "content": message["content"]}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        asked = {"name": function["name"], "arguments": function["arguments"]}
        yield {"type": "function_call", "call_id": call["id"], **asked}


def offered(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools as this API has them."""
    return [{"type": "function", **tool["function"], "strict": False} for tool in tools]


@dataclass
class Response(Reply):
    """An answer as it comes in. Only its end counts: there all of it stands once more."""

    reasoned: list[Mapping[str, Any]] = field(default_factory=list)

    def message(self, request: str) -> dict[str, Any]:
        message = super().message(request)
        return {**message, REASONED: self.reasoned} if self.reasoned else message

    def _add(self, document: Mapping[str, Any]) -> None:
        kind = document.get("type")
        if kind in _BROKEN or document.get("error"):
            raise ReplyError(f"the endpoint broke off with an error: {_why(document)}")
        response = document.get("response") if kind in _ENDS else document
        if not isinstance(response, dict) or not isinstance(response.get("output"), list):
            return  # a word of an answer that is not there yet
        usage = response.get("usage")
        if isinstance(usage, dict):
            details = {"prompt_tokens_details": usage.get("input_tokens_details")}
            tokens = {
                "prompt_tokens": usage.get("input_tokens"),
                "completion_tokens": usage.get("output_tokens"),
            }
            self._count({**details, **tokens})
        self._said(
            {"content": "".join(_words(response["output"])), "tool_calls": list(_calls(response["output"]))}
        )
        self.reasoned = [
            one for one in response["output"] if isinstance(one, dict) and one.get("type") == "reasoning"
        ]
        self.finished = True


def _words(output: Iterable[Any]) -> Iterator[str]:
    for item in output:
        if isinstance(item, dict) and item.get("type") == "message":
            for part in item.get("content") or ():
                if isinstance(part, dict):
                    yield text_of(part.get("text")) or text_of(part.get("refusal"))


def _calls(output: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for item in output:
        if isinstance(item, dict) and item.get("type") == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            yield {"id": item.get("call_id"), "function": function}


def _why(document: Mapping[str, Any]) -> str:
    response = document.get("response")
    error = document.get("error") or (response.get("error") if isinstance(response, dict) else None)
    return str(error.get("message") if isinstance(error, dict) else error or document.get("message"))
