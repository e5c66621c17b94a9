"""Drivers: what decides the next step. All see the same board."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.loop import Driver
    from tools.base import AnyTool
    from transcripts.redaction.secrets import JSON

DRIVERS = ("planner", "llm")


class DriverError(Exception):
    """A driver that cannot be had here. The message says what is missing."""

    exit_code = 3


def make_driver(
    name: str,
    *,
    keep: Callable[[bytes], str] = lambda data: hashlib.sha256(data).hexdigest(),
    tools: Sequence[AnyTool] = (),
    redact: Callable[[JSON], JSON] | None = None,
) -> Driver:
    """The driver of that name. Raises :class:`DriverError`.

    The rest is for one that asks a model: where what it is told is kept, which tools it is offered.
    """
    if name == "planner":
        from agent.drivers.planner import Planner

        return Planner()
    if name == "reporter":
        from agent.drivers.reporter import Reporter

        return Reporter()
    if name == "prober":
        from agent.drivers.prober import Prober

        return Prober()
    if name == "checker":
        from agent.drivers.checker import Checker

        return Checker()
    if name == "trier":
        from agent.drivers.trier import Trier

        return Trier()
    if name == "mcp":
        from agent.drivers.outside import Outside

        return Outside()
    if name == "llm":
        from agent.drivers.llm import Investigator
        from transcripts.redaction.secrets import redacted

        return Investigator(keep, tools, redact or redacted)
    raise DriverError(f"no driver {name!r} here; there are: {', '.join(DRIVERS)}")
