"""mini-swe-agent: ``.traj.json`` documents, and the bare lists of messages of its first versions.

Actions stand in ``extra.actions``, before that in a fenced block of the answer; results in ``extra``, before
that as ``<returncode>`` and ``<output>`` in the text.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from transcripts.imported.model import ERROR
from transcripts.imported.recording import Recording
from transcripts.importers.sink import Sink
from transcripts.importers.source import Record, Source
from transcripts.importers.values import items, mapping, moment, name as name_, spoken, text, word

name = "mini_swe_agent"

_FENCED = re.compile(r"```(?:bash|sh|mswea_bash_command)\s*\n(.*?)\n```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d+)\s*</returncode>")
_OUTPUT = re.compile(r"<output>\n?(.*?)(?:\n?</output>|\Z)", re.DOTALL)
_SUBMIT = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")


def recognises(source: Source) -> bool:
    if source.shape != "document" or not source.first:
        return False
    first = mapping(source.first[0])
    info = mapping(first.get("info"))
    if text(first.get("trajectory_format")).startswith("mini-swe-agent") or "mini_version" in info:
        return True
    messages = items(first.get("messages")) if "messages" in first else source.first
    return any(
        any(word in spoken(mapping(one).get("content"))[0] for word in _SUBMIT)
        for one in messages[:3]
        if word(mapping(one), "role") in {"system", "user"}
    )


def read(source: Source, sink: Sink) -> None:
    recording = sink.session(name, None, "trajectory")
    reading = _Reading(recording)
    for record in source.members("messages"):
        if record.key in (None, "messages"):
            recording.counts["records"] += 1
            reading.take(record)
        elif record.key == "info":
            info = mapping(record.value)
            recording.about(
                version=name_(info.get("mini_version")),
                model=name_(mapping(mapping(info.get("config")).get("model")).get("model_name")),
            )
        elif record.problem:
            recording.skip(record.problem)
    sink.close(recording)


class _Reading:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._asked: deque[int] = deque()

    def take(self, record: Record) -> None:
        value, recording = record.value, self._recording
        if record.problem or not isinstance(value, dict):
            recording.skip(record.problem or "malformed")
            return
        extra = mapping(value.get("extra"))
        role = text(value.get("role")) or (
            "assistant" if "output" in value and "call_id" not in value else "tool"
        )
        at = moment(extra.get("timestamp"))
        content = value.get("content")
        if content is None and isinstance(value.get("output"), list) and "call_id" not in value:
            content = [part for item in value["output"] for part in items(mapping(item).get("content"))]
        elif content is None:
            content = value.get("output")
        said, attached = spoken(content)
        if role == "assistant":
            self._answer(value, said, extra, record.source, at)
        elif self._is_result(value, said, extra):
            recording.message("tool", "", record.source, at=at, attachments=attached)
            self._result(value, said, extra, record.source, at)
        else:
            notes = [text(extra.get("exit_status"))] if extra.get("exit_status") else []
            failed = name_(extra.get("exception_str"))
            recording.message(
                role, said, record.source, at=at, attachments=attached, notes=notes, error=failed
            )

    def _answer(
        self, value: dict[str, Any], said: str, extra: dict[str, Any], source: dict[str, Any], at: str | None
    ) -> None:
        recording = self._recording
        self._asked.clear()
        response = mapping(extra.get("response"))
        usage = mapping(response.get("usage"))
        tokens = {
            "input": usage.get("prompt_tokens") or usage.get("input_tokens"),
            "output": usage.get("completion_tokens") or usage.get("output_tokens"),
        }
        seq = recording.message(
            "assistant",
            said,
            source,
            at=at,
            model=name_(response.get("model")),
            thinking=text(value.get("reasoning_content")),
            tokens={key: count for key, count in tokens.items() if isinstance(count, int) and count > 0},
        )
        actions = [mapping(one) for one in items(extra.get("actions"))]
        if not actions and "actions" not in extra:
            found = _FENCED.findall(said)
            # Another number of blocks than one is refused, and nothing is run.
            actions = [{"command": found[0].strip()}] if len(found) == 1 else []
        for action in actions:
            command = text(action.get("command"))
            self._asked.append(
                recording.call(
                    "bash",
                    {key: one for key, one in action.items() if key != "tool_call_id"},
                    source,
                    id_=name_(action.get("tool_call_id")),
                    message=seq,
                    command=command or None,
                    at=at,
                )
            )

    def _is_result(self, value: dict[str, Any], said: str, extra: dict[str, Any]) -> bool:
        if not self._asked:
            return False
        named = "tool_call_id" in value or "call_id" in value
        return (
            named
            or "returncode" in extra
            or _CODE.search(said[:400]) is not None
            or "<output>" in said[:4000]
        )

    def _result(
        self, value: dict[str, Any], said: str, extra: dict[str, Any], source: dict[str, Any], at: str | None
    ) -> None:
        named = self._recording.asked(text(value.get("tool_call_id") or value.get("call_id")))
        call = named if named is not None and named in self._asked else self._asked[0]
        self._asked.remove(call)
        code, output = _CODE.search(said), _OUTPUT.search(said)
        raw = extra.get("raw_output")
        returncode = extra.get("returncode")
        if not isinstance(returncode, int):
            returncode = int(code[1]) if code else None
        failed = bool(extra.get("exception_info")) or (returncode is None and "timed out" in said[:400])
        self._recording.result(
            call,
            source,
            returned=raw if isinstance(raw, str) else output[1] if output else said,
            shown=said,
            exit_code=returncode,
            status=ERROR if failed else None,
            ended=at,
            truncated="<output_head>" in said,
        )
