"""Benchmarks side by side: by load, what differs; who wins at which concurrency; what nobody beats in both.

Loads are compared only where both sides realised the same tokens. Inter-token latency is left out wherever
tokens come several at a time: there it counts chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from tools.benchmark.cell import APART, BURST
from tools.benchmark.statistics import change, mean, words

COMPARED = {
    "output_throughput": ("tok/s", "more output", "less output", +1),
    "median_tpot": ("ms", "longer by token", "shorter by token", -1),
    "median_ttft": ("ms", "longer to the first token", "shorter to the first token", -1),
    "median_e2e_latency": ("ms", "longer in all", "shorter in all", -1),
    "p99_ttft": ("ms", "longer to the slowest first token", "shorter to the slowest first token", -1),
    "median_itl": ("ms", "longer between tokens", "shorter between tokens", -1),
}
"""Metric → unit, what more and less of it means, and which way is better."""
BY_CHUNK = "median_itl"
OF_TOKENS = frozenset({"median_tpot", "median_ttft", "p99_ttft", "median_itl"})
"""What cannot be told where the tokens of an answer came all at once."""
TOTALS = ("total_input_tokens", "total_output_tokens")


class Key(NamedTuple):
    """A load. ``input``, ``output``: tokens of each request."""

    concurrency: int
    input: int
    output: int


@dataclass(frozen=True)
class Side:
    """One setting. ``launches``: of each, its believed cells by load."""

    name: str
    settings: Mapping[str, str]
    itl: str
    launches: tuple[Mapping[Key, Mapping[str, Any]], ...]
    failed: tuple[str, ...] = ()
    """Why launches, or loads of theirs, are not among them."""
    speculative: bool = False

    def keys(self) -> list[Key]:
        return sorted({key for one in self.launches for key in one})

    def values(self, key: Key, metric: str) -> list[float]:
        """One for each launch that has it."""
        return [
            float(one[key]["figures"][metric]["value"])
            for one in self.launches
            if key in one and metric in one[key]["figures"]
        ]


@dataclass(frozen=True)
class Compared:
    """One metric at one load. ``base``, ``other``: by launch. ``better``: +1, -1, or 0: not shown."""

    key: Key
    metric: str
    unit: str
    base: list[float]
    other: list[float]
    share: float
    low: float | None
    high: float | None
    method: str
    better: int
    says: str


@dataclass
class Comparison:
    base: str
    other: str
    rows: list[Compared] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def side_of(name: str, results: Sequence[Mapping[str, Any]]) -> Side:
    """The side that results of launches make, each with a ``benchmark`` (or none, where it failed before)."""
    launches: list[dict[Key, Mapping[str, Any]]] = []
    failed: list[str] = []
    itl, speculative = "", False
    settings: dict[str, str] = {}
    for number, result in enumerate(results, 1):
        found = result.get("benchmark")
        settings |= {str(k): str(v) for k, v in (result.get("asked") or {}).items()}
        if not isinstance(found, Mapping):
            failed.append(f"launch {number}: {result.get('outcome')}: {result.get('because')}")
            continue
        itl = str(found["itl"])
        cells: dict[Key, Mapping[str, Any]] = {}
        for cell in found["cells"]:
            key = Key(cell["concurrency"], cell["input"], cell["output"])
            if cell["warmup"]:
                continue
            speculative = speculative or bool(cell["speculative"])
            if cell["outcome"] != "ok":
                failed.append(f"launch {number}, c={key.concurrency}: {cell['refused'][0]}")
            elif any(not math.isfinite(one["value"]) or one["value"] < 0 for one in cell["figures"].values()):
                failed.append(f"launch {number}, c={key.concurrency}: some of its figures are none")
            else:
                cells[key] = cell
        if cells:
            launches.append(cells)
    return Side(name, settings, itl, tuple(launches), tuple(failed), speculative)


def sides_of(name: str, results: Sequence[Mapping[str, Any]]) -> list[Side]:
    """A side for each setting that the results are of: one alone is called ``name``."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    given = [result.get("options") or {} for result in results]
    names = sorted({name for one in given for name in one})
    varied = [name for name in names if len({one.get(name) for one in given}) > 1]
    for result, options in zip(results, given, strict=True):
        asked = result.get("asked") or {}
        words = [f"{component}={backend}" for component, backend in sorted(asked.items())]
        said = ", ".join([*words, *(f"{name}={options.get(name, 'off')}" for name in varied)])
        groups.setdefault(said, []).append(result)
    if len(groups) == 1:
        return [side_of(name, results)]
    return [side_of(said or "the engine's defaults", group) for said, group in groups.items()]


def compare(base: Side, other: Side) -> Comparison:
    """What differs between two sides, at every load that both were measured at."""
    found = Comparison(base.name, other.name)
    for key in [key for key in base.keys() if key in other.keys()]:  # noqa: SIM118 - a method
        if why := _another_load(base, other, key):
            found.refused.append(why)
            continue
        bursts = _bursts(base, key) or _bursts(other, key)
        if bursts:
            found.refused.append(f"c={key.concurrency}: the times of tokens: answers came in bursts")
        found.rows += _compared(base, other, key, bursts=bursts)
    if not found.rows and not found.refused:
        found.refused.append("no load was measured, and believed, on both sides")
    return found


def _bursts(side: Side, key: Key) -> bool:
    return min(side.values(key, "median_tpot"), default=BURST) < BURST


def _compared(base: Side, other: Side, key: Key, *, bursts: bool) -> Iterator[Compared]:
    for metric, (unit, more, less, good) in COMPARED.items():
        if metric == BY_CHUNK and not _by_token(base, other):
            continue
        if bursts and metric in OF_TOKENS:
            continue
        one, two = base.values(key, metric), other.values(key, metric)
        if not one or not two or min(*one, *two) <= 0:
            continue
        seen = change(one, two)
        sign = (1 if seen.share > 0 else -1) * good if seen.shown else 0
        says = words(seen, more_is=more, less_is=less)
        yield Compared(key, metric, unit, one, two, seen.share, seen.low, seen.high, seen.method, sign, says)


def _by_token(*sides: Side) -> bool:
    return all(side.itl == "token" and not side.speculative for side in sides)


def _another_load(base: Side, other: Side, key: Key) -> str | None:
    for total in TOTALS:
        pairs = zip(_per_request(base, key, total), _per_request(other, key, total), strict=False)
        if any(abs(mine - theirs) > APART * theirs for mine, theirs in pairs):
            return f"c={key.concurrency}: {total.replace('_', ' ')} differ by more than {100 * APART:.0f} %"
    return None


def _per_request(side: Side, key: Key, total: str) -> list[float]:
    """For each launch that tells."""
    cells = [one[key] for one in side.launches if key in one]
    return [
        float(cell["figures"][total]["value"]) / cell["prompts"]
        for cell in cells
        if total in cell["figures"] and cell["prompts"]
    ]


@dataclass(frozen=True)
class Point:
    """One side at one load: tokens a second for one user, and of all together. ``frontier``: nobody has more
    of both."""

    side: str
    key: Key
    user: float
    total: float
    half: float | None
    frontier: bool = False


def points(sides: Iterable[Side]) -> list[Point]:
    """Of each input length, which sides and loads are on the frontier."""
    found: list[Point] = []
    for side in sides:
        for key in side.keys():  # noqa: SIM118 - a method
            times, totals = side.values(key, "median_tpot"), side.values(key, "output_throughput")
            if min(times, default=0) > 0 and totals and not _bursts(side, key):
                total = mean(totals)
                user = mean([1000 / value for value in times]).value
                found.append(Point(side.name, key, user, total.value, total.half))

    def beaten(one: Point) -> bool:
        return any(
            other.key[1:] == one.key[1:]
            and other.user >= one.user
            and other.total >= one.total
            and (other.user, other.total) != (one.user, one.total)
            for other in found
        )

    return [Point(**{**vars(one), "frontier": not beaten(one)}) for one in found]


@dataclass(frozen=True)
class Winner:
    """``side``: None where the best is not shown to be better than the next."""

    key: Key
    side: str | None
    best: str
    next: str | None
    says: str


def winners(sides: Sequence[Side]) -> list[Winner]:
    """At each load, who gives the most output, and whether that is shown."""
    found = []
    for key in sorted({key for side in sides for key in side.keys()}):  # noqa: SIM118 - a method
        there = [(side, side.values(key, "output_throughput")) for side in sides]
        ranked = sorted(
            ((side, values) for side, values in there if min(values, default=0) > 0),
            key=lambda one: -mean(one[1]).value,
        )
        if not ranked:
            continue
        best, values = ranked[0]
        if len(ranked) == 1:
            found.append(Winner(key, None, best.name, None, f"only {best.name} was measured here"))
            continue
        second, others = ranked[1]
        seen = change(others, values)
        says = f"against {second.name}: " + words(seen, more_is="more output", less_is="less output")
        found.append(Winner(key, best.name if seen.shown else None, best.name, second.name, says))
    return found


def document(sides: Sequence[Side]) -> dict[str, Any]:
    """The comparison of the first side with each other, with winners and frontier, as JSON types."""
    compared = [compare(sides[0], other) for other in sides[1:]]
    return {
        "format": 1,
        "sides": [
            {
                "name": side.name, "settings": dict(side.settings), "launches": len(side.launches),
                "speculative": side.speculative, "failed": list(side.failed),
            }
            for side in sides
        ],
        "comparisons": [
            {**asdict(one), "rows": [{**asdict(row), "key": row.key._asdict()} for row in one.rows]}
            for one in compared
        ],
        "winners": [{**asdict(one), "key": one.key._asdict()} for one in winners(sides)],
        "points": [{**asdict(one), "key": one.key._asdict()} for one in points(sides)],
    }  # fmt: skip
