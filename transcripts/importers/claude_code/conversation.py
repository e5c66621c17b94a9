"""One conversation of Claude Code: its records, told to a recording."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from transcripts.imported.model import ABORTED, ERROR, REJECTED
from transcripts.imported.recording import Recording
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

SPEAK = {"user", "assistant"}
PASSED = {
    "progress",
    "file-history-snapshot",
    "queue-operation",
    "last-prompt",
    "permission-mode",
    "attachment",
}
"""Known, and nothing that was said or done: counted only."""
TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_REJECTED = ("The user doesn't want to proceed", "The user doesn't want to take this action", "User rejected")
_INTERRUPTED = "[Request interrupted by user"
_CUT = re.compile(r"\[\d+ (?:lines|characters) truncated\]")


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


@dataclass(eq=False)
class Conversation:
    """One conversation in a file: the main one, or a subagent's."""

    recording: Recording
    prompts: dict[str, tuple[Conversation, str]]
    """What subagents were asked, in all conversations of a file → who asked, in which call."""
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

    def take(self, value: dict[str, Any], source: dict[str, Any]) -> None:
        """One record."""
        kind, uuid = word(value, "type"), name_(value.get("uuid"))
        self.recording.counts["records"] += 1
        if uuid is not None and not self.tree.add(uuid, parent_of(value)):
            self.recording.skip("duplicate")
        elif kind == "assistant":
            self._answer(value, source, uuid)
        else:
            self.flush()
            if kind == "user":
                self._user(value, source, uuid)
            else:
                self._aside(kind, value, source)

    def finish(self) -> None:
        """All records were told."""
        self.flush()
        for events, messages in self.tree.dead():
            self.recording.amend(events, why="rewound", live=False, messages=messages)

    def _answer(self, value: dict[str, Any], source: dict[str, Any], uuid: str | None) -> None:
        message = mapping(value.get("message"))
        if not message:
            self.recording.other("assistant", value, source)
            return
        id_ = name_(message.get("id"))
        if self.pending is not None and (id_ is None or self.pending.id != id_):
            self.flush()
        if self.pending is None:
            self.pending = _Answer(id_, {**value, "message": {**message, "content": None}}, source)
        answer = self.pending
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

    def flush(self) -> None:
        answer, self.pending = self.pending, None
        if answer is None:
            return
        recording = self.recording
        seqs: list[int] = []
        seq = self.answers.get(answer.id or "")
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
                self.answers[answer.id] = seq
        elif said or thought:
            seqs.append(recording.more(seq, said, answer.source, thinking=thought))
        for block, source in answer.calls:
            seqs.append(self._call(block, source, seq, answer.record))
        for number, (uuid, group) in enumerate(answer.uuids):
            self.tree.note(
                uuid, tuple(seqs) if number == 0 else (), group, messages=int(begun and number == 0)
            )
            self.tree.ask(uuid, [text(block.get("id")) for block, _ in answer.calls])

    def _call(
        self,
        block: dict[str, Any],
        source: dict[str, Any],
        message: int,
        record: dict[str, Any],
    ) -> int:
        given = block.get("input")
        id_ = text(block.get("id"))
        command = command_of(given)
        self.calls[id_] = command
        prompt = mapping(given).get("prompt")
        if isinstance(prompt, str):
            self.prompts[prompt] = (self, id_)
        return self.recording.call(
            text(block.get("name")) or "?",
            given,
            source,
            id_=id_,
            message=message,
            command=command,
            cwd=name_(record.get("cwd")),
            at=moment(record.get("timestamp")),
        )

    def _user(self, value: dict[str, Any], source: dict[str, Any], uuid: str | None) -> None:
        recording = self.recording
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
        if "summary" in notes and not self.boundary and recording.counts["messages"]:
            recording.segment(source, why="compaction")
        if "summary" in notes:
            self.boundary = False
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
            # In the main conversation it is the subagent's that answered.
            agent = None if value.get("isSidechain") is True else name_(value.get("agentId"))
            seqs.append(self._result(id_, block, twin, source, at, agent))
        if uuid is not None:
            self.tree.note(uuid, tuple(seqs), None, messages=1, meta="meta" in notes)
            self.tree.answer(uuid, answered)

    def _result(
        self,
        id_: str,
        block: dict[str, Any],
        twin: Any,
        source: dict[str, Any],
        at: str | None,
        agent: str | None,
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
        elif code is None and self.calls.get(id_) is not None and "backgroundTaskId" not in facts:
            code = 0
        agent = name_(facts.get("agentId")) or agent
        child = f"{next(iter(self.names), '')}.agent-{agent}" if agent else self.inner.get(id_)
        kept = name_(facts.get("persistedOutputPath"))
        return self.recording.result(
            self.recording.asked(id_),
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

    def _aside(self, type_: str, value: dict[str, Any], source: dict[str, Any]) -> None:
        recording = self.recording
        if type_ in TITLES:
            recording.about(title=name_(value.get(TITLES[type_])) or name_(value.get("title")))
        elif type_ == "system" and value.get("subtype") == "compact_boundary":
            if recording.counts["messages"]:
                facts = mapping(value.get("compactMetadata"))
                recording.segment(
                    source,
                    why="compaction",
                    trigger=facts.get("trigger"),
                    tokens_before=facts.get("preTokens"),
                )
            self.boundary = True
        elif type_ == "system" and (
            cleared := mapping(value.get("microcompactMetadata")).get("compactedToolIds")
        ):
            calls = [seq for one in items(cleared) if (seq := recording.asked(text(one))) is not None]
            recording.amend(calls, why="pruned", shown=CLEARED)
        elif type_ in PASSED:
            recording.skip(type_)
        else:
            recording.other(type_, value, source)


def parent_of(value: dict[str, Any]) -> str | None:
    """The record that one hangs on; over a compaction, the one before that."""
    return name_(value.get("parentUuid")) or name_(value.get("logicalParentUuid"))


def _tokens(usage: dict[str, Any]) -> dict[str, int]:
    known = {
        "input": usage.get("input_tokens"),
        "output": usage.get("output_tokens"),
        "cache_read": usage.get("cache_read_input_tokens"),
        "cache_write": usage.get("cache_creation_input_tokens"),
    }
    return {key: count(value) for key, value in known.items() if count(value)}
