"""Lists of OpenAI messages: Chat Completions (``messages``) and Responses (``input``, ``output``).

One document is one session; of lines that each hold a list, each line is one. There are no times, costs or
exit codes in these formats, and none are made up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transcripts.imported.recording import Recording
from transcripts.importers.responses import KNOWN, Items, output_of
from transcripts.importers.sink import Sink
from transcripts.importers.source import Record, Source
from transcripts.importers.values import (
    arguments,
    command_of,
    items,
    mapping,
    name as name_,
    spoken,
    text,
    word,
)

name = "openai"

CHAT, RESPONSES = "openai_chat", "openai_responses"
_ROLES = {"system", "user", "assistant", "tool", "function", "developer"}
_LISTS = ("messages", "input", "output", "choices", "conversation")


def recognises(source: Source) -> bool:
    return source.shape in {"lines", "document"} and any(
        _list_of(one) or _is_item(one) for one in source.first
    )


def read(source: Source, sink: Sink) -> None:
    if source.shape == "lines" and not any(_is_item(one) for one in source.first):
        for record in source.lines():
            if record.problem is None and _list_of(record.value):
                recording = _Reading(sink)
                recording.take([Record(one, record.source) for one in _list_of(record.value)])
                recording.finish(mapping(record.value))
        return
    reading = _Reading(sink)
    facts: dict[str, Any] = {}
    records = source.lines() if source.shape == "lines" else source.members(*_LISTS)
    for record in records:
        if record.key is not None and record.key not in _LISTS:
            facts[record.key] = record.value
        else:
            value = mapping(record.value)
            if record.key == "choices" and isinstance(value.get("message"), dict):
                record = record._replace(value=value["message"])
            elif record.key == "input" and isinstance(record.value, str):
                record = record._replace(value={"role": "user", "content": record.value})
            reading.take([record])
    reading.finish(facts)


def _is_item(value: Any) -> bool:
    return isinstance(value, dict) and (
        (word(value, "role") in _ROLES and bool({"content", "tool_calls", "function_call"} & value.keys()))
        or (word(value, "type") in KNOWN and "part" not in value and "sessionID" not in value)
    )


def _list_of(value: Any) -> list[Any]:
    """The messages of an object, where it holds any."""
    for key in _LISTS:
        found = mapping(value).get(key)
        if isinstance(found, list):
            inner = [mapping(one).get("message", one) if key == "choices" else one for one in found]
            if any(_is_item(one) for one in inner):
                return inner
    return []


class _Reading:
    """Begins a session at its first message, when it can be told of which of the two kinds it is."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._recording: Recording | None = None
        self._items: Items | None = None
        self._early: list[Record] = []

    def take(self, records: Iterable[Record]) -> None:
        for record in records:
            value = record.value
            if self._recording is None and not _is_item(value):
                self._early.append(record)
                continue
            recording = self._begin(value)
            recording.counts["records"] += 1
            if record.problem or not isinstance(value, dict):
                recording.skip(record.problem or "malformed")
            elif self._items is not None:
                self._items.take(value, record.source)
            elif word(value, "role") in _ROLES or "content" in value:
                chat_message(recording, value, record.source)
            else:
                recording.other(text(value.get("type")) or "untyped", value, record.source)

    def finish(self, facts: dict[str, Any]) -> None:
        if self._recording is None:
            return
        for record in self._early:
            self._recording.skip(record.problem or "malformed")
        self._recording.about(model=name_(facts.get("model")))
        if self._items is not None:
            self._items.finish()
        self._sink.close(self._recording)

    def _begin(self, value: dict[str, Any]) -> Recording:
        if self._recording is None:
            responses = "type" in value or any(
                word(mapping(one), "type") in {"input_text", "output_text"}
                for one in items(value.get("content"))
            )
            self._recording = self._sink.session(RESPONSES if responses else CHAT, None, "list")
            self._items = Items(self._recording) if responses else None
        return self._recording


def chat_message(recording: Recording, value: dict[str, Any], source: dict[str, Any], **more: Any) -> int:
    """One message of Chat Completions: what is said, the calls in it, or the result that it is. Returns the
    event of the message. ``more``: fields of the message, and of a result."""
    role = text(value.get("role")) or "assistant"
    content, attached = spoken(value.get("content"))
    result = more.pop("result", {})
    if role in {"tool", "function"}:
        seq = recording.message("tool", "", source, attachments=attached, **more)
        call = recording.asked(text(value.get("tool_call_id")) or text(value.get("name")))
        returned, code = output_of(content)
        given = {"returned": returned, "shown": content, "exit_code": code, **result}
        recording.result(call, source, **given)
        return seq
    thought = value.get("reasoning_content") or value.get("reasoning")
    seq = recording.message(
        role,
        content,
        source,
        attachments=attached,
        thinking=thought if isinstance(thought, str) else "",
        **more,
    )
    old = value.get("function_call")
    calls = items(value.get("tool_calls")) or ([{"function": old}] if isinstance(old, dict) else [])
    for call in calls:
        function = (
            mapping(mapping(call).get("function")) or mapping(mapping(call).get("custom")) or mapping(call)
        )
        given, raw = arguments(function.get("arguments", function.get("input")))
        tool = text(function.get("name")) or "?"
        recording.call(
            tool,
            given,
            source,
            id_=name_(mapping(call).get("id")) or tool,
            message=seq,
            raw_input=raw,
            command=command_of(given),
            at=more.get("at"),
        )
    return seq
