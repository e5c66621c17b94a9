"""What is to be taken out of a log, and what rests on that: found out before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory.artifacts import Artifacts
from memory.canonical import canonical
from transcripts.chain import LogError
from transcripts.log import verify
from transcripts.reader import read_raw, records, torn_bytes
from transcripts.redaction.follow import document_of, names_in
from transcripts.redaction.secrets import JSON, Redactor, derived_id


class DamagedError(LogError):
    """A log that is not as it was written is not written anew."""

    exit_code = 1


@dataclass
class Surveyed:
    """A log as it stands. Hashes and ids are kept, not words."""

    path: Path
    events: int = 0
    strings: int = 0
    """Texts with a secret, in its events and in the artifacts that they name."""
    touched: int = 0
    """Events that have one, or name such an artifact."""
    torn: int = 0
    """Bytes of a torn last line: no event, and not written again."""
    hashes: set[str] = field(default_factory=set)
    claims: dict[str, set[str]] = field(default_factory=dict)
    """Id of a finding → names in its claim; with itself among them where its words change."""
    cited: set[tuple[str, int]] = field(default_factory=set)
    """Transcripts and events that evidence names."""

    def unsteady(self, hashes: set[str]) -> set[str]:
        """Findings that get another id where events with these ``hashes`` get others."""
        return {name for name, names in self.claims.items() if name in names or names & hashes}


class Surveyor:
    """Looks through logs and the artifacts that they name, each artifact once."""

    def __init__(self, redact: Redactor, artifacts: Artifacts) -> None:
        self._redact = redact
        self._artifacts = artifacts
        self._known: dict[str, tuple[int, set[str]]] = {}

    def survey(self, path: Path) -> Surveyed:
        """Raises :class:`LogError` where the log is not sound."""
        found = Surveyed(path, torn=torn_bytes(path))
        counted: set[str] = set()
        for record in records(path):
            strings = replaced_strings(record.data, self._redact.without(record.data))
            names = names_in(canonical(record.data))
            held = {name: count for name in names if (count := self._artifact(name)[0])}
            found.events += 1
            found.hashes.add(record.hash)
            found.touched += bool(strings or held)
            found.strings += strings + sum(count for name, count in held.items() if name not in counted)
            counted |= held.keys()
            self._claims(record.data, found)
        return found

    def names(self, path: Path) -> set[str]:
        """Everything that a log or one of its artifacts names by a hash or an id."""
        found: set[str] = set()
        for event in read_raw(path):
            for name in names_in(canonical(event["data"])) - found:
                found.add(name)
                found |= self._artifact(name)[1]
        return found

    def _artifact(self, name: str) -> tuple[int, set[str]]:
        """Texts with a secret in an artifact and in those that it names, and all that it names."""
        if len(name) != 64:
            return 0, set()
        if name not in self._known:
            self._known[name] = (0, set())  # while it is looked at
            document = document_of(self._artifacts, name)
            strings = replaced_strings(document, self._redact.without(document))
            names = names_in(canonical(document))
            for nested in sorted(names):
                more, further = self._artifact(nested)
                strings, names = strings + more, names | further
            self._known[name] = (strings, names)
        return self._known[name]

    def _claims(self, data: JSON, found: Surveyed) -> None:
        for value in dicts_in(data):
            if "claim" in value and derived_id(value) == value.get("id"):
                names = names_in(canonical(value["claim"]))
                changes = self._redact.without(value["claim"]) is not value["claim"]
                found.claims[value["id"]] = names | ({value["id"]} if changes else set())
            if "excerpt" in value and isinstance(value.get("event"), int):
                found.cited.add((str(value.get("transcript")), value["event"]))


def require_sound(path: Path) -> None:
    """Raise unless the log at ``path`` is whole; a torn last line is no event."""
    wrong = [problem for problem in verify(path) if "line is torn" not in problem.message]
    if wrong:
        raise DamagedError(
            f"{path}: {wrong[0]}; a damaged log is not written anew, see: agent replay {path} --verify"
        )


def dicts_in(value: JSON) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from dicts_in(item)


def replaced_strings(old: JSON, new: JSON) -> int:
    """How many texts of ``old`` are others in ``new``, names of fields among them."""
    if new is old:
        return 0
    if isinstance(old, dict):
        names = sum(1 for before, after in zip(old, new, strict=True) if before != after)
        return names + sum(map(replaced_strings, old.values(), new.values()))
    if isinstance(old, list):
        return sum(map(replaced_strings, old, new))
    return 0 if new == old else 1
