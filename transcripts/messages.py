"""Conversations with a model, each message written once.

A message's id is a hash over itself and the message before it, so the last id names a whole conversation:
a request costs one line however long the conversation is, and two that share a beginning share its lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memory.canonical import canonical, sha256_of
from transcripts.events import Said
from transcripts.redaction.secrets import JSON, redacted

INLINE_LIMIT = 32_000
"""Characters of a message's JSON that stand in the log; a longer one is an artifact."""


def message_id(message: Mapping[str, Any], parent: str | None) -> str:
    """sha256 of the message in its place in a conversation."""
    return sha256_of({"message": message, "parent": parent})


class Messages:
    """What was said in one transcript.

    ``record`` appends an event; ``keep`` puts an artifact and ``whole`` gets it.
    """

    def __init__(
        self,
        record: Callable[[Said], object],
        keep: Callable[[bytes], str],
        whole: Callable[[str], bytes],
        known: Iterable[Said] = (),
        redact: Callable[[JSON], JSON] = redacted,
    ) -> None:
        self._record, self._keep, self._whole, self._redact = record, keep, whole, redact
        self._said = {one.id: one for one in known}

    def say(self, message: Mapping[str, Any], parent: str | None) -> str:
        """The id of ``message`` after ``parent`` (None: it comes first); recorded where it is new.

        Secrets are replaced first: the id is over what is kept.
        """
        message = self._redact(dict(message))
        name = message_id(message, parent)
        if name not in self._said:
            text = canonical(message)
            if len(text) <= INLINE_LIMIT:
                said = Said(id=name, parent=parent, message=message)
            else:
                said = Said(id=name, parent=parent, artifact=self._keep(text.encode()))
            self._record(said)
            self._said[name] = said
        return name

    def say_all(self, messages: Iterable[Mapping[str, Any]], parent: str | None = None) -> str | None:
        """Messages one after the other; the id of the last."""
        for message in messages:
            parent = self.say(message, parent)
        return parent

    def conversation(self, head: str | None) -> list[dict[str, Any]]:
        """The messages up to ``head``, oldest first. Raises ``KeyError`` for one that was not said here."""
        return [self._message(said) for said in reversed(list(self._back(head)))]

    def _back(self, head: str | None) -> Iterator[Said]:
        while head is not None:
            said = self._said[head]
            yield said
            head = said.parent

    def _message(self, said: Said) -> dict[str, Any]:
        if said.message is not None:
            return said.message
        assert said.artifact is not None, "a message stands in the log or is an artifact"
        found: dict[str, Any] = json.loads(self._whole(said.artifact))
        return found
