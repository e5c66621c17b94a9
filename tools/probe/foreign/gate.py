"""Whether an output is right, decided from numbers per row: the same on any array library, and on lists.

An output is compared with two references. The *tight* one is computed in float32 from the same quantised
operands that the kernel was given: what differs is the kernel's own error. The *loose* one is computed from
the operands before they were quantised: what differs is the format's error too, and a scale that was
forgotten on both sides shows. No comparison is ever true of a NaN, so that one cannot pass by being one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

TIGHT = 1e-2
"""Relative Frobenius error against the tight reference."""
ROW = 5.0
"""How many times that a single row may be off."""
COSINE = 0.97
"""At the 5th percentile of rows, against the loose reference."""
NORM = 0.10
"""How far the norm of the whole may be from the loose reference's."""

NAN = "nan"
WRONG = "wrong"


@dataclass(frozen=True)
class Rows:
    """What is known of M rows of an output beside a reference: lists of M numbers, norms Euclidean."""

    bad: Sequence[int]
    """Elements that are not finite."""
    norm: Sequence[float]
    reference: Sequence[float]
    """Norms of the reference's rows."""
    dot: Sequence[float]
    """Of the output's row with the reference's."""
    difference: Sequence[float]
    """Norms of the output's row minus the reference's."""


@dataclass(frozen=True)
class Judgement:
    """``outcome`` is None where nothing is wrong; ``faults`` say what is; ``figures`` what was measured."""

    outcome: str | None
    faults: tuple[str, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)


def judge(
    tight: Rows,
    loose: Rows | None = None,
    *,
    limit: float = TIGHT,
    shape: tuple[object, object] | None = None,
    dtype: tuple[object, object] | None = None,
    canary: bool = True,
) -> Judgement:
    """Judge one output. ``shape`` and ``dtype``: what came and what was asked for; ``canary``: whether the
    memory around the output is what it was. ``limit``: the relative error that the arithmetic explains."""
    for name, pair in (("shape", shape), ("dtype", dtype)):
        if pair is not None and pair[0] != pair[1]:
            return Judgement(WRONG, (f"{name} is {pair[0]}, not {pair[1]}",))
    rows = len(tight.bad)
    faults: list[str] = []
    outcome: str | None = None
    hit = sum(1 for bad in tight.bad if bad)
    if hit:
        outcome = NAN
        faults.append(f"{hit} of {rows} rows hold numbers that are not finite")
    if not canary:
        faults.append("memory outside the output was written")
    zero = sum(1 for norm, there in zip(tight.norm, tight.reference, strict=True) if norm == 0 < there)
    if zero:
        faults.append(f"{zero} of {rows} rows are all zero")
    figures = {"relative_error": _relative(tight), "worst_row": _worst(tight)}
    if not hit:
        if not figures["relative_error"] <= limit:
            faults.append(f"relative error {figures['relative_error']:.2g}, more than {limit:g}")
        elif not figures["worst_row"] <= ROW * limit:
            faults.append(f"a row is off by {figures['worst_row']:.2g}, more than {ROW * limit:g}")
        if loose is not None:
            figures["cosine"] = _cosine(loose)
            figures["norm_ratio"] = _ratio(loose)
            if not figures["cosine"] > COSINE:
                faults.append(f"cosine of the 5th percentile of rows {figures['cosine']:.3f}")
            if not abs(figures["norm_ratio"] - 1) <= NORM:
                faults.append(f"norm {figures['norm_ratio']:.3f} times that of the reference")
    if faults and outcome is None:
        outcome = WRONG
    return Judgement(outcome, tuple(faults), {key: value for key, value in figures.items() if _finite(value)})


def rows_of(output: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> Rows:
    """The same numbers as :func:`.arrays.rows_of` gives, of plain lists."""
    bad = [sum(1 for value in row if not math.isfinite(value)) for row in output]
    pairs = list(zip(output, reference, strict=True))
    return Rows(
        bad,
        [math.sqrt(sum(value * value for value in row)) for row in output],
        [math.sqrt(sum(value * value for value in row)) for row in reference],
        [sum(x * y for x, y in zip(row, there, strict=True)) for row, there in pairs],
        [math.sqrt(sum((x - y) ** 2 for x, y in zip(row, there, strict=True))) for row, there in pairs],
    )


def _relative(rows: Rows) -> float:
    """Frobenius norm of the difference over that of the reference."""
    whole = math.sqrt(sum(value * value for value in rows.reference))
    off = math.sqrt(sum(value * value for value in rows.difference))
    return off / whole if whole else (0.0 if off == 0 else math.inf)


def _worst(rows: Rows) -> float:
    """The largest error of a row over its reference's norm, or over the mean one where that is larger: a row
    that nearly cancels out has no digits to be right in."""
    if not rows.reference:
        return 0.0
    mean = math.sqrt(sum(value * value for value in rows.reference) / len(rows.reference))
    pairs = zip(rows.difference, rows.reference, strict=True)
    errors = [off / max(there, mean / 4) if mean else off for off, there in pairs]
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def _cosine(rows: Rows) -> float:
    """The 5th percentile over rows whose reference is not zero."""
    found = sorted(
        dot / (norm * there) if norm else 0.0
        for dot, norm, there in zip(rows.dot, rows.norm, rows.reference, strict=True)
        if there
    )
    return found[int(0.05 * len(found))] if found else 1.0


def _ratio(rows: Rows) -> float:
    there = math.sqrt(sum(value * value for value in rows.reference))
    return math.sqrt(sum(value * value for value in rows.norm)) / there if there else 1.0


def _finite(value: float) -> bool:
    return math.isfinite(value)
