"""Drivers: what decides the next step. All see the same board."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.loop import Driver

DRIVERS = ("planner", "llm")


class DriverError(Exception):
    """A driver that cannot be had here. The message says what is missing."""

    exit_code = 3


def make_driver(name: str) -> Driver:
    """The driver of that name. Raises :class:`DriverError`."""
    if name == "planner":
        from agent.drivers.planner import Planner

        return Planner()
    if name == "reporter":
        from agent.drivers.reporter import Reporter

        return Reporter()
    if name == "mcp":
        from agent.drivers.outside import Outside

        return Outside()
    if name in DRIVERS:
        raise DriverError(f"this version has no {name} driver; there is: planner")
    raise DriverError(f"no driver {name!r} here; there is: planner")
