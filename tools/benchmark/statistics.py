"""What launches say of a difference. The launch is the unit: its requests share its kernels and its luck.

A relative difference is a difference of logarithms. Two sides with as many launches are paired in their
order, which is right for any order and sharper where they were run in turn; else Welch's test. Intervals are
Student's t at 95 %; with two launches they are wide, and with one there is none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5th percentile of Student's t, by degrees of freedom from 1."""

Method = Literal["paired t", "Welch's t", "one launch"]


@dataclass(frozen=True)
class Change:
    """``other`` against ``base``, as a share: 0.05 is 5 % more. ``low``, ``high``: None: no interval."""

    share: float
    low: float | None
    high: float | None
    method: Method
    launches: tuple[int, int]

    @property
    def shown(self) -> bool:
        """Whether the interval leaves no doubt of its sign."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Mean:
    """Over launches. ``half``: half the width of the interval; None with one launch."""

    value: float
    half: float | None
    launches: int


def quantile(freedom: int) -> float:
    """Student's t for two-sided 95 %. Beyond the table it is a little too wide, never too narrow."""
    if freedom < 1:
        raise ValueError("an interval needs two launches")
    return _T[min(freedom, len(_T)) - 1]


def mean(values: Sequence[float]) -> Mean:
    number = len(values)
    half = None
    if number > 1:
        half = quantile(number - 1) * statistics.stdev(values) / math.sqrt(number)
    return Mean(statistics.fmean(values), half, number)


def change(base: Sequence[float], other: Sequence[float]) -> Change:
    """By how much ``other`` is more than ``base``: one positive value for each launch of either."""
    if not base or not other or min(*base, *other) <= 0:
        raise ValueError("expected positive values of one launch at least on either side")
    one, two = [math.log(value) for value in base], [math.log(value) for value in other]
    middle = statistics.fmean(two) - statistics.fmean(one)
    sizes = (len(one), len(two))
    if min(sizes) == 1:
        return Change(math.expm1(middle), None, None, "one launch", sizes)
    method: Method
    if sizes[0] == sizes[1]:
        apart = [after - before for before, after in zip(one, two, strict=True)]
        error, freedom, method = statistics.stdev(apart) / math.sqrt(sizes[0]), sizes[0] - 1, "paired t"
    else:
        parts = [statistics.variance(side) / len(side) for side in (one, two)]
        error, method = math.sqrt(sum(parts)), "Welch's t"
        weights = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
        freedom = max(1, math.floor(sum(parts) ** 2 / weights)) if weights else min(sizes) - 1
    half = quantile(freedom) * error
    return Change(math.expm1(middle), math.expm1(middle - half), math.expm1(middle + half), method, sizes)


def words(found: Change, *, more_is: str, less_is: str) -> str:
    """``4.1 % faster (95 %: 1.2 to 7.0 %; 3 launches, paired t)``; what is not shown is not said."""
    size = f"{abs(100 * found.share):.1f} % {more_is if found.share >= 0 else less_is}"
    if found.low is None or found.high is None:
        return f"{size} (one launch on a side: no interval, and launches of one setting differ too)"
    span = f"95 %: {100 * found.low:+.1f} to {100 * found.high:+.1f} %"
    number = " and ".join(str(one) for one in dict.fromkeys(found.launches))
    told = size if found.shown else f"no difference shown, {100 * found.share:+.1f} %"
    return f"{told} ({span}; {number} launches, {found.method})"
