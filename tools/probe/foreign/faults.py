"""Faults that kernels have had, planted on purpose: the gate must catch each, or nothing it says counts.

A fault is told as what becomes of which rows, so that lists and tensors can be spoilt alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FAULTS = ("all_nan", "zero_rows_22", "nan_rows_2", "halved", "swapped_rows", "all_zero")
"""All NaN; 22 % of rows zero; 2 % NaN; everything halved; 6 % of rows swapped with others; all zero."""


def planted(fault: str, rows: int) -> Iterator[tuple[int, str, int]]:
    """``(row, what, other)``: what becomes of a row: ``nan``, ``zero``, ``half``, or ``swap`` with another.
    At least one row (two to be swapped) is spoilt, however few there are."""
    if fault in ("all_nan", "all_zero", "halved"):
        what = {"all_nan": "nan", "all_zero": "zero", "halved": "half"}[fault]
        yield from ((row, what, row) for row in range(rows))
    elif fault in ("zero_rows_22", "nan_rows_2"):
        share, what = (0.22, "zero") if fault == "zero_rows_22" else (0.02, "nan")
        count = max(1, round(share * rows))
        yield from ((row * rows // count, what, row) for row in range(count))
    else:
        pairs = max(1, round(0.03 * rows))
        yield from ((row, "swap", rows - 1 - row) for row in range(min(pairs, rows // 2)))


def spoil(output: Any, fault: str) -> None:
    """Plant ``fault`` in ``output``, a list of rows or a tensor of two dimensions, in place."""
    for row, what, other in planted(fault, len(output)):
        if what == "swap":
            _swap(output, row, other)
        elif isinstance(output, list):
            value = {"nan": float("nan"), "zero": 0.0}.get(what)
            output[row] = [one * 0.5 if value is None else value for one in output[row]]
        elif what == "half":
            output[row] *= 0.5
        else:
            output[row] = float("nan") if what == "nan" else 0.0


def _swap(output: Any, row: int, other: int) -> None:
    if isinstance(output, list):
        output[row], output[other] = output[other], output[row]
    else:
        kept = output[row].clone()
        output[row] = output[other]
        output[other] = kept
