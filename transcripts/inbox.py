"""What a person asks of an investigation that runs, left beside its transcript for whoever writes that.

Whoever asks only appends a line, and whoever runs only reads: nobody waits for a lock, and no history is
changed. A message counts once it is an event of the transcript, and once only, whoever goes on with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator
from pathlib import Path

from pydantic import ValidationError

from transcripts.events import Steered

MOST = 1 << 20
"""Bytes of an inbox that are read."""


def inbox_of(transcript: Path) -> Path:
    """Where messages to the investigation in ``transcript`` are left."""
    return transcript.with_suffix(".inbox")


def leave(transcript: Path, message: Steered) -> None:
    """Leave a message. Raises ``OSError``."""
    line = json.dumps(message.model_dump(mode="json"), sort_keys=True) + "\n"
    handle = os.open(inbox_of(transcript), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A line that was torn by whoever wrote before must not take this one with it.
        os.write(handle, f"\n{line}".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


class Inbox:
    """The messages to one investigation, as they come in."""

    def __init__(self, transcript: Path) -> None:
        self._path = inbox_of(transcript)
        self._read = 0

    def __call__(self, heeded: Container[str]) -> Iterator[Steered]:
        """Those that are new, but not those whose ids are ``heeded``. What is no message is passed over, and
        so is what cannot be read: nobody who only listens stops for it."""
        try:
            if self._path.stat().st_size <= self._read:
                return
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read(MOST - self._read)
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                message = Steered.model_validate_json(line)
            except (ValidationError, RecursionError):
                continue
            if message.message not in heeded:
                yield message
