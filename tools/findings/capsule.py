"""What a finding cites, gathered to travel with it: events with the calls they answer, and cited lines.

A finding of another machine has the capsule with which it came. What cannot be had is left out: then the
finding arrives as a report, or is looked up where it arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memory.artifacts import ArtifactError, Artifacts
from memory.home import Home
from memory.names import distribution
from memory.vocabulary import Capsule, CapsuleEvent, Claim, Finding, Level
from tools.environment.store import list_environments
from tools.source.tree import SourceError, SourceTree, span_sha256
from transcripts.chain import LogError, encode
from transcripts.reader import Record, records

TRACE = "trace_viability"
TRACE_FIELDS = frozenset(
    {
        "component",
        "backend",
        "arch",
        "engine",
        "model_classes",
        "quantisation",
        "scenario",
        "checkpoint",
        "tp",
    }
)
"""What of its input says how a cell is judged."""
WHOLE_LIMIT = 1 << 20
"""Bytes of a result that is brought along whole."""


class Capsules:
    """Capsules of many findings; every transcript is read once for all of them."""

    def __init__(self, home: Home, sightings: Iterable[tuple[str, int]], claims: Sequence[Claim]) -> None:
        """``sightings``: transcript and event that recorded a finding, of all that may be asked for."""
        self._home = home
        self._trees: dict[tuple[str, str], SourceTree] = {}
        for environment in list_environments(home):
            for name, version in environment.packages.items():
                self._trees.setdefault((distribution(name), version), environment.tree())
        wanted: dict[str, set[int]] = {}
        for claim in claims:
            for item in claim.event_evidence:
                wanted.setdefault(item.transcript, set()).add(item.event)
        recorded: dict[str, set[int]] = {}
        for transcript, event in sightings:
            recorded.setdefault(transcript, set()).add(event)
        self._events: dict[tuple[str, int], tuple[Record, ...]] = {}
        self._brought: dict[str, Capsule] = {}
        self._judged: dict[tuple[str, int], dict[str, Any]] = {}
        for transcript in sorted({*wanted, *recorded}):
            self._read(transcript, wanted.get(transcript, set()), recorded.get(transcript, set()))

    def of(self, finding: Finding) -> Capsule | None:
        """None where there is nothing to bring along."""
        if finding.id in self._brought:
            return self._brought[finding.id]
        events: dict[tuple[str, int], CapsuleEvent] = {}
        wholes: dict[str, str] = {}
        for item in finding.claim.event_evidence:
            for record in self._events.get((item.transcript, item.event), ()):
                events[item.transcript, record.seq] = CapsuleEvent(
                    transcript=item.transcript, line=_line(record)
                )
                if name := record.data.get("artifact"):
                    wholes |= self._whole(str(name))
        spans = {item.sha256: text for item in finding.claim.source_evidence for text in self._span(item)}
        judged = self._judged.get((finding.transcript, finding.event))
        if not events and not spans and judged is None:
            return None
        chosen = tuple(events[key] for key in sorted(events))
        return Capsule(events=chosen, spans=spans, wholes=wholes, judged=judged)

    def _read(self, transcript: str, wanted: set[int], recorded: set[int]) -> None:
        path = self._home.transcripts / f"{transcript}.jsonl"
        if not path.is_file():
            return
        calls: dict[str, Record] = {}
        traces: dict[tuple[Any, ...], dict[str, Any]] = {}
        last = max([*wanted, *recorded], default=-1)
        with suppress(LogError):
            for record in records(path):
                if record.data.get("kind") == "called":
                    calls[str(record.data.get("call"))] = record
                    if record.data.get("tool") == TRACE:
                        traces[_cell(record.data["input"])] = record.data["input"]
                if record.seq in wanted:
                    called = calls.get(str(record.data.get("call")))
                    both = (called, record) if called and called.seq != record.seq else (record,)
                    self._events[transcript, record.seq] = both
                if record.seq in recorded and isinstance(brought := record.data.get("capsule"), dict):
                    with suppress(ValidationError):
                        found = Finding.model_validate(record.data["finding"])
                        self._brought[found.id] = Capsule.model_validate(brought)
                elif record.seq in recorded:
                    self._asked(transcript, record, traces)
                if record.seq >= last:
                    break

    def _asked(
        self, transcript: str, record: Record, traces: Mapping[tuple[Any, ...], dict[str, Any]]
    ) -> None:
        """Note what the analyser had been asked of what was found, where it was."""
        claim = (record.data.get("finding") or {}).get("claim") or {}
        given = traces.get(_cell(claim)) if claim.get("level") == Level.STATIC else None
        if given is not None:
            # The environment's name is this machine's, and may be a path.
            fields = TRACE_FIELDS & given.keys()
            self._judged[transcript, record.seq] = {name: given[name] for name in sorted(fields)}

    def _span(self, item: Any) -> Iterator[str]:
        tree = self._trees.get((distribution(item.package), item.version))
        if tree is not None:
            with suppress(SourceError):
                lines = tree.lines(item.file)[item.line - 1 : item.end_line]
                if span_sha256(lines) == item.sha256:
                    yield "\n".join(lines)

    def _whole(self, name: str) -> dict[str, str]:
        artifacts = Artifacts(self._home.artifacts)
        with suppress(ArtifactError, UnicodeDecodeError, OSError):
            if artifacts.path(name).stat().st_size <= WHOLE_LIMIT:
                return {name: artifacts.get(name).decode()}
        return {}


def of_folder(transcripts: Path, claims: Sequence[Claim]) -> Capsules:
    """Capsules out of transcripts in a folder that is no home of this program's."""
    return Capsules(Home(transcripts.parent), (), claims)


def _cell(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return one.get("component"), one.get("backend"), one.get("arch")


def _line(record: Record) -> str:
    line, _ = encode(record.seq, record.at, record.data, record.prev)
    return line.decode().rstrip("\n")
