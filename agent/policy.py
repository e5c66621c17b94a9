"""Which tools run unasked: decided by what they can do to the world, never by their name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.vocabulary import Effect
from tools.base import Tool


@dataclass(frozen=True)
class Policy:
    """The effects that were granted."""

    allowed: frozenset[Effect]

    def refusal(self, tool: Tool[Any, Any]) -> str | None:
        """None if ``tool`` may run, else one line that says why not."""
        if tool.effect in self.allowed:
            return None
        granted = ", ".join(sorted(self.allowed)) or "nothing"
        return f"{tool.name} has the effect {tool.effect}, which was not granted (granted: {granted})"


READING = Policy(frozenset({Effect.READS}))
"""What a model may do unasked."""

PERSON = Policy(frozenset({Effect.READS, Effect.WRITES_ENVIRONMENT, Effect.NETWORK}))
"""``agent investigate`` typed by a person: reads, and fetches what is to be read. No foreign code, no GPU."""
