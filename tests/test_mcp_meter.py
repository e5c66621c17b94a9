"""The GPU minutes that a person grants to the clients of a server are all that there are."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from agent.mcp.meter import Meter
from memory.clock import FixedClock
from memory.vocabulary import Effect
from tools.base import Tool
from tools.errors import ToolError


class Asked(BaseModel):
    minutes: float | None = None


class Took(BaseModel):
    minutes: float | None


def burning(clock: FixedClock, effect: Effect) -> Tool[Any, Any]:
    """A tool that takes two minutes of the clock."""

    def run(args: Asked, context: object) -> Took:
        clock.now()
        return Took(minutes=args.minutes)

    return Tool(name="burn", description="Burn.", input=Asked, result=Took, effect=effect, run=run)


def test_what_uses_a_gpu_is_told_what_is_left_and_refused_once_nothing_is() -> None:
    clock = FixedClock(step_ms=120_000)
    tool = Meter(5.0, clock).metered({"burn": burning(clock, Effect.USES_GPU)})["burn"]
    assert [tool.run(Asked(minutes=asked), None).minutes for asked in (None, 1.0, 60.0)] == [5.0, 1.0, 1.0]
    with pytest.raises(ToolError, match="5 GPU minutes that were granted are used up"):
        tool.run(Asked(), None)


def test_what_only_reads_is_not_counted() -> None:
    clock = FixedClock(step_ms=120_000)
    tool = burning(clock, Effect.READS)
    assert Meter(1.0, clock).metered({"burn": tool})["burn"] is tool


def test_what_failed_counts_too() -> None:
    clock = FixedClock(step_ms=120_000)

    def fail(args: Asked, context: object) -> Took:
        clock.now()
        raise ToolError("broken")

    failing = Tool(
        name="burn", description="Burn.", input=Asked, result=Took, effect=Effect.USES_GPU, run=fail
    )
    tool = Meter(1.0, clock).metered({"burn": failing})["burn"]
    for why in ("broken", "used up"):
        with pytest.raises(ToolError, match=why):
            tool.run(Asked(), None)
