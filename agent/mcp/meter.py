"""GPU time of a whole server: what its clients use of it is counted together, whatever they begin anew."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory.clock import Clock
from memory.vocabulary import Effect
from tools.base import AnyTool
from tools.errors import ToolError


class Meter:
    """Lets tools use a GPU until ``minutes`` are used up."""

    def __init__(self, minutes: float, clock: Clock) -> None:
        self._minutes = minutes
        self._clock = clock
        self._used = 0.0
        self._lock = threading.Lock()

    def metered(self, tools: Mapping[str, AnyTool]) -> dict[str, AnyTool]:
        """``tools``, those that use a GPU counted. One that may take longer than is left is told so."""
        return {
            name: replace(tool, run=self._counted(tool)) if tool.effect is Effect.USES_GPU else tool
            for name, tool in tools.items()
        }

    def _counted(self, tool: AnyTool) -> Any:
        def run(args: Any, context: Any) -> Any:
            # One at a time: what is left is known only when the other has ended.
            with self._lock:
                left = self._minutes - self._used
                if left <= 0:
                    raise ToolError(
                        f"the {self._minutes:g} GPU minutes that were granted are used up; "
                        "a person grants more with agent mcp --gpu-minutes"
                    )
                if "minutes" in tool.input.model_fields:
                    asked = args.minutes
                    args = args.model_copy(update={"minutes": left if asked is None else min(asked, left)})
                begun = self._clock.monotonic()
                try:
                    return tool.run(args, context)
                finally:
                    self._used += (self._clock.monotonic() - begun) / 60

        return run
