"""Cells of one plan that are asked for together: one folder and warm workers for all, a result for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from memory.terms import Level
from tools.probe.importing import Artifact, ProbeResult, result_of
from tools.probe.plan import Plan
from tools.probe.running import run_packed


class AskedCell(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str
    plan: Artifact
    cell: str


def run_batch(
    context: Any, asked: Sequence[AskedCell], level: Level, *arguments: str, cold: bool = False
) -> tuple[Plan, Path, Iterator[ProbeResult]]:
    """Run the cells up to one that is of another plan; returns the plan, its folder, and the results in the
    order asked. ``arguments`` and ``cold`` as for :func:`run_packed`.

    Raises :class:`ToolError` where it did not come to its end, in the words of the program."""
    first = asked[0]
    mine = [one.cell for one in takewhile(lambda one: one.plan == first.plan, asked)]
    plan, folder, rows = run_packed(context, first.environment, first.plan, mine, *arguments, cold=cold)
    cells = {cell.id: cell for cell in plan.cells}
    return plan, folder, (result_of(plan, first.plan, cells[name], rows[name], level) for name in mine)
