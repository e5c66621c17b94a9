"""What follows when words of a log are replaced: everything that is named by a hash of what it holds.

Events have their hashes, findings and messages their ids, artifacts their sha256. Where one of them changes,
whatever names it must name it anew, in the same log and in others, and may change its own name by that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from memory.artifacts import ArtifactError, Artifacts
from memory.canonical import canonical, occurs, sha256_of
from transcripts.redaction.credentials import MARKER
from transcripts.redaction.secrets import JSON, Redactor, true_again

Cut = Callable[[str], tuple[str, bytes | None]]
"""What a log shows of a result's JSON, and the bytes of the whole where that is not all."""

_NAME = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{64}|[0-9a-f]{16}|[0-9a-f]{8})(?![0-9A-Za-z])")


class NotYetError(Exception):
    """Something is named that has no new name so far."""


def names_in(text: str) -> set[str]:
    """Everything in ``text`` that can be a hash, or the id of a finding or of a hypothesis."""
    return set(_NAME.findall(text))


class Following:
    """Gives events and artifacts without secrets, and remembers their new names."""

    def __init__(
        self,
        redact: Redactor,
        artifacts: Artifacts,
        cut: Cut,
        names: dict[str, str],
        waiting: set[str],
        cited: set[tuple[str, int]],
    ) -> None:
        self._redact = redact
        self._artifacts = artifacts
        self._cut = cut
        self.names = names
        """Old name → new name."""
        self._waiting = waiting
        """Hashes of events that are still to be written."""
        self._cited = cited
        self._said: dict[tuple[str, int], str] = {}
        self._seen: set[str] = set()
        self.replaced: dict[str, str] = {}
        """Artifacts that held secrets, or names that changed → what stands for them now."""
        self._whole: dict[str, str] = {}

    def event(self, data: dict[str, Any]) -> dict[str, Any]:
        """An event's data as it is to be written. Raises :class:`NotYetError`: ask again when more is."""
        self._artifacts_in(data)
        new: dict[str, Any] = self._value(data)
        if data.get("kind") == "said":
            new = self._message(data, new)
        if data.get("kind") == "returned" and data.get("artifact") in self.replaced:
            new = self._cut_again(data, new)
        return new

    def written(self, transcript: str, seq: int, old_hash: str, new_hash: str, data: dict[str, Any]) -> None:
        """Event ``seq`` of a transcript has its new name."""
        self.names[old_hash] = new_hash
        if (transcript, seq) in self._cited:
            self._said[transcript, seq] = canonical(data)

    def _artifacts_in(self, value: JSON) -> None:
        """Put the artifacts anew that ``value`` names and whose words change."""
        for name in sorted(names_in(canonical(value)) - self._seen):
            document = document_of(self._artifacts, name)
            if document is not None:
                self._seen.add(name)
                try:
                    self._artifact(name, document)
                except NotYetError:
                    self._seen.remove(name)
                    raise
            else:
                self._seen.add(name)

    def _artifact(self, name: str, document: JSON) -> None:
        self._artifacts_in(document)
        new = self._value(document)
        if new is not document:
            text = new if isinstance(document, Text) else self._redact.without(canonical(new))
            self.names[name] = self.replaced[name] = self._artifacts.put(text.encode())

    def _value(self, old: JSON) -> JSON:
        new = self._redact.without(old)
        while True:
            named = each_text(self._quoted(new), self._named)
            fresh = true_again(old, named, self.names.__setitem__)
            if fresh == new:
                return new
            new = fresh

    def _named(self, text: str) -> str:
        return _NAME.sub(self._new_name, text) if len(text) >= 8 else text

    def _new_name(self, match: re.Match[str]) -> str:
        if match[0] not in self.names and match[0] in self._waiting:
            raise NotYetError
        return self.names.get(match[0], match[0])

    def _quoted(self, value: JSON) -> JSON:
        """Excerpts that cite a part of a secret cite what stands in its place."""
        if not self._said or not isinstance(value, dict | list):
            return value
        if isinstance(value, list):
            items = [self._quoted(item) for item in value]
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        new = {key: self._quoted(item) for key, item in value.items()}
        excerpt, place = value.get("excerpt"), (str(value.get("transcript")), value.get("event"))
        if isinstance(excerpt, str) and isinstance(place[1], int):
            text = self._said.get((place[0], place[1]), excerpt)
            if not occurs(excerpt, text) and (marker := MARKER.search(text)):
                new["excerpt"] = marker[0]
        return new if any(new[key] is not value[key] for key in value) else value

    def _message(self, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        """A message's id is over what it says and the message before it."""
        before, after = (self._content(one) for one in (old, new))
        if sha256_of({"message": before, "parent": old.get("parent")}) != old.get("id"):
            return new
        name = sha256_of({"message": after, "parent": new.get("parent")})
        self.names[old["id"]] = name
        return {**new, "id": name}

    def _content(self, said: dict[str, Any]) -> JSON:
        return said.get("message") or document_of(self._artifacts, str(said.get("artifact")))

    def _cut_again(self, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        """A result that was cut shows the beginning and the end of its new whole."""
        before, after = (self._artifacts.get(one["artifact"]).decode() for one in (old, new))
        if self._cut(before)[0] != old.get("output"):
            return {**new, "artifact_bytes": len(after.encode())}
        shown, whole = self._cut(after)
        if whole is None:
            return {**new, "output": json.loads(after), "artifact": None, "artifact_bytes": None}
        return {**new, "output": shown, "artifact_bytes": len(whole)}


class Text(str):
    """An artifact that is text, not JSON."""


def document_of(artifacts: Artifacts, name: str) -> JSON:
    """What an artifact holds: JSON, or :class:`Text`; None for one that is not here, is damaged or binary."""
    if len(name) != 64 or name not in artifacts:
        return None
    try:
        text = artifacts.get(name).decode()
    except (ArtifactError, UnicodeDecodeError):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return Text(text)


def each_text(value: JSON, change: Callable[[str], str]) -> JSON:
    """``value`` with every text in it changed, names of fields too; the same object where nothing is."""
    if isinstance(value, str):
        new = change(value)
        return value if new == value else new
    if isinstance(value, list | tuple):
        items = [each_text(item, change) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        fields = {each_text(key, change): each_text(item, change) for key, item in value.items()}
        pairs = zip(fields.items(), value.items(), strict=True)
        return fields if any(a is not c or b is not d for (a, b), (c, d) in pairs) else value
    return value
