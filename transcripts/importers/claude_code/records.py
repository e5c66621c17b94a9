"""The records of a file: which conversation each belongs to, the main one, another one or a subagent's."""

from __future__ import annotations

from collections import Counter
from typing import Any

from transcripts.importers.claude_code.conversation import SPEAK, Conversation, parent_of
from transcripts.importers.sink import Sink
from transcripts.importers.source import Record, Source
from transcripts.importers.values import mapping, name, spoken, text, word

FORMAT = "claude_code"


class Records:
    """Tell it the records as they stand, then :meth:`finish`."""

    def __init__(self, source: Source, sink: Sink) -> None:
        self._source = source
        self._sink = sink
        self._layout = "loglines" if source.shape == "document" else "lines"
        self._mains: dict[str, Conversation] = {}
        self._sides: dict[str, Conversation] = {}
        self._side_of: dict[str, str] = {}
        self._main_of: dict[str, Conversation] = {}
        self._prompts: dict[str, tuple[Conversation, str]] = {}
        self._early: Counter[str] = Counter()
        self._before: list[Record] = []
        self._last: Conversation | None = None

    def take(self, record: Record) -> None:
        value = record.value
        if record.problem or not isinstance(value, dict):
            self._skip(record.problem or "malformed")
            return
        type_ = word(value, "type")
        uuid = name(value.get("uuid"))
        if not type_:
            self._skip("untyped")
            return
        if type_ not in SPEAK and uuid is None and "sessionId" not in value and self._last is None:
            # What a session is called may stand before everything else.
            self._before.append(record)
            return
        self._conversation(value, uuid).take(value, record.source)

    def finish(self) -> None:
        mains = list(dict.fromkeys(self._mains.values()))
        for conversation in [*mains, *self._sides.values()]:
            conversation.flush()
        stem = self._source.path.name.split(".")[0]
        for conversation in mains:
            names = conversation.names
            if names:
                conversation.recording.id = stem if stem in names else names.most_common(1)[0][0]
        for conversation in [*mains, *self._sides.values()][:1]:
            conversation.recording.skipped.update(self._early)
            title = conversation.recording.facts.get("title")
            for record in self._before:
                conversation.take(record.value, record.source)
            # What came later is what it is called now.
            conversation.recording.about(title=title)
        for key, conversation in self._sides.items():
            if conversation.names:
                owner = conversation.names.most_common(1)[0][0]
                conversation.recording.id = f"{owner}.{key}"
                conversation.recording.about(parent=owner)
        for conversation in [*mains, *self._sides.values()]:
            conversation.finish()
            self._sink.close(conversation.recording)

    def _skip(self, why: str) -> None:
        if self._last is None:
            self._early[why] += 1
        else:
            self._last.recording.counts["records"] += 1
            self._last.recording.skip(why)

    def _conversation(self, value: dict[str, Any], uuid: str | None) -> Conversation:
        session = name(value.get("sessionId")) or name(value.get("session_id")) or ""
        parent = parent_of(value)
        if value.get("isSidechain") is True:
            conversation = self._side(value, uuid, parent)
        elif not session and self._last is not None:
            conversation = self._last
        else:
            # A session that goes on where another stopped is the same conversation.
            conversation = self._main_of.get(parent or "") or self._mains.get(session) or self._new(session)
            self._mains.setdefault(session, conversation)
        if uuid is not None and value.get("isSidechain") is not True:
            self._main_of[uuid] = conversation
        if session:
            conversation.names[session] += 1
        self._last = conversation
        return conversation

    def _side(self, value: dict[str, Any], uuid: str | None, parent: str | None) -> Conversation:
        agent = name(value.get("agentId"))
        key = f"agent-{agent}" if agent else self._side_of.get(parent or "")
        if key is None:
            key = f"side-{len(self._sides) + 1}"
        if uuid is not None:
            self._side_of[uuid] = key
        conversation = self._sides.get(key)
        if conversation is None:
            conversation = self._sides[key] = self._new(text(value.get("sessionId")))
            for other in (*self._mains.values(), *self._sides.values()):
                other.flush()
            asked = spoken(mapping(value.get("message")).get("content"))[0]
            caller, call = self._prompts.get(asked, (None, ""))
            if caller is not None:
                caller.inner[call] = f"{value.get('sessionId')}.{key}"
        return conversation

    def _new(self, session: str) -> Conversation:
        # Which name it gets is known at the end; without any, what it says has to be taken along.
        recording = self._sink.session(FORMAT, "" if session else None, self._layout)
        return Conversation(recording, self._prompts)
