"""What has become of one read."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.terms import Drift

LINES = 60
"""Lines of a diff that are kept."""


@dataclass(frozen=True)
class Verdict:
    drift: Drift
    where: str | None = None
    """Where it stands now: ``file:line`` or ``file:start-end``."""
    why: str | None = None
    diff: list[str] = field(default_factory=list)


def not_comparable(why: str) -> Verdict:
    return Verdict(Drift.NOT_COMPARABLE, why=why)


def changed(before: Sequence[str], now: Sequence[str], where: str | None = None) -> Verdict:
    """``before`` as it was recorded, ``now`` as it reads in the environment."""
    lines = list(difflib.unified_diff(before, now, "recorded", where or "now", lineterm="", n=1))
    if len(lines) > LINES:
        lines = [*lines[:LINES], f"… {len(lines) - LINES} more lines"]
    return Verdict(Drift.CHANGED, where=where, diff=lines)
