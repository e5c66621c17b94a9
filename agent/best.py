"""Which of the settings that were launched is to be recommended, why, and how the others compare with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.trials import SILENT, Ran, named
from tools.benchmark.comparing import Key, Side, side_of, winners
from tools.benchmark.statistics import change, words
from tools.quality.gate import ORACLE, PAIRED

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


def answers(ran: Sequence[Ran]) -> str:
    """What is known of the answers of launches that went well, no more than was asked of each."""
    return min(_looked_at(one.output.get("checked")) for one in ran if one.ok)[1]


def _looked_at(checked: Mapping[str, Any] | None) -> tuple[float, str]:
    """What is known of the answers of one launch, and how much that is beside others."""
    if not checked:
        return 0.0, "it served, its answers were not checked"
    stages = {stage["name"]: stage for stage in checked["stages"] if stage["outcome"] == "ok"}
    if ORACLE in stages:
        return 3.0, "it served, and answered as its reference did"
    sound = "it served, and nothing was wrong with its answers"
    figures = stages[PAIRED].get("figures", {}) if PAIRED in stages else {}
    if not figures.get("questions"):
        return 1.0, f"{sound}; whether they are right was not asked"
    if "reference_right" in figures:
        return 2.5, "it served, and answered questions as well as its reference did"
    asked, right = figures["questions"], figures["right"]
    return (
        1.0 + right / asked,
        f"{sound}; beside no reference {right:.0f} of {asked:.0f} questions were right",
    )


def _beside(group: Sequence[Ran], measured: Sequence[Side], name: str, key: Key) -> str:
    """How a setting compares with the one called ``name`` at a load."""
    mine = named(group[0].pairs)
    values = {side.name: side.values(key, OUTPUT) for side in measured}
    if not values.get(mine):
        return f"{mine}: {answers(group)}; not measured at c={key.concurrency}"
    seen = change(values[name], values[mine])
    return f"{mine}: {words(seen, more_is='more output', less_is='less output')}"
