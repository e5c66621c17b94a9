"""Claude Code: JSON lines of ``projects/*/SESSION.jsonl`` and of its subagents, and the web form
``loglines``.

An answer is written as several records, a block each, under one ``message.id``. Records form a tree by
``parentUuid``: what is not on the way to a tree's last message was rewound. Records of a subagent
(``isSidechain``) are a session of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from transcripts.imported.model import ABORTED, ERROR, REJECTED
from transcripts.imported.recording import Recording
from transcripts.importers.sink import Sink
from transcripts.importers.source import Record, Source
from transcripts.importers.trees import Tree
from transcripts.importers.values import (
    CLEARED,
    command_of,
    count,
    exit_code,
    items,
    mapping,
    moment,
    name as name_,
    spoken,
    text,
    word,
)

name = "claude_code"

_SPEAK = {"user", "assistant"}
_PASSED = {
    "progress",
    "file-history-snapshot",
    "queue-operation",
    "last-prompt",
    "permission-mode",
    "attachment",
}
"""Known, and nothing that was said or done: counted only."""
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_REJECTED = ("The user doesn't want to proceed", "The user doesn't want to take this action", "User rejected")
_INTERRUPTED = "[Request interrupted by user"
_CUT = re.compile(r"\[\d+ (?:lines|characters) truncated\]")


def recognises(source: Source) -> bool:
    if source.shape == "document":
        return bool(source.first) and "loglines" in mapping(source.first[0])
    return source.shape == "lines" and any(_is_record(mapping(one)) for one in source.first)


def _is_record(value: dict[str, Any]) -> bool:
    kind = word(value, "type")
    if "payload" in value or "part" in value:
        return False
    if kind in _SPEAK:
        return isinstance(value.get("message"), dict)
    return "sessionId" in value and kind in _PASSED | _TITLES.keys() | {"system"}


def read(source: Source, sink: Sink) -> None:
    reading = _Reading(source, sink)
    records = source.members("loglines") if source.shape == "document" else source.lines()
    for record in records:
        if source.shape != "document" or record.key == "loglines" or record.problem:
            reading.take(record)
    reading.finish()


@dataclass(eq=False)
class _Track:
    """One conversation in a file: the main one, or a subagent's."""

    recording: Recording
    names: Counter[str] = field(default_factory=Counter)
    """Values of ``sessionId``."""
    tree: Tree = field(default_factory=Tree)
    answers: dict[str, int] = field(default_factory=dict)
    """``message.id`` → the event of the answer."""
    pending: _Answer | None = None
    calls: dict[str, str | None] = field(default_factory=dict)
    """Id of a call → its command line."""
    inner: dict[str, str] = field(default_factory=dict)
    """Id of a call → the subagent that it started."""
    boundary: bool = False
    """A compaction was said, its summary comes."""


@dataclass
class _Answer:
    """The blocks of one answer, until a record of another one comes."""

    id: str | None
    record: dict[str, Any]
    source: dict[str, Any]
    uuids: list[tuple[str, str | None]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)


class _Reading:
    def __init__(self, source: Source, sink: Sink) -> None:
        self._source = source
        self._sink = sink
        self._layout = "loglines" if source.shape == "document" else "lines"
        self._mains: dict[str, _Track] = {}
        self._sides: dict[str, _Track] = {}
        self._side_of: dict[str, str] = {}
        self._main_of: dict[str, _Track] = {}
        self._prompts: dict[str, tuple[_Track, str]] = {}
        self._early: Counter[str] = Counter()
        self._last: _Track | None = None

    def take(self, record: Record) -> None:
        value = record.value
        if record.problem or not isinstance(value, dict):
            self._skip(record.problem or "malformed")
            return
        type_ = word(value, "type")
        uuid = name_(value.get("uuid"))
        if not type_:
            self._skip("untyped")
            return
        if type_ not in _SPEAK and uuid is None and "sessionId" not in value and self._last is None:
            self._early[type_] += 1
            return
        track = self._track(value, uuid)
        track.recording.counts["records"] += 1
        if uuid is not None:
            parent = name_(value.get("parentUuid")) or name_(value.get("logicalParentUuid"))
            if not track.tree.add(uuid, parent):
                track.recording.skip("duplicate")
                return
        if type_ == "assistant":
            self._answer(track, value, record.source, uuid)
        elif type_ == "user":
            self._flush(track)
            self._user(track, value, record.source, uuid)
        else:
            self._flush(track)
            self._aside(track, type_, value, record.source)

    def finish(self) -> None:
        mains = list(dict.fromkeys(self._mains.values()))
        for track in [*mains, *self._sides.values()]:
            self._flush(track)
        stem = self._source.path.name.split(".")[0]
        for number, track in enumerate(mains):
            if track.names:
                track.recording.id = stem if stem in track.names else track.names.most_common(1)[0][0]
            if number == 0:
                track.recording.skipped.update(self._early)
        for key, track in self._sides.items():
            if track.names:
                owner = track.names.most_common(1)[0][0]
                track.recording.id = f"{owner}.{key}"
                track.recording.about(parent=owner)
        for track in [*mains, *self._sides.values()]:
            for seqs, messages in track.tree.dead():
                track.recording.amend(seqs, why="rewound", live=False, messages=messages)
            self._sink.close(track.recording)

    def _skip(self, why: str) -> None:
        if self._last is None:
            self._early[why] += 1
        else:
            self._last.recording.counts["records"] += 1
            self._last.recording.skip(why)

    def _track(self, value: dict[str, Any], uuid: str | None) -> _Track:
        session = name_(value.get("sessionId")) or name_(value.get("session_id")) or ""
        parent = name_(value.get("parentUuid")) or name_(value.get("logicalParentUuid"))
        if value.get("isSidechain") is True:
            track = self._side(value, uuid, parent)
        elif not session and self._last is not None:
            track = self._last
        else:
            # A session that goes on where another stopped is the same conversation.
            track = self._main_of.get(parent or "") or self._mains.get(session) or self._new(session)
            self._mains.setdefault(session, track)
        if uuid is not None and value.get("isSidechain") is not True:
            self._main_of[uuid] = track
        if session:
            track.names[session] += 1
        self._last = track
        return track

    def _side(self, value: dict[str, Any], uuid: str | None, parent: str | None) -> _Track:
        agent = name_(value.get("agentId"))
        key = f"agent-{agent}" if agent else self._side_of.get(parent or "")
        if key is None:
            key = f"side-{len(self._sides) + 1}"
        if uuid is not None:
            self._side_of[uuid] = key
        track = self._sides.get(key)
        if track is None:
            track = self._sides[key] = self._new(text(value.get("sessionId")))
            for other in (*self._mains.values(), *self._sides.values()):
                self._flush(other)
            asked = spoken(mapping(value.get("message")).get("content"))[0]
            caller, call = self._prompts.get(asked, (None, ""))
            if caller is not None:
                caller.inner[call] = f"{value.get('sessionId')}.{key}"
        return track

    def _new(self, session: str) -> _Track:
        # Which name it gets is known at the end; without any, what it says has to be taken along.
        return _Track(self._sink.session(name, "" if session else None, self._layout))

    def _answer(self, track: _Track, value: dict[str, Any], source: dict[str, Any], uuid: str | None) -> None:
        message = mapping(value.get("message"))
        if not message:
            track.recording.other("assistant", value, source)
            return
        id_ = name_(message.get("id"))
        if track.pending is not None and (id_ is None or track.pending.id != id_):
            self._flush(track)
        if track.pending is None:
            track.pending = _Answer(id_, {**value, "message": {**message, "content": None}}, source)
        answer = track.pending
        if uuid is not None:
            answer.uuids.append((uuid, id_))
        content = message.get("content")
        for block in items(content) if not isinstance(content, str) else [{"type": "text", "text": content}]:
            kind = word(mapping(block), "type")
            if kind == "text":
                answer.texts.append(text(block.get("text")))
            elif kind in {"thinking", "redacted_thinking"}:
                answer.thinking.append(text(block.get("thinking")))
            elif kind in {"tool_use", "server_tool_use"}:
                answer.calls.append((block, source))
            elif isinstance(block, dict):
                answer.texts.append(text(block))

    def _flush(self, track: _Track) -> None:
        answer, track.pending = track.pending, None
        if answer is None:
            return
        recording = track.recording
        seqs: list[int] = []
        seq = track.answers.get(answer.id or "")
        begun = seq is None
        said, thought = "\n".join(answer.texts), "\n".join(filter(None, answer.thinking))
        if seq is None:
            message = answer.record["message"]
            model = name_(message.get("model"))
            recording.about(model=recording.facts.get("model") or model)
            failed = answer.record.get("isApiErrorMessage") is True
            seq = recording.message(
                "assistant",
                said,
                answer.source,
                at=moment(answer.record.get("timestamp")),
                id=answer.id,
                thinking=thought,
                model=model,
                tokens=_tokens(mapping(message.get("usage"))),
                notes=["synthetic"] if model == "<synthetic>" else [],
                error=said or "the model's answer failed" if failed else None,
            )
            seqs.append(seq)
            if answer.id:
                track.answers[answer.id] = seq
        elif said or thought:
            seqs.append(recording.more(seq, said, answer.source, thinking=thought))
        for block, source in answer.calls:
            seqs.append(self._call(track, block, source, seq, answer.record))
        for number, (uuid, group) in enumerate(answer.uuids):
            track.tree.note(
                uuid, tuple(seqs) if number == 0 else (), group, messages=int(begun and number == 0)
            )
            track.tree.ask(uuid, [text(block.get("id")) for block, _ in answer.calls])

    def _call(
        self,
        track: _Track,
        block: dict[str, Any],
        source: dict[str, Any],
        message: int,
        record: dict[str, Any],
    ) -> int:
        given = block.get("input")
        id_ = text(block.get("id"))
        command = command_of(given)
        track.calls[id_] = command
        prompt = mapping(given).get("prompt")
        if isinstance(prompt, str):
            self._prompts[prompt] = (track, id_)
        return track.recording.call(
            text(block.get("name")) or "?",
            given,
            source,
            id_=id_,
            message=message,
            command=command,
            cwd=name_(record.get("cwd")),
            at=moment(record.get("timestamp")),
        )

    def _user(self, track: _Track, value: dict[str, Any], source: dict[str, Any], uuid: str | None) -> None:
        recording = track.recording
        message = value.get("message")
        if not isinstance(message, dict):
            recording.other("user", value, source)
            return
        content = message.get("content")
        results = [one for one in items(content) if word(mapping(one), "type") == "tool_result"]
        rest = (
            [one for one in items(content) if word(mapping(one), "type") != "tool_result"]
            if results
            else content
        )
        said, attached = spoken(rest)
        notes = [
            note
            for note, there in (
                ("meta", value.get("isMeta") is True),
                ("summary", value.get("isCompactSummary") is True),
                ("interrupted", said.startswith(_INTERRUPTED)),
            )
            if there
        ]
        if "summary" in notes and not track.boundary and recording.counts["messages"]:
            recording.segment(source, why="compaction")
        if "summary" in notes:
            track.boundary = False
        recording.about(
            cwd=recording.facts.get("cwd") or name_(value.get("cwd")),
            version=recording.facts.get("version") or name_(value.get("version")),
        )
        at = moment(value.get("timestamp"))
        role = "tool" if results and not said and not attached else "user"
        seqs = [recording.message(role, said, source, at=at, notes=notes, attachments=attached)]
        twin = value.get("toolUseResult") if len(results) == 1 else None
        answered = []
        for block in results:
            id_ = text(block.get("tool_use_id"))
            answered.append(id_)
            seqs.append(self._result(track, id_, block, twin, source, at))
        if uuid is not None:
            track.tree.note(uuid, tuple(seqs), None, messages=1, meta="meta" in notes)
            track.tree.answer(uuid, answered)

    def _result(
        self,
        track: _Track,
        id_: str,
        block: dict[str, Any],
        twin: Any,
        source: dict[str, Any],
        at: str | None,
    ) -> int:
        shown, _ = spoken(block.get("content"))
        facts = mapping(twin)
        returned = shown
        if isinstance(facts.get("stdout"), str):
            out = "\n".join(filter(None, (facts["stdout"], text(facts.get("stderr")))))
            # What the model is shown is trimmed; that alone is no other text.
            returned = out if out.strip() and out.strip() != shown.strip() else shown
        failed = block.get("is_error") is True
        code = exit_code(shown) if failed else None
        if isinstance(facts.get("exitCode"), int):
            code = facts["exitCode"]
        status = None
        if shown.startswith(_REJECTED) or (isinstance(twin, str) and twin.startswith(_REJECTED)):
            status = REJECTED
        elif shown.startswith(_INTERRUPTED) or facts.get("interrupted") is True:
            status = ABORTED
        elif failed:
            status = ERROR
        elif code is None and track.calls.get(id_) is not None and "backgroundTaskId" not in facts:
            code = 0
        agent = name_(facts.get("agentId"))
        child = f"{next(iter(track.names), '')}.agent-{agent}" if agent else track.inner.get(id_)
        kept = name_(facts.get("persistedOutputPath"))
        return track.recording.result(
            track.recording.asked(id_),
            source,
            returned=returned,
            shown=shown,
            status=status,
            exit_code=code,
            ended=at,
            child=child,
            truncated=kept is not None or _CUT.search(shown) is not None,
            full_output=kept,
        )

    def _aside(self, track: _Track, type_: str, value: dict[str, Any], source: dict[str, Any]) -> None:
        recording = track.recording
        if type_ in _TITLES:
            recording.about(title=name_(value.get(_TITLES[type_])) or name_(value.get("title")))
        elif type_ == "system" and value.get("subtype") == "compact_boundary":
            if recording.counts["messages"]:
                facts = mapping(value.get("compactMetadata"))
                recording.segment(
                    source,
                    why="compaction",
                    trigger=facts.get("trigger"),
                    tokens_before=facts.get("preTokens"),
                )
            track.boundary = True
        elif type_ == "system" and (
            cleared := mapping(value.get("microcompactMetadata")).get("compactedToolIds")
        ):
            calls = [seq for one in items(cleared) if (seq := recording.asked(text(one))) is not None]
            recording.amend(calls, why="pruned", shown=CLEARED)
        elif type_ in _PASSED:
            recording.skip(type_)
        else:
            recording.other(type_, value, source)


def _tokens(usage: dict[str, Any]) -> dict[str, int]:
    known = {
        "input": usage.get("input_tokens"),
        "output": usage.get("output_tokens"),
        "cache_read": usage.get("cache_read_input_tokens"),
        "cache_write": usage.get("cache_creation_input_tokens"),
    }
    return {key: count(value) for key, value in known.items() if count(value)}
