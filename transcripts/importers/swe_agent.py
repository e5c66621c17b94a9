"""SWE-agent: ``.traj`` documents. ``history`` is what the model saw; ``trajectory`` has what each action
gave.

A demonstration may hold one of the two only. Each step repeats the whole prompt (``query``), which is not
kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from transcripts.imported.recording import Recording
from transcripts.importers.sink import Sink
from transcripts.importers.source import Record, Source
from transcripts.importers.values import arguments, items, mapping, name as name_, spoken, text

name = "swe_agent"

_STEP = {"action", "observation"}
_TURN = {"message_type", "agent", "is_demo", "thought"}


def recognises(source: Source) -> bool:
    if source.shape != "document" or not source.first:
        return False
    found = mapping(source.first[0])
    steps, turns = items(found.get("trajectory")), items(found.get("history"))
    return any(mapping(one).keys() >= _STEP for one in steps) or any(
        "role" in mapping(one) and _TURN & mapping(one).keys() for one in turns
    )


def read(source: Source, sink: Sink) -> None:
    recording = sink.session(name, None, "trajectory")
    reading = _Reading(recording)
    # Either list may come first; what the other needs of the steps is short.
    for record in source.members("trajectory", "history"):
        if record.problem is not None:
            recording.skip(record.problem)
        elif record.key == "trajectory":
            recording.counts["records"] += 1
            reading.step(record)
        elif record.key == "info":
            reading.info(mapping(record.value))
        elif record.key == "environment":
            recording.about(title=name_(record.value))
    turns = 0
    for record in source.members("trajectory", "history"):
        if record.key == "history":
            turns += 1
            recording.counts["records"] += 1
            reading.turn(record)
    reading.finish(had_history=turns > 0)
    sink.close(recording)


@dataclass
class _Step:
    action: str
    response: str
    observation: str
    state: dict[str, Any]
    seconds: Any
    source: dict[str, Any]


class _Reading:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps: deque[_Step] = deque()
        self._asked: deque[tuple[int, _Step | None]] = deque()
        """Calls without an observation so far."""

    def step(self, record: Record) -> None:
        value = mapping(record.value)
        state = value.get("state")
        if isinstance(state, str):
            state, _ = arguments(state)
        self._steps.append(
            _Step(
                text(value.get("action")),
                text(value.get("response")) or text(value.get("thought")),
                text(value.get("observation")),
                mapping(state),
                value.get("execution_time"),
                record.source,
            )
        )

    def info(self, facts: dict[str, Any]) -> None:
        self._recording.about(version=name_(facts.get("swe_agent_version")))

    def turn(self, record: Record) -> None:
        value, recording = mapping(record.value), self._recording
        role = text(value.get("role"))
        if not role:
            recording.other("history", record.value, record.source)
            return
        content, attached = spoken(value.get("content"))
        demonstration = value.get("is_demo") is True
        notes = ["demonstration"] if demonstration else []
        if role == "assistant":
            seq = recording.message(role, content, record.source, notes=notes, attachments=attached)
            if not demonstration:
                self._call(value, seq, record.source)
        elif self._asked and not demonstration and role in {"tool", "user"}:
            recording.message("tool", "", record.source, notes=notes, attachments=attached)
            ids = [text(one) for one in items(value.get("tool_call_ids"))]
            self._observed(content, record.source, ids)
        else:
            recording.message(role, content, record.source, notes=notes, attachments=attached)

    def finish(self, *, had_history: bool) -> None:
        while self._asked:
            # The last observation ends the run: no model saw it.
            self._observed(None, {}, [])
        for step in self._steps:
            if not had_history and step.response:
                self._recording.message("assistant", step.response, step.source)
            self._alone(step)

    def _alone(self, step: _Step) -> None:
        """A step of which no message tells."""
        if step.action.strip():
            seq = self._begin(step, "", None, None, step.source)
            self._recording.result(seq, step.source, returned=step.observation, shown="")

    def _call(self, value: dict[str, Any], message: int, source: dict[str, Any]) -> None:
        action = text(value.get("action"))
        calls = items(value.get("tool_calls"))
        if not action.strip() and not calls:
            return
        step = self._step_of(action)
        # The whole of an action is one step, however many calls a model made of it.
        for call in calls or [{}]:
            function = mapping(mapping(call).get("function"))
            given, _ = arguments(function.get("arguments"))
            seq = self._begin(
                step or _Step(action, "", "", {}, None, source),
                text(function.get("name")),
                given,
                name_(mapping(call).get("id")),
                source,
                message,
            )
            self._asked.append((seq, step))

    def _step_of(self, action: str) -> _Step | None:
        """The next step with that action; steps before it are those that history does not hold."""
        place = next((n for n, step in enumerate(self._steps) if step.action.strip() == action.strip()), None)
        if place is None:
            return None
        for _ in range(place):
            self._alone(self._steps.popleft())
        return self._steps.popleft()

    def _begin(
        self,
        step: _Step,
        tool: str,
        given: Any,
        id_: str | None,
        source: dict[str, Any],
        message: int | None = None,
    ) -> int:
        return self._recording.call(
            tool or "action",
            given or {"action": step.action},
            source,
            id_=id_,
            message=message,
            command=step.action.strip() or None,
            cwd=name_(step.state.get("working_dir")),
        )

    def _observed(self, shown: str | None, source: dict[str, Any], ids: list[str]) -> None:
        named = [self._recording.asked(one) for one in ids]
        place = next((n for n, (seq, _) in enumerate(self._asked) if seq in named), 0)
        self._asked.rotate(-place)
        seq, step = self._asked.popleft()
        self._asked.rotate(place)
        returned = step.observation if step is not None else shown
        if returned is None and shown is None:
            return
        self._recording.result(
            seq,
            source or (step.source if step else {}),
            returned=returned,
            shown=shown if shown is not None else returned,
        )
