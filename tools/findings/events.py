"""Evidence that is an event: is it in the transcript, does it say what is cited, and did something run?

A claim of what ran rests on the result of a call that ran something. The result itself must say how far
it went and how it ended: ``level`` and ``outcome`` in its output, as :class:`memory.vocabulary.Observed`
has them. Numbers are looked up in such a result, and nowhere else: a driver writes its own inputs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory.artifacts import ArtifactError, Artifacts
from memory.canonical import canonical, occurs, text_sha256
from memory.clock import hypothesis_id
from memory.home import Home
from memory.vocabulary import Capsule, Claim, Effect, EventEvidence, Level, Measurement
from tools.base import ToolError
from tools.environment.model import Environment
from tools.environment.store import open_environment
from transcripts.chain import LogError, link, parse
from transcripts.reader import records
from transcripts.redaction.secrets import redacted

_QUIET = {Effect.READS.value, Effect.WRITES_ENVIRONMENT.value}
"""Effects of tools that run nothing of what is investigated."""
_MACHINE = ("gpu", "driver", "gpu_count")
_TRIVIAL = 3
"""An excerpt of fewer letters and digits stands everywhere."""


@dataclass
class _Log:
    """What is needed of one transcript: cited events by number, calls by name, numbers of heads by hash."""

    data: dict[int, dict[str, Any]] = field(default_factory=dict)
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    count: int = 0
    wholes: dict[str, str] = field(default_factory=dict)
    """Outputs by sha256 that came along, instead of artifacts."""


def check_events(
    claim: Claim, home: Home, environment: Environment | None, capsule: Capsule | None = None
) -> dict[str, Any]:
    """Raise :class:`ToolError` unless the events that ``claim`` cites carry it; returns what these say of the
    machine on which it ran, by the names of :class:`memory.vocabulary.Scope`.

    ``environment``: the one in which it ran; None for a report. ``capsule``: what the claim brings along of
    transcripts that are not here.
    """
    logs = {}
    for name in {item.transcript for item in claim.event_evidence}:
        brought = capsule is not None and not _path(name, home).exists()
        logs[name] = _brought(name, claim, capsule) if brought and capsule else _read(name, claim, home)
    for item in claim.event_evidence:
        _check_cited(item, logs[item.transcript])
    if claim.report is not None and claim.report.url is not None:
        _check_account(claim.report.url, claim, logs)
    if claim.level in {Level.REPORT, Level.STATIC}:
        return {}
    reasons: dict[tuple[str, int], str] = {}
    for item in claim.event_evidence:
        reason = _why_not(claim, item, logs[item.transcript], home, environment)
        if reason:
            reasons[item.transcript, item.event] = f"{_name(item)} {reason}"
    bearing = [item for item in claim.event_evidence if (item.transcript, item.event) not in reasons]
    if not bearing:
        why = next(iter(reasons.values()))
        raise ToolError(f"a claim of level {claim.level.value} must cite a result that carries it: {why}")
    for measurement in claim.measurements:
        _check_measurement(measurement, bearing, logs, home)
    machine: dict[str, Any] = {}
    for item in bearing:
        said = _output(logs[item.transcript].data[item.event], home, logs[item.transcript])
        here = {name: said[name] for name in _MACHINE if said.get(name) is not None}
        if any(machine.setdefault(name, value) != value for name, value in here.items()):
            raise ToolError("the cited results ran on different machines; each is a finding of its own")
    return machine


def _read(name: str, claim: Claim, home: Home) -> _Log:
    """One pass over a transcript, its chain checked, up to the last event that is needed."""
    cited = {item.event for item in claim.event_evidence if item.transcript == name}
    heads = {item.head for item in claim.event_evidence if item.transcript == name}
    found = _Log()
    try:
        for record in records(_path(name, home)):
            found.count = record.seq + 1
            if record.data.get("kind") == "called":
                found.calls[str(record.data.get("call"))] = record.data
            if record.seq in cited:
                found.data[record.seq] = record.data
            if record.hash in heads:
                found.heads[record.hash] = record.seq
            if len(found.data) == len(cited) and len(found.heads) == len(heads):
                break
    except LogError as error:
        raise ToolError(str(error)) from None
    return found


def _brought(name: str, claim: Claim, capsule: Capsule) -> _Log:
    """The same of events that came with a claim: each line must be whole, and there."""
    found = _Log()
    for item in capsule.events:
        if item.transcript != name:
            continue
        line = item.line.encode("utf-8", "replace")
        chained, event = link(line), parse(line)
        if chained is None or not chained.intact or event is None:
            raise ToolError(f"an event of {name} in the capsule is damaged: it does not hash to what it says")
        data = event.get("data")
        if not isinstance(data, dict):
            raise ToolError(f"event {chained.seq} of {name} in the capsule is none")
        found.count = max(found.count, chained.seq + 1)
        found.data[chained.seq] = data
        found.heads[chained.hash] = chained.seq
        if data.get("kind") == "called":
            found.calls[str(data.get("call"))] = data
    found.wholes = dict(capsule.wholes)
    # Of the heads that are cited the capsule has none but those of its own events.
    for cited in claim.event_evidence:
        if cited.transcript == name:
            found.heads.setdefault(cited.head, cited.event)
    return found


def _check_cited(item: EventEvidence, log: _Log) -> None:
    what = _name(item)
    found = text_sha256(item.excerpt)
    if found != item.sha256:
        raise ToolError(f"the excerpt of {what} hashes to {found}, not to {item.sha256}")
    if redacted(item.excerpt) != item.excerpt:
        raise ToolError(f"the excerpt of {what} looks like a secret; cite the words around it")
    if sum(character.isalnum() for character in item.excerpt) < _TRIVIAL:
        raise ToolError(f"the excerpt of {what} says nothing; cite the words that matter")
    if item.event not in log.data:
        raise ToolError(f"there is no event {item.event} in {item.transcript}: it has {log.count}, from 0")
    text = _said(log.data[item.event])
    if not occurs(item.excerpt, text):
        raise ToolError(f"{what} does not contain {_short(item.excerpt)}")
    head = log.heads.get(item.head)
    if head is None:
        raise ToolError(f"head {item.head[:12]}… of {what} is the hash of none of its events")
    if head < item.event:
        raise ToolError(f"head {item.head[:12]}… of {what} is event {head}, before it")


def _check_account(url: str, claim: Claim, logs: dict[str, _Log]) -> None:
    """Where an account stands must be what a tool gave, not what a driver says."""
    given = [logs[item.transcript].data[item.event] for item in claim.event_evidence]
    if not any(data.get("kind") == "returned" and occurs(url, _said(data)) for data in given):
        raise ToolError(f"no cited result says {_short(url)}; cite the one that gave the account")


def _said(data: dict[str, Any]) -> str:
    """What an event says, without the words that every event of its kind has."""
    if data.get("kind") == "returned":
        return canonical([data.get("output"), data.get("error")])
    return canonical({key: value for key, value in data.items() if key != "kind"})


def _why_not(
    claim: Claim, item: EventEvidence, log: _Log, home: Home, environment: Environment | None
) -> str | None:
    """Why a cited event does not carry a claim of something that ran; None if it does."""
    data = log.data[item.event]
    if data.get("kind") != "returned":
        return f"is of kind {data.get('kind')}, not a result (`returned`)"
    if data.get("status") not in {"ok", "error"}:
        return f"was {data.get('status')}: nothing came of it"
    called = log.calls.get(str(data.get("call")))
    if called is None:
        return "answers a call that is not in the transcript"
    # What ran elsewhere is only read here; its result says so itself, and is of a level of its own.
    if called.get("effect") in _QUIET and claim.level is not Level.IMPORTED:
        return f"is a result of {called.get('tool')}, which runs nothing (effect {called.get('effect')})"
    about = hypothesis_id(claim.component, claim.backend, claim.arch)
    if called.get("hypothesis") not in {None, about}:
        return f"tested another hypothesis than {claim.component} {claim.backend} on {claim.arch}"
    ran_in = called.get("input", {}).get("environment")
    if isinstance(ran_in, str) and environment is not None:
        try:
            same = open_environment(home, ran_in).path == environment.path
        except ToolError:
            same = False
        if not same:
            return f"ran in environment {_short(ran_in)}, not in {environment.name}"
    output = _output(data, home, log)
    said = output if isinstance(output, dict) else {}
    scope = claim.scope.model_dump() if claim.scope is not None else {}
    machine = {name: scope[name] for name in _MACHINE if scope.get(name) is not None}
    for name, claimed in {"level": claim.level, "outcome": claim.outcome, **machine}.items():
        if said.get(name) != claimed:
            return f"says {name} {_short(json.dumps(said.get(name)))}, not {json.dumps(claimed)}"
    return None


def _output(data: dict[str, Any], home: Home, log: _Log) -> Any:
    """The whole output of a result: where the event holds it cut, the artifact that it names."""
    if not data.get("artifact"):
        return data.get("output")
    name = str(data["artifact"])
    try:
        if name in log.wholes and text_sha256(log.wholes[name]) == name:
            return json.loads(log.wholes[name])
        return json.loads(Artifacts(home.artifacts).get(name))
    except (ArtifactError, ValueError, RecursionError) as error:
        raise ToolError(f"the whole output of a cited result cannot be read: {error}") from None


def _check_measurement(
    item: Measurement, bearing: Iterable[EventEvidence], logs: dict[str, _Log], home: Home
) -> None:
    what = f"{item.metric} at {item.json_pointer or '(the whole)'} of event {item.event}"
    names = sorted({cited.transcript for cited in bearing if cited.event == item.event})
    if len(names) != 1:
        why = (
            "is in several cited transcripts"
            if names
            else "is none of the cited results that carry the claim"
        )
        raise ToolError(f"{what}: event {item.event} {why}; cite the one result that measured it")
    if not item.json_pointer.startswith("/output/"):
        raise ToolError(f"{what}: a JSON pointer into the result starts with /output/")
    output = _output(logs[names[0]].data[item.event], home, logs[names[0]])
    value = resolve_pointer({"output": output}, item.json_pointer, what)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError(f"{what} is {_short(json.dumps(value))}, not a number")
    # No tolerance: a number that was read is the number that is claimed, to the last digit.
    if value != item.value:
        raise ToolError(f"{what} is {json.dumps(value)[:40]}; the claim says {item.value!r}")


def resolve_pointer(document: Any, pointer: str, what: str) -> Any:
    """The value at an RFC 6901 pointer. Raises :class:`ToolError` naming the part that leads nowhere."""
    if pointer and not pointer.startswith("/"):
        raise ToolError(f"{what}: a JSON pointer starts with a slash, e.g. /output/tokens_per_second")
    value = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", key) and int(key) < len(value):
            value = value[int(key)]
        else:
            raise ToolError(f"{what}: there is no {_short(key)}")
    return value


def _path(transcript: str, home: Home) -> Path:
    """A transcript of this home: a claim cannot make the program read other files."""
    if not transcript:
        raise ToolError("the transcript of a cited event is not named")
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}", transcript):
        raise ToolError(f"{_short(transcript)} is no transcript's id; see: agent transcripts list")
    return home.transcripts / f"{transcript}.jsonl"


def _name(item: EventEvidence) -> str:
    return f"event {item.event} of transcript {item.transcript}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
