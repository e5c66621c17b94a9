"""A command's text → :class:`Parsed`."""

from __future__ import annotations

from memory.terms import CallKind
from transcripts.commands.model import Parsed


def parse(command: str) -> Parsed:
    """See :func:`transcripts.commands.parse_command`."""
    return Parsed(CallKind.OTHER, {}, [], mutates=True)
