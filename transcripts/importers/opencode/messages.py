"""Messages with parts, as opencode 1.x keeps them, told to a recording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from transcripts.imported.model import ABORTED, ERROR, REJECTED, UNANSWERED
from transcripts.imported.recording import Recording
from transcripts.importers.opencode.first import is_first, modern, modern_part
from transcripts.importers.values import (
    CLEARED,
    attachment,
    command_of,
    count,
    folder_of,
    mapping,
    moment,
    name,
    text,
    word,
)

Part = tuple[dict[str, Any], dict[str, Any]]
"""A part and its place."""

INTERRUPTED = "[Tool execution was interrupted]"
"""What the model sees of a call that never came back."""

_ABORTED = ("Tool execution aborted", "The operation was aborted")
_REJECTED = re.compile(
    r"user rejected|rejected permission|permission (?:was )?(?:denied|rejected)", re.IGNORECASE
)
_TIMED_OUT = re.compile(r"\(Command timed out after|terminated command after exceeding timeout")
_STOPPED = re.compile(r"\((?:Command|User) (?:was )?aborted|User aborted the command")
_CUT = re.compile(r"\(Output was truncated|\.\.\.\d+ (?:lines|bytes) truncated\.\.\.|output truncated\.\.\.")
_TAIL = 600
"""Characters of an output's end in which it is said how it ended."""
_QUIET = {"step-start", "step-finish", "snapshot", "patch", "compaction"}
"""Parts that say nothing by themselves, or are read elsewhere."""


class Conversation:
    """One session. Tell it the messages in their order, then :meth:`finish`."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._revert: dict[str, Any] = {}
        self._cwd: str | None = None
        self._begun: dict[str, int] = {}
        """Id of a message or part → its first event."""

    def session(self, info: dict[str, Any]) -> None:
        recording = self._recording
        recording.id = name(info.get("id")) or recording.id
        time = mapping(info.get("time"))
        fork = info.get("forkSessionID") or mapping(info.get("fork")).get("sessionID")
        recording.about(
            parent=name(info.get("parentID")),
            fork_of=name(fork),
            title=name(info.get("title")),
            cwd=name(info.get("directory")),
            version=name(info.get("version")),
            started=moment(time.get("created")),
        )
        self._revert = mapping(info.get("revert"))
        self._cwd = name(info.get("directory"))

    def message(self, info: dict[str, Any], parts: Sequence[Part], source: dict[str, Any]) -> None:
        recording = self._recording
        if is_first(info):
            parts = [(modern_part(part, info), place) for part, place in parts]
            info = modern(info)
        role = text(info.get("role")) or "assistant"
        texts = [part for part, _ in parts if word(part, "type") == "text"]
        thinking = [text(part.get("text")) for part, _ in parts if word(part, "type") == "reasoning"]
        asked = [
            "\n".join(filter(None, (text(part.get("prompt")), text(part.get("command")))))
            for part, _ in parts
            if word(part, "type") == "subtask"
        ]
        seq = recording.message(
            role,
            "\n".join([*(text(part.get("text")) for part in texts), *asked]),
            source,
            id=name(info.get("id")),
            at=moment(mapping(info.get("time")).get("created")),
            thinking="\n".join(filter(None, thinking)),
            model=_model(info) if role == "assistant" else None,
            tokens=_tokens(info, parts),
            notes=_notes(info, parts, texts),
            attachments=[attachment(part) or {} for part, _ in parts if word(part, "type") == "file"],
            error=_failure(info.get("error")),
            text_sources=[
                place
                for part, place in parts
                if word(part, "type") in {"text", "reasoning"} and place and place != source
            ],
        )
        recording.about(model=recording.facts.get("model") or (_model(info) if role == "assistant" else None))
        self._begun[text(info.get("id"))] = seq
        for part, place in parts:
            kind = word(part, "type")
            if kind == "tool":
                self._begun[text(part.get("id"))] = self._tool(part, info, seq, place or source)
            elif kind not in _QUIET | {"text", "reasoning", "file", "subtask", "agent", "retry"}:
                recording.other(text(kind) or "part", part, place or source)
        if _is_compaction(info):
            recording.segment(source, why="compaction", message=seq)

    def finish(self) -> None:
        """Messages from the one on that a person went back to are hidden, and replaced by what comes next."""
        message, part = name(self._revert.get("messageID")), name(self._revert.get("partID"))
        first = self._begun.get(part or message or "")
        if first is None and part is not None:
            first = min(
                (seq for id_, seq in self._begun.items() if id_.startswith("prt_") and id_ >= part),
                default=None,
            )
        if first is not None:
            self._recording.amend_from(first, why="reverted")

    def _tool(self, part: dict[str, Any], info: dict[str, Any], message: int, source: dict[str, Any]) -> int:
        state, time = mapping(part.get("state")), mapping(mapping(part.get("state")).get("time"))
        given = state.get("input")
        seq = self._recording.call(
            text(part.get("tool")) or "?",
            given if given or not state.get("raw") else None,
            source,
            id_=name(part.get("callID")),
            message=message,
            raw_input=name(state.get("raw")) if not given else None,
            command=command_of(given),
            cwd=folder_of(given) or name(mapping(info.get("path")).get("cwd")) or self._cwd,
            at=moment(time.get("start")) or moment(mapping(info.get("time")).get("created")),
        )
        self._result(seq, state, time, source)
        return seq

    def _result(self, call: int, state: dict[str, Any], time: dict[str, Any], source: dict[str, Any]) -> None:
        metadata = mapping(state.get("metadata"))
        child = name(metadata.get("sessionId")) or name(metadata.get("sessionID"))
        facts: dict[str, Any] = {
            "child": child,
            "started": moment(time.get("start")),
            "ended": moment(time.get("end")),
            "full_output": name(metadata.get("outputPath")),
        }
        code = metadata.get("exit")
        status = word(state, "status")
        if status == "completed":
            output = text(state.get("output"))
            tail = output[-_TAIL:]
            late = metadata.get("timeout") is True or _TIMED_OUT.search(tail) is not None
            ended = ABORTED if _STOPPED.search(tail) else ERROR if late else None
            facts |= {
                "returned": output,
                "shown": CLEARED if time.get("compacted") else text(state.get("shown")) or output,
                "status": ended,
                "exit_code": code if isinstance(code, int) else None,
                "truncated": metadata.get("truncated") is True or _CUT.search(output) is not None,
            }
        elif status == "error":
            error = _words(state.get("error"))
            partial = metadata.get("output")
            interrupted = metadata.get("interrupted") is True
            ended = (
                ABORTED
                if interrupted or error.startswith(_ABORTED)
                else REJECTED
                if _REJECTED.search(error)
                else ERROR
            )
            facts |= {
                "returned": partial if isinstance(partial, str) and partial else error,
                "shown": partial if interrupted and isinstance(partial, str) else error,
                "status": ended,
                "exit_code": code if isinstance(code, int) else None,
            }
        else:
            facts |= {"shown": INTERRUPTED, "status": UNANSWERED}
        self._recording.result(call, source, **facts)


def _words(error: Any) -> str:
    """The message of an error, which is a text or an object."""
    if isinstance(error, dict):
        return (
            text(error.get("message"))
            or text(mapping(error.get("data")).get("message"))
            or text(error.get("name"))
        )
    return text(error)


def _failure(error: Any) -> str | None:
    if not error:
        return None
    kind = text(mapping(error).get("name")) or text(word(mapping(error), "type"))
    return ": ".join(dict.fromkeys(filter(None, (kind, _words(error))))) or "error"


def _model(info: dict[str, Any]) -> str | None:
    model = mapping(info.get("model"))
    own = name(info.get("modelID")) or name(model.get("modelID")) or name(model.get("id"))
    provider = name(info.get("providerID")) or name(model.get("providerID"))
    return f"{provider}/{own}" if own and provider else own


def _tokens(info: dict[str, Any], parts: Sequence[Part]) -> dict[str, int]:
    """Of the answer; where it says none, the sum over its steps."""
    found: Counter[str] = Counter()
    steps = [mapping(part.get("tokens")) for part, _ in parts if word(part, "type") == "step-finish"]
    own = mapping(info.get("tokens"))
    for one in [own] if any(isinstance(value, int) and value for value in own.values()) else steps:
        cache = mapping(one.get("cache"))
        found.update({key: count(one.get(key)) for key in ("input", "output", "reasoning")})
        found.update({"cache_read": count(cache.get("read")), "cache_write": count(cache.get("write"))})
    return {key: value for key, value in found.items() if value}


def _notes(info: dict[str, Any], parts: Sequence[Part], texts: list[dict[str, Any]]) -> list[str]:
    kinds = {word(part, "type") for part, _ in parts}
    notes = {
        "synthetic": bool(texts) and all(part.get("synthetic") is True for part in texts),
        "ignored": bool(texts) and all(part.get("ignored") is True for part in texts),
        "compaction": "compaction" in kinds,
        "summary": word(info, "role") == "assistant" and info.get("summary") is True,
        "retried": "retry" in kinds,
        "subtask": "subtask" in kinds,
    }
    return [note for note, there in notes.items() if there]


def _is_compaction(info: dict[str, Any]) -> bool:
    """Whether a summary was made, to its end."""
    done = info.get("finish") or mapping(info.get("time")).get("completed")
    return (
        word(info, "role") == "assistant"
        and info.get("summary") is True
        and bool(done)
        and not info.get("error")
    )
