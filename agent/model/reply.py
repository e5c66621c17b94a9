"""A reply of an OpenAI-compatible endpoint, streamed or not, as one message. Its shapes are not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_CHARACTERS = 4_000_000
"""Of one answer. A server that does not stop is stopped."""
MOST_CALLS = 1000
_DONE = "[DONE]"


class ReplyError(Exception):
    """What came is no answer: it broke off, is empty, or is something else. One line."""


@dataclass
class Reply:
    """An answer as it comes in."""

    content: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    finished: bool = False
    _size: int = 0

    def read(self, lines: Iterable[str]) -> None:
        """Take in server-sent events. Raises :class:`ReplyError`."""
        for line in lines:
            name, _, text = line.partition(":")
            if name != "data":
                continue  # a comment, a blank line, or a field that says nothing here
            if text.strip() == _DONE:
                self.finished = True
                continue  # to the end of the stream: then the connection serves the next request, too
            self._add(_object(text))
        if not self.finished:
            raise ReplyError("the answer broke off before its end")

    def read_whole(self, text: str) -> None:
        """Take in an answer that was not streamed, although it was asked for so."""
        self._add(_object(text))
        self.finished = True

    def message(self, request: str) -> dict[str, Any]:
        """The answer as a message. Raises :class:`ReplyError` for an empty one."""
        content = "".join(self.content)
        if not content.strip() and not self.calls:
            raise ReplyError("the answer is empty")
        message: dict[str, Any] = {"role": "assistant", "content": content or None}
        if self.calls:
            message["tool_calls"] = list(self._named(request))
        return message

    def _named(self, request: str) -> Iterable[dict[str, Any]]:
        """The calls, each with an id of its own."""
        seen: set[str] = set()
        for number, (_, call) in enumerate(sorted(self.calls.items()), 1):
            name = call["id"] if call["id"] and call["id"] not in seen else f"{request}-{number}"
            seen.add(name)
            function = {"name": call["name"], "arguments": call["arguments"]}
            yield {"id": name, "type": "function", "function": function}

    def _add(self, document: Mapping[str, Any]) -> None:
        """A chunk, or a whole answer: they differ in one name."""
        if error := document.get("error"):
            why = error.get("message") if isinstance(error, dict) else error
            raise ReplyError(f"the endpoint broke off with an error: {why}")
        self._count(document.get("usage"))
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        said = choice.get("delta") or choice.get("message")
        if isinstance(said, dict):
            self._said(said)
        self.finished = self.finished or bool(choice.get("finish_reason"))

    def _said(self, said: Mapping[str, Any]) -> None:
        if isinstance(text := said.get("content"), str):
            self._grow(text)
            self.content.append(text)
        calls = said.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else ()):
            if not isinstance(call, dict):
                continue
            index = call.get("index")
            mine = self.calls.setdefault(
                index if isinstance(index, int) else place, {"id": "", "name": "", "arguments": ""}
            )
            function = call.get("function")
            function = function if isinstance(function, dict) else {}
            mine["id"] = mine["id"] or text_of(call.get("id"))
            mine["name"] = mine["name"] or text_of(function.get("name"))
            arguments = function.get("arguments")
            more = json.dumps(arguments) if isinstance(arguments, dict) else text_of(arguments)
            self._grow(more)
            mine["arguments"] += more
        if len(self.calls) > MOST_CALLS:
            raise ReplyError(f"the answer asks for more than {MOST_CALLS} calls")

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > MOST_CHARACTERS:
            raise ReplyError(f"the answer has more than {MOST_CHARACTERS} characters")

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        counted = {
            "prompt_tokens": usage.get("prompt_tokens"),
            "completion_tokens": usage.get("completion_tokens"),
            "cached_tokens": details.get("cached_tokens") if isinstance(details, dict) else None,
        }
        self.usage |= {
            name: number
            for name, number in counted.items()
            if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 40
        }


def text_of(value: Any) -> str:
    """``value`` where it is text, else nothing."""
    return value if isinstance(value, str) else ""


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"the answer is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise ReplyError(f"the answer is a {type(value).__name__}, no JSON object")
    return value
