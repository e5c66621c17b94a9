"""Codex CLI: rollouts (``rollout-*.jsonl``, also packed with zstd), one session a file.

``event_msg`` says again what ``response_item`` says: of a role that speaks in both, only the second counts.
The oldest files have a header without a type and bare items.
"""

from __future__ import annotations

from typing import Any

from transcripts.imported.recording import Recording
from transcripts.importers.responses import KNOWN, Items
from transcripts.importers.sink import Sink
from transcripts.importers.source import Source
from transcripts.importers.values import count, mapping, moment, name as name_, text, word

name = "codex"

_WRAPPED = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
_SPEAK = {"user_message": "user", "agent_message": "assistant"}


def recognises(source: Source) -> bool:
    if source.shape != "lines":
        return False
    first = [one for one in source.first if isinstance(one, dict)]
    if any(word(one, "type") in _WRAPPED and isinstance(one.get("payload"), dict) for one in first):
        return True
    return len(first) > 1 and _is_header(first[0]) and any(word(one, "type") in KNOWN for one in first)


def read(source: Source, sink: Sink) -> None:
    recording = sink.session(name, None, "lines")
    reading = _Reading(recording, _told_alone(source))
    seen: set[int] = set()
    for record in source.lines():
        recording.counts["records"] += 1
        value = record.value
        if record.problem or not isinstance(value, dict):
            recording.skip(record.problem or "malformed")
            continue
        if "timestamp" in value:
            mark = hash(str(value))
            if mark in seen:
                recording.skip("duplicate")
                continue
            seen.add(mark)
        reading.take(value, record.source)
    reading.finish()
    sink.close(recording)


def _is_header(value: dict[str, Any]) -> bool:
    return (
        "type" not in value and isinstance(value.get("id"), str) and isinstance(value.get("timestamp"), str)
    )


def _told_alone(source: Source) -> set[str]:
    """Roles that speak in events only: most files are known by their first lines."""
    alone = set(_SPEAK.values())
    for record in source.lines():
        value = mapping(record.value)
        item = mapping(value.get("payload")) if word(value, "type") == "response_item" else value
        if word(item, "type") == "message":
            alone.discard(word(item, "role"))
        if not alone:
            break
    return alone


class _Reading:
    def __init__(self, recording: Recording, alone: set[str]) -> None:
        self._recording = recording
        self._alone = alone
        """Roles of which events tell and items do not."""
        self._items = Items(recording)
        self._named = False
        self._compacted = False
        """A compaction was said, and nothing since."""
        self._stopped: list[tuple[int, dict[str, Any]]] = []
        """Calls that were open when a turn was aborted."""

    def take(self, value: dict[str, Any], source: dict[str, Any]) -> None:
        kind, payload = word(value, "type"), value.get("payload")
        at = moment(value.get("timestamp"))
        if kind in _WRAPPED and not isinstance(payload, dict):
            self._recording.skip("malformed")
        elif kind == "session_meta":
            self._meta(mapping(payload))
        elif kind == "turn_context":
            facts = mapping(payload)
            self._items.cwd = name_(facts.get("cwd")) or self._items.cwd
            self._items.model = name_(facts.get("model")) or self._items.model
            self._recording.about(model=self._recording.facts.get("model") or self._items.model)
        elif kind == "response_item":
            self._item(mapping(payload), source, at)
        elif kind == "event_msg":
            self._told(mapping(payload), source, at)
        elif kind == "compacted":
            self._compact(source, mapping(payload))
        elif _is_header(value):
            self._meta(value)
        elif value.get("record_type") == "state":
            self._recording.skip("state")
        elif kind in KNOWN:
            self._item(value, source, at)
        else:
            self._recording.other(text(kind) or "untyped", value, source)

    def finish(self) -> None:
        for call, source in self._stopped:
            if not self._recording.answered(call):
                self._recording.interrupted(call, source, "aborted")
        self._items.finish()

    def _meta(self, facts: dict[str, Any]) -> None:
        if self._named:
            # A fork begins with what its parent said, header and all.
            self._recording.skip("session_meta")
            return
        self._named = True
        self._recording.id = name_(facts.get("id")) or self._recording.id
        self._items.cwd = name_(facts.get("cwd"))
        spawned = mapping(mapping(mapping(facts.get("source")).get("subagent")).get("thread_spawn"))
        self._recording.about(
            cwd=self._items.cwd,
            version=name_(facts.get("cli_version")),
            fork_of=name_(facts.get("forked_from_id")),
            parent=name_(spawned.get("parent_thread_id")) or name_(facts.get("parent_thread_id")),
            started=moment(facts.get("timestamp")),
        )

    def _item(self, item: dict[str, Any], source: dict[str, Any], at: str | None) -> None:
        kind = word(item, "type")
        if kind in {"compaction", "context_compaction", "compaction_summary"}:
            self._compact(source, item)
        elif kind == "ghost_snapshot":
            self._recording.skip("ghost_snapshot")
        else:
            self._compacted = self._compacted and kind == "message" and word(item, "role") != "assistant"
            self._items.take(item, source, at)

    def _compact(self, source: dict[str, Any], facts: dict[str, Any]) -> None:
        if not self._compacted and self._recording.counts["messages"]:
            summary = facts.get("message")
            self._recording.segment(
                source, why="compaction", summary=summary if isinstance(summary, str) else None
            )
        self._compacted = True

    def _told(self, event: dict[str, Any], source: dict[str, Any], at: str | None) -> None:
        kind = word(event, "type")
        recording = self._recording
        if kind == "token_count":
            total = mapping(mapping(event.get("info")).get("total_token_usage"))
            tokens = {
                "input": count(total.get("input_tokens")),
                "output": count(total.get("output_tokens")),
                "reasoning": count(total.get("reasoning_output_tokens")),
                "cache_read": count(total.get("cached_input_tokens")),
            }
            if any(tokens.values()):
                recording.tokens_are(tokens)
        elif kind == "context_compacted":
            self._compact(source, event)
        elif kind == "turn_aborted":
            self._stopped += [(call, source) for call in recording.waiting()]
        elif kind == "thread_rolled_back":
            turns = self._items.turns
            left = turns[-count(event.get("num_turns")) :] if count(event.get("num_turns")) else []
            if left:
                del turns[-len(left) :]
                recording.amend_from(left[0], why="rolled back")
        elif _SPEAK.get(kind) in self._alone:
            said = {"type": "message", "role": _SPEAK[kind], "content": text(event.get("message"))}
            self._item(said, source, at)
        else:
            recording.skip("event_msg")
