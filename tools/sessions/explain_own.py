"""An event of one of our own transcripts, explained: what it served and assumed, and whether that was upheld.

One pass over the log; what is kept of each event is a few words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tools.sessions.explaining import Explanation, Statement, counted, listed, quoted

_FILES = re.compile(r'"file": ?"([^"\\]{1,300})"')
_MOST = 5
_ENDS = {
    "confirmed": "upheld by event {}: {}",
    "refuted": "refuted by event {}: {}",
    "inconclusive": "left open by event {}: {}",
    "predicted": "expected by event {} from reading; nothing that ran upholds or refutes it: {}",
    "open": "open since event {}; nothing decides it: {}",
}


@dataclass
class _Call:
    event: int
    tool: str
    why: str
    hypothesis: str | None
    subject: tuple[str, str]
    files: set[str]
    given: dict[str, Any] = field(default_factory=dict)
    """The scenario that it was asked under."""
    taken: dict[str, Any] = field(default_factory=dict)
    """What its result says that it took besides."""
    result: int | None = None
    came_out: str = "not returned"


@dataclass
class _Log:
    """What is needed of the whole transcript."""

    name: str = ""
    count: int = 0
    question: str = ""
    understood: tuple[int, dict[str, Any]] | None = None
    calls: dict[str, _Call] = field(default_factory=dict)
    of_event: dict[int, str] = field(default_factory=dict)
    """Event → the call that it is of."""
    hypotheses: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    found: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    others: dict[int, str] = field(default_factory=dict)
    """Event that is of no call → what it is."""


def explain_own(name: str, events: Iterable[dict[str, Any]], number: int) -> Explanation:
    """Explain event ``number`` of the transcript whose ``events`` are given as JSON, in order.

    Raises ``LookupError`` where there is no such event.
    """
    log = _Log(name)
    for event in events:
        _take(log, event["seq"], event["data"])
        log.count = event["seq"] + 1
    if not 0 <= number < log.count:
        raise LookupError(f"there is no event {number} in {name}: it has {log.count}, from 0")
    step = _Step(log, number)
    return Explanation(name, "assay", number, step.events, tuple(step.statements()))


def _take(log: _Log, seq: int, data: dict[str, Any]) -> None:
    match data["kind"]:
        case "opened":
            log.question = data["question"]
        case "understood":
            log.understood = (seq, data["target"])
        case "called":
            given = data["input"]
            subject = (str(given.get("component") or ""), str(given.get("backend") or ""))
            call = _Call(seq, data["tool"], data["why"], data["hypothesis"], subject, set())
            call.given = given.get("scenario") if isinstance(given.get("scenario"), dict) else {}
            call.files = {str(given[key]) for key in ("file", "path") if given.get(key)}
            log.calls[data["call"]] = call
            log.of_event[seq] = data["call"]
        case "returned" if data["call"] in log.calls:
            call = log.calls[data["call"]]
            call.result, call.came_out = seq, _came_out(data)
            scenario = data["output"].get("scenario") if isinstance(data["output"], dict) else None
            if isinstance(scenario, dict):
                call.taken = {key: value for key, value in scenario.items() if key not in call.given}
            call.files |= set(_FILES.findall(json.dumps(data["output"])))
            log.of_event[seq] = data["call"]
        case "hypothesis":
            log.hypotheses.setdefault(data["id"], []).append((seq, data))
        case "found":
            log.found.append((seq, data["finding"]["claim"]))
    if seq not in log.of_event:
        log.others[seq] = data["kind"]


def _came_out(data: dict[str, Any]) -> str:
    output: dict[str, Any] = data["output"] if isinstance(data["output"], dict) else {}
    inner = output.get("row")
    row: dict[str, Any] = inner if isinstance(inner, dict) else output
    said = [str(row[key]).replace("_", " ") for key in ("verdict", "outcome") if row.get(key)]
    return ", ".join([data["status"], *said, *([str(data["error"])] if data["error"] else [])])


class _Step:
    def __init__(self, log: _Log, number: int) -> None:
        self._log = log
        self._number = number
        self._call = log.calls.get(log.of_event.get(number, ""))
        self._changed = next(
            ((seq, data) for changes in log.hypotheses.values() for seq, data in changes if seq == number),
            None,
        )
        own = [number]
        if self._call is not None:
            own += [self._call.event, *([] if self._call.result is None else [self._call.result])]
        if self._changed is not None:
            own += self._changed[1]["causes"]
        self.events = tuple(sorted(set(own)))
        self._files = set() if self._call is None else self._call.files
        self._hypothesis = self._call.hypothesis if self._call else None
        if self._changed is not None:
            self._hypothesis = self._changed[1]["id"]

    def statements(self) -> Iterator[Statement]:
        yield from self._did()
        yield Statement("request", f"the question was {quoted(self._log.question, 300)}", (0,))
        yield from self._assumed()
        yield from self._supposed()
        yield from self._same_files()
        yield from self._same_backend()

    def _did(self) -> Iterator[Statement]:
        if self._call is not None:
            subject = " ".join(filter(None, self._call.subject))
            about = [f"for {subject}"] if subject else []
            why = [f"({self._call.why})"] if self._call.why else []
            text = " ".join([f"event {self._call.event} called {self._call.tool}", *about, *why])
            yield Statement("did", f"{text}: {self._call.came_out}", self.events)
        elif self._changed is not None:
            _, data = self._changed
            text = f"{_subject(data)} became {data['state']}: {data['because']}"
            yield Statement("did", text, self.events)
        else:
            yield Statement("did", f"event {self._number} is `{self._log.others[self._number]}`", self.events)

    def _assumed(self) -> Iterator[Statement]:
        if self._log.understood is None:
            return
        seq, target = self._log.understood
        for text in target["assumed"]:
            said = f"assumed since event {seq}, and nothing later takes it back: {text}"
            yield Statement("assumption", said, (seq,))
        if self._call is not None and self._call.result is not None and self._call.taken:
            taken = ", ".join(f"{key} {value}" for key, value in sorted(self._call.taken.items()))
            text = f"event {self._call.result} took by default: {taken}"
            yield Statement("assumption", text, (self._call.event, self._call.result))

    def _supposed(self) -> Iterator[Statement]:
        """The hypothesis that it tests, under which conditions, and what became of it."""
        changes = self._log.hypotheses.get(self._hypothesis or "", [])
        if not changes:
            return
        opened, first = changes[0]
        text = f"{_subject(first)} was opened in event {opened}: {first['because']}"
        yield Statement("hypothesis", text, (opened,), first["backend"])
        last, data = changes[-1]
        for condition in (data["row"] or {}).get("conditions", ()):
            fact = f"{condition['fact']} {condition['op']} {condition['value']}"
            yield Statement(
                "assumption", f"since event {last}: {fact}, which reading does not decide", (last,)
            )
        ended = _ENDS[data["state"]].format(last, data["because"])
        yield Statement("later", f"{_subject(first)}: {ended}", (last, *data["causes"]), first["backend"])

    def _same_files(self) -> Iterator[Statement]:
        before: dict[str, list[int]] = {}
        after: dict[str, list[int]] = {}
        for call in self._log.calls.values():
            if call is not self._call and call.result is not None:
                for name in call.files & self._files:
                    (before if call.result < self.events[0] else after).setdefault(name, []).append(
                        call.result
                    )
        for name, events in sorted(before.items()):
            text = f"{name} had been read by {counted(len(events), 'call')}: {listed(events)}"
            yield Statement("before", text, tuple(events[:_MOST]), name)
        if new := sorted(self._files - set(before)):
            text = f"read here for the first time: {', '.join(new)}"
            yield Statement("first", text, (self.events[-1],))
        for name, events in sorted(after.items()):
            text = f"{name} was read again by {counted(len(events), 'call')}: {listed(events)}"
            yield Statement("later", text, tuple(events[:_MOST]), name)

    def _same_backend(self) -> Iterator[Statement]:
        """Later calls about the same backend, and the findings that were made of it."""
        backend = self._call.subject[1] if self._call else ""
        if self._changed is not None:
            backend = self._changed[1]["backend"]
        if not backend:
            return
        later = [
            call
            for call in self._log.calls.values()
            if call is not self._call and call.subject[1] == backend and call.event > self.events[-1]
        ]
        for call in later[:_MOST]:
            text = (
                f"event {call.event} called {call.tool} for {' '.join(call.subject).strip()}: {call.came_out}"
            )
            places = (call.event,) if call.result is None else (call.event, call.result)
            yield Statement("later", text, places, backend)
        for seq, claim in self._log.found:
            if claim["backend"] == backend and seq > self.events[-1]:
                says = " ".join(
                    str(claim[key]).replace("_", " ") for key in ("verdict", "outcome") if claim[key]
                )
                text = (
                    f"event {seq} keeps the finding {claim['component']} {backend} on {claim['arch']}: {says}"
                )
                yield Statement("later", text, (seq,), backend)


def _subject(data: dict[str, Any]) -> str:
    return f"{data['component']} {data['backend']} on {data['arch']}"
