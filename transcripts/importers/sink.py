"""Where importers tell what they read: a recording for each session, and what became of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transcripts.imported.recording import Kept, Recording


class Sink:
    def __init__(
        self, folder: Path, source: str, clean: Callable[[Any], Any], tell: Callable[[str], None]
    ) -> None:
        """``clean`` takes out of a value what must not be written down; ``tell`` is told what went wrong."""
        self.tell = tell
        self.done: list[Kept] = []
        self._folder = folder
        self._source = source
        self._clean = clean
        self._open: list[Recording] = []

    def session(self, format_: str, id_: str | None, layout: str) -> Recording:
        """Begin a session; None where it has no id of its own. Many can be open side by side."""
        recording = Recording(
            self._folder, format_, id_, layout=layout, source=self._source, clean=self._clean
        )
        self._open.append(recording)
        return recording

    def close(self, recording: Recording) -> None:
        """A session is read to its end. One of which nothing was seen is dropped."""
        self._open.remove(recording)
        if not recording.counts["messages"] and not recording.counts["tool_calls"]:
            recording.drop()
            return
        self.done.append(recording.close())

    def abandon(self) -> None:
        """Leave nothing of what was not read to its end."""
        while self._open:
            self._open.pop().drop()
