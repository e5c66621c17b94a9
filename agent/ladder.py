"""All rungs, cheapest first. What is dear applies only where the person asked for it."""

from __future__ import annotations

from agent.launching import Shrunk, Whole
from agent.probing import Compiling, Kernels, Planning
from agent.rungs import KnownFindings, Rung, Static


def ladder() -> list[Rung]:
    """The rungs there are, cheapest first."""
    return [KnownFindings(), Static(), Planning(), Compiling(), Kernels(), Shrunk(), Whole()]
