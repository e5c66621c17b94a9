"""Items of the OpenAI Responses API: what Codex writes into its rollouts, and what lists of such items hold.

Not a format by itself: :class:`Items` tells a recording what each item says.
"""

from __future__ import annotations

import re
from typing import Any

from transcripts.imported.model import ABORTED, ERROR, OK
from transcripts.imported.recording import Recording
from transcripts.importers.values import (
    arguments,
    command_of,
    exit_code,
    folder_of,
    items,
    mapping,
    name,
    spoken,
    text,
    word,
)

CALLS = {
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "tool_search_call",
    "mcp_call",
    "computer_call",
}
OUTPUTS = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "tool_search_output",
    "computer_call_output",
}
HOSTED = {"web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call"}
"""Run by the provider: their result stands in the same item, or nowhere."""
KNOWN = CALLS | OUTPUTS | HOSTED | {"message", "reasoning"}

_META = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<permissions",
    "<turn_aborted>",
)
_BODY = re.compile(r"\A(?:[A-Z][\w ]*:? [^\n]*\n)+?Output:\n")
_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) ?(-?\d+)\s*$", re.MULTILINE)
_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEADER = 600
_ABORTED = ("aborted", "aborted by user")


class Items:
    """``cwd`` and ``model`` are those in force; set them as they change."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.cwd: str | None = None
        self.model: str | None = None
        self.turns: list[int] = []
        """Events at which a person spoke."""
        self._thought: list[str] = []
        self._spawning: set[str] = set()
        """Ids of calls that start a subagent."""

    def take(self, item: dict[str, Any], source: dict[str, Any], at: str | None = None) -> None:
        kind = str(item.get("type", "message" if "role" in item else ""))
        if kind == "message":
            self._message(item, source, at)
        elif kind == "reasoning":
            summary = [text(mapping(one).get("text")) for one in items(item.get("summary"))]
            content = [text(mapping(one).get("text")) for one in items(item.get("content"))]
            self._thought += filter(None, [*summary, *content])
        elif kind in CALLS:
            seq = self._call(kind, item, source, at)
            if "output" in item or item.get("error"):
                failed = ERROR if item.get("error") else None
                self.recording.result(seq, source, returned=text(item.get("output")), status=failed, ended=at)
        elif kind in OUTPUTS:
            self._output(item, source, at)
        elif kind in HOSTED:
            given = item.get("action") or {
                key: item[key] for key in ("queries", "code", "prompt") if key in item
            }
            seq = self.recording.call(
                kind.removesuffix("_call"), given, source, id_=name(item.get("id")), at=at, **self._thinking()
            )
            status = word(item, "status")
            if status in {"completed", "failed"} or item.get("result"):
                ended = ERROR if status == "failed" else OK
                self.recording.result(seq, source, status=ended, returned=self._results(item), ended=at)
        else:
            self.recording.other(kind or "untyped", item, source)

    def finish(self) -> None:
        """Thoughts that came to nothing are kept."""
        if self._thought:
            self.recording.other("reasoning", {"summary": self._thought}, {})

    def _thinking(self) -> dict[str, Any]:
        thought, self._thought = "\n".join(self._thought), []
        return {"thinking": thought}

    def _message(self, item: dict[str, Any], source: dict[str, Any], at: str | None) -> None:
        role = text(item.get("role")) or "assistant"
        said, attached = spoken(item.get("content"))
        meta = role in {"developer", "system"} or said.lstrip().startswith(_META)
        seq = self.recording.message(
            role,
            said,
            source,
            at=at,
            id=name(item.get("id")),
            model=self.model if role == "assistant" else None,
            notes=["meta"] if meta and role == "user" else [],
            attachments=attached,
            **(self._thinking() if role == "assistant" else {}),
        )
        if role == "user" and not meta:
            self.turns.append(seq)

    def _call(self, kind: str, item: dict[str, Any], source: dict[str, Any], at: str | None) -> int:
        given: Any
        raw: str | None
        if kind == "local_shell_call":
            given, raw, tool = mapping(item.get("action")), None, "local_shell"
        elif kind == "custom_tool_call":
            given, raw, tool = item.get("input"), None, text(item.get("name"))
        else:
            given, raw = arguments(item.get("arguments"))
            tool = text(item.get("name")) or kind.removesuffix("_call")
        if tool == "spawn_agent":
            self._spawning.add(text(item.get("call_id")))
        return self.recording.call(
            tool or "?",
            given,
            source,
            id_=name(item.get("call_id")) or name(item.get("id")),
            raw_input=raw,
            at=at,
            command=command_of(given),
            cwd=folder_of(given) or self.cwd,
            **self._thinking(),
        )

    def _output(self, item: dict[str, Any], source: dict[str, Any], at: str | None) -> None:
        output = item.get("output", item.get("tools"))
        failed = False
        if isinstance(output, dict):
            failed = output.get("success") is False
            output = output.get("content", output)
        shown = spoken(output)[0] if not isinstance(output, dict) else text(output)
        returned, code = output_of(shown)
        status = ERROR if failed else None
        if shown.strip().lower().startswith(_ABORTED):
            status = ABORTED
        self.recording.result(
            self.recording.asked(text(item.get("call_id"))),
            source,
            returned=returned,
            shown=shown,
            status=status,
            exit_code=code,
            ended=at,
            child=_named(shown) if text(item.get("call_id")) in self._spawning else None,
            truncated="tokens truncated…" in shown or "[... omitted " in shown,
        )

    @staticmethod
    def _results(item: dict[str, Any]) -> str | None:
        found = item.get("results") or item.get("outputs")
        return text(found) if found else None


def _named(shown: str) -> str | None:
    """The session that a text names."""
    found = _SESSION.search(shown)
    return found[0] if found else None


def output_of(shown: str) -> tuple[str, int | None]:
    """What a command printed, and its exit code, of the text that a shell tool gives: a JSON envelope, or a
    header (``Exit code: 0``, ``Wall time: …``, ``Output:``) before it."""
    if shown.startswith("{") and '"exit_code"' in shown:
        given, _ = arguments(shown)
        metadata = mapping(mapping(given).get("metadata")) or mapping(given)
        code = metadata.get("exit_code")
        if isinstance(code, int):
            return text(mapping(given).get("output")), code
    header = _BODY.match(shown[:_HEADER])
    if header is None:
        return shown, exit_code(shown)
    found = _EXIT.search(header[0])
    return shown[header.end() :], int(found[1]) if found else None
