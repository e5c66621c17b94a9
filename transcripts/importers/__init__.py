"""Importers of other agents' sessions: one module a format, found here or by the entry points group
``assay.importers``.

An importer has a ``name`` and two functions (:class:`Importer`). It is chosen by what a source holds, never
by what it is called, and tells what it reads to the :class:`~transcripts.importers.sink.Sink` that it is
given, as it reads it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

from transcripts.importers.sink import Sink
from transcripts.importers.source import ImportingError, Source

__all__ = ["Importer", "ImportingError", "Sink", "Source", "importers"]

OWN = ("opencode", "claude_code", "codex", "mini_swe_agent", "swe_agent", "openai")
"""In the order in which they are asked: the particular before the general."""
GROUP = "assay.importers"


class Importer(Protocol):
    """A module, or an object, with these names."""

    name: str

    def recognises(self, source: Source) -> bool:
        """Whether ``source`` is of this format, told from its beginning. Never raises."""

    def read(self, source: Source, sink: Sink) -> None:
        """Tell the sink what is in it, without holding all of it. Raises :class:`ImportingError` where
        nothing can be read; what is damaged is counted and passed over."""


def importers() -> list[Importer]:
    """Those of other distributions first, by name, so that a format can be taken over."""
    found: list[Importer] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found.append(point.load())
        except Exception as error:
            problem = f"the importer {point.name} ({point.value}) cannot be loaded: {error}"
            raise ImportingError(f"{problem}; mend or uninstall its package") from error
    own: list[Importer] = [import_module(f"{__name__}.{name}") for name in OWN]
    return [*found, *own]
