"""Shell commands as typed calls: what a command read, searched, installed, launched or measured.

Nothing is executed. :func:`parse_command` is the way in.
"""

from __future__ import annotations

from transcripts.commands.model import Parsed as Parsed, Step as Step


def parse_command(command: str) -> Parsed:
    """What ``command`` does. Never raises: what is no sound shell command is ``other``, and mutates."""
    from transcripts.commands.parse import parse

    return parse(command)
