"""What was predicted from reading against what then ran, as counts: no rate is drawn from a handful."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory.terms import Outcome, Verdict

ENOUGH = 30
"""Pairs below which counts say little."""
_NOTHING = {Outcome.NOT_RUN, Outcome.ENVIRONMENT_SUSPECT}
_STOPS = {Verdict.BLOCKED, Verdict.REROUTED}


@dataclass(frozen=True)
class Group:
    """``right``: a refusal that did not run, or no obstacle that ran; ``false_no``: said to be refused, and
    it ran; ``false_yes``: no obstacle was seen, and it failed; ``open``: nothing was predicted either way."""

    idiom: str | None
    driver: str
    level: str
    right: int
    false_no: int
    false_yes: int
    open: int

    @property
    def count(self) -> int:
        return self.right + self.false_no + self.false_yes + self.open

    @property
    def enough(self) -> bool:
        return self.count >= ENOUGH


def groups(pairs: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Counts per idiom of the deciding line, driver that predicted, and level of what ran."""
    counted: dict[tuple[str | None, str, str], Counter[str]] = {}
    for pair in pairs:
        if pair["outcome"] in _NOTHING:
            continue
        key = (pair["idiom"], pair["driver"], pair["level"])
        counted.setdefault(key, Counter())[_came(pair["verdict"], pair["outcome"])] += pair["count"]
    order = sorted(counted, key=lambda key: (-sum(counted[key].values()), str(key)))
    names = ("right", "false_no", "false_yes", "open")
    return [Group(*key, *(counted[key][name] for name in names)) for key in order]


def _came(verdict: str, outcome: str) -> str:
    if verdict in _STOPS:
        return "false_no" if outcome == Outcome.OK else "right"
    if verdict == Verdict.NO_STATIC_OBSTACLE:
        return "right" if outcome == Outcome.OK else "false_yes"
    return "open"
