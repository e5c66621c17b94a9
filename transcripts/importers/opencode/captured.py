"""Data of a share (``{"type": "message", "data"}``), captured server events (``{"type", "properties"}``), and
lines of ``opencode run --format json``: any order, and later snapshots in place of earlier ones.

It is read twice: first where the last snapshot of each message and part stands, then these in their order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from transcripts.importers.opencode.messages import Conversation, Part
from transcripts.importers.sink import Sink
from transcripts.importers.source import Source
from transcripts.importers.values import mapping, name as name_, text, word

_SHARED = {"session", "message", "part", "session_diff", "model"}
_EVENTS = re.compile(r"(?:message|session)\.(?:part\.)?[a-z]+(?:\.\d+)?")
_RUN = {"tool_use", "step_start", "step_finish", "text", "reasoning", "error"}


def recognises(first: list[Any]) -> bool:
    return any(
        _is_shared(one) or _is_run(one) or (_is_event(_inner(one)) and _EVENTS.fullmatch(_inner(one)["type"]))
        for one in first
    )


def read(source: Source, sink: Sink) -> None:
    captured = _Captured()
    records = source.lines() if source.shape == "lines" else source.members()
    for record in records:
        captured.records += 1
        if record.problem or not isinstance(record.value, dict):
            captured.skipped[record.problem or "malformed"] += 1
        else:
            captured.take(record.value, record.source)
    for session in captured.sessions.values():
        recording = sink.session("opencode", session.id, captured.layout)
        recording.counts["records"] = captured.records
        recording.skipped.update(captured.skipped)
        captured.skipped.clear()
        conversation = Conversation(recording)
        with source.opened() as file:
            conversation.session({**_at(file, session.info, ()), "id": session.id})
            for _, message in sorted(session.messages.items(), key=lambda one: (one[1].created, one[0])):
                if message.info is None and not message.bare:
                    recording.skip("part", len(message.parts))
                    continue
                info = _at(file, message.info, ())
                parts: list[Part] = []
                for id_, part in sorted(message.parts.items()):
                    value = _at(file, part.place, part.deltas)
                    parts.append(({**value, "id": id_}, part.place or {}))
                place = message.info or next(iter(message.parts.values())).place or {}
                conversation.message({"role": "assistant", **info, "id": message.id}, parts, place)
        conversation.finish()
        sink.close(recording)


@dataclass
class _PartAt:
    place: dict[str, Any] | None = None
    deltas: list[tuple[str, str]] = field(default_factory=list)
    """What came after the snapshot: field and text."""


@dataclass
class _MessageAt:
    id: str
    info: dict[str, Any] | None = None
    created: float = 0
    bare: bool = False
    """Told by its parts alone."""
    parts: dict[str, _PartAt] = field(default_factory=dict)


@dataclass
class _SessionAt:
    id: str
    info: dict[str, Any] | None = None
    messages: dict[str, _MessageAt] = field(default_factory=dict)


class _Captured:
    """Where the last snapshot of everything stands."""

    def __init__(self) -> None:
        self.sessions: dict[str, _SessionAt] = {}
        self.skipped: Counter[str] = Counter()
        self.records = 0
        self.layout = "events"
        self._session_of: dict[str, str] = {}

    def take(self, value: dict[str, Any], place: dict[str, Any]) -> None:
        event = _inner(value)
        if _is_event(event):
            self._event(str(event["type"]), mapping(event["properties"]), place)
        elif _is_shared(value):
            self.layout = "share"
            self._shared(str(value["type"]), mapping(value["data"]), place)
        elif _is_run(value):
            self.layout = "run"
            part = mapping(value.get("part"))
            if part:
                message = self._part(part, place)
                message.bare = True
                message.created = message.created or value.get("timestamp", 0)
            else:
                self.skipped[str(value["type"])] += 1
        else:
            self.skipped[text(value.get("type")) or "untyped"] += 1

    def _shared(self, kind: str, data: dict[str, Any], place: dict[str, Any]) -> None:
        if kind == "session":
            self._session(text(data.get("id"))).info = place
        elif kind == "message":
            self._message(data, place)
        elif kind == "part":
            self._part(data, place)
        else:
            self.skipped[kind] += 1

    def _event(self, kind: str, facts: dict[str, Any], place: dict[str, Any]) -> None:
        kind = re.sub(r"\.\d+$", "", kind)
        info = mapping(facts.get("info"))
        if kind in {"session.created", "session.updated"} and info:
            self._session(text(info.get("id"))).info = place
        elif kind == "message.updated" and info:
            self._message(info, place)
        elif kind == "message.part.updated" and mapping(facts.get("part")):
            self._part(mapping(facts["part"]), place)
        elif kind == "message.part.delta":
            message = self._message_at(facts)
            part = message.parts.setdefault(text(facts.get("partID")), _PartAt())
            part.deltas.append((text(facts.get("field")) or "text", text(facts.get("delta"))))
        elif kind == "message.removed":
            self._session(self._owner(facts)).messages.pop(text(facts.get("messageID")), None)
        elif kind == "message.part.removed":
            self._message_at(facts).parts.pop(text(facts.get("partID")), None)
        else:
            self.skipped[kind] += 1

    def _owner(self, facts: dict[str, Any]) -> str:
        """The session that is named, else the one of the message."""
        return name_(facts.get("sessionID")) or self._session_of.get(text(facts.get("messageID")), "")

    def _session(self, id_: str) -> _SessionAt:
        return self.sessions.setdefault(id_, _SessionAt(id_))

    def _message_at(self, facts: dict[str, Any]) -> _MessageAt:
        id_ = text(facts.get("messageID"))
        session = self._owner(facts)
        self._session_of[id_] = session
        return self._session(session).messages.setdefault(id_, _MessageAt(id_))

    def _message(self, info: dict[str, Any], place: dict[str, Any]) -> None:
        message = self._message_at({"messageID": info.get("id"), "sessionID": info.get("sessionID")})
        created = mapping(info.get("time")).get("created")
        message.info, message.created = (
            place,
            created if isinstance(created, int | float) else message.created,
        )

    def _part(self, part: dict[str, Any], place: dict[str, Any]) -> _MessageAt:
        message = self._message_at(part)
        message.parts[text(part.get("id"))] = _PartAt(place)
        return message


def _is_shared(value: Any) -> bool:
    return isinstance(value, dict) and word(value, "type") in _SHARED and "data" in value


def _is_event(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "properties" in value
        and word(value, "type") != ""
        and isinstance(value["properties"], dict | list)
    )


def _is_run(value: Any) -> bool:
    return isinstance(value, dict) and word(value, "type") in _RUN and "sessionID" in value


def _inner(value: Any) -> Any:
    """Events of all projects at once are wrapped."""
    inner = mapping(value).get("payload")
    return inner if isinstance(inner, dict) and "properties" in inner else value


def _at(file: Any, place: dict[str, Any] | None, deltas: Any) -> dict[str, Any]:
    """What stands at a place: the session, message or part in it, with what was added since."""
    found: dict[str, Any] = {}
    if place is not None:
        file.seek(place["offset"])
        value = json.loads(file.read(place["bytes"]).decode("utf-8", "surrogateescape"))
        facts = mapping(mapping(_inner(value)).get("properties")) or mapping(value.get("data")) or value
        found = dict(mapping(facts.get("info")) or mapping(facts.get("part")) or facts)
    for key, more in deltas:
        found[key] = text(found.get(key)) + more
    return found
