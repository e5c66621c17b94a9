"""Which of the settings that were launched is to be recommended, why, and how the others compare with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.trials import SILENT, Ran, named
from tools.benchmark.comparing import Key, Side, side_of, winners
from tools.benchmark.statistics import change, words
from tools.quality.gate import ORACLE

OUTPUT = "output_throughput"


@dataclass(frozen=True)
class Best:
    """``ran``: its first launch. ``because``: in what it is the best, with the interval over launches where
    there is one. ``loads``: who gives the most output at each load. ``others``: the other settings that were
    right, each with how it compares."""

    ran: Ran
    because: str
    loads: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def checked(self) -> bool:
        """Whether its answers were looked at."""
        return bool(self.ran.output.get("checked"))


def right(ran: Sequence[Ran]) -> list[list[Ran]]:
    """The launches of each setting that was right whenever a launch of it said anything."""
    groups: dict[str, list[Ran]] = {}
    for one in ran:
        groups.setdefault(named(one.pairs), []).append(one)
    return [
        group
        for group in groups.values()
        if any(one.ok for one in group) and all(one.ok or one.outcome in SILENT for one in group)
    ]


def sides(groups: Sequence[Sequence[Ran]]) -> list[Side]:
    """Of the settings that were measured."""
    made = (
        side_of(named(group[0].pairs), [one.output for one in group if one.output.get("benchmark")])
        for group in groups
    )
    return [side for side in made if side.keys()]


def best(ran: Sequence[Ran]) -> Best | None:
    """Of what was right the one with the most output where most is asked at a time; with no loads the first.
    None where nothing was right."""
    groups = right(ran)
    if not groups:
        return None
    measured = sides(groups)
    if not measured:
        names = tuple(f"{named(group[0].pairs)}: {answers(group)}" for group in groups[1:])
        return Best(groups[0][0], answers(groups[0]), (), names)
    ranked = winners(measured)
    top = max(ranked, key=lambda one: (one.key.concurrency, -one.key.input))
    chosen = next(group for group in groups if named(group[0].pairs) == top.best)
    loads = tuple(
        f"c={one.key.concurrency} {one.key.input}+{one.key.output}: {one.best} first, {one.says}"
        for one in ranked
        if one.next is not None
    )
    because = f"measured, most output at c={top.key.concurrency}; {top.says}"
    others = tuple(_beside(group, measured, top.best, top.key) for group in groups if group is not chosen)
    return Best(chosen[0], because, loads, others)


UNASKED, UNCOMPARED, COMPARED = range(3)
ANSWERS = {
    UNASKED: "it served, its answers were not checked",
    UNCOMPARED: "it served, and nothing was wrong with its answers; whether they are right was not asked",
    COMPARED: "it served, and answered as its reference did",
}
"""How far answers were looked at, in words."""


def answers(ran: Sequence[Ran]) -> str:
    """What is known of the answers of launches that went well, no more than was asked of each."""
    return ANSWERS[min(_looked_at(one.output.get("checked")) for one in ran if one.ok)]


def _looked_at(checked: Mapping[str, Any] | None) -> int:
    if not checked:
        return UNASKED
    stages = [(stage["name"], stage["outcome"]) for stage in checked["stages"]]
    return COMPARED if (ORACLE, "ok") in stages else UNCOMPARED


def _beside(group: Sequence[Ran], measured: Sequence[Side], name: str, key: Key) -> str:
    """How a setting compares with the one called ``name`` at a load."""
    mine = named(group[0].pairs)
    values = {side.name: side.values(key, OUTPUT) for side in measured}
    if not values.get(mine):
        return f"{mine}: {answers(group)}; not measured at c={key.concurrency}"
    seen = change(values[name], values[mine])
    return f"{mine}: {words(seen, more_is='more output', less_is='less output')}"
