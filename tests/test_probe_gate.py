"""The check of every kernel's output: planted faults are caught, what is right is let through."""

from __future__ import annotations

import math
import random
import struct

import pytest

from tools.probe.foreign.faults import FAULTS, planted, spoil
from tools.probe.foreign.gate import Judgement, judge, rows_of

Matrix = list[list[float]]
COLUMNS = 48


def bf16(value: float) -> float:
    """To the nearest number that bf16 has."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits += 0x7FFF + ((bits >> 16) & 1)
    (rounded,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))
    return float(rounded)


def product(rows: int, seed: int) -> Matrix:
    drawn = random.Random(seed)
    return [[drawn.gauss(0, 1) for _ in range(COLUMNS)] for _ in range(rows)]


def rounded(right: Matrix) -> Matrix:
    return [[bf16(value) for value in row] for row in right]


def judged(output: Matrix, right: Matrix) -> Judgement:
    rows = rows_of(output, right)
    return judge(rows, rows)


def test_two_hundred_right_outputs_are_let_through() -> None:
    for seed in range(200):
        right = product(1 + seed % 40, seed)
        assert judged(rounded(right), right) == Judgement(None, (), judged(rounded(right), right).figures)


@pytest.mark.parametrize("rows", [2, 3, 17, 128, 257])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught_at_every_size(fault: str, rows: int) -> None:
    right = product(rows, rows)
    output = rounded(right)
    spoil(output, fault)
    found = judged(output, right)
    assert found.outcome == ("nan" if "nan" in fault else "wrong")
    assert found.faults


def test_the_faults_are_those_that_looser_checks_let_pass() -> None:
    share = {fault: len({row for row, _, _ in planted(fault, 1000)}) for fault in FAULTS}
    assert share == {
        "all_nan": 1000,
        "zero_rows_22": 220,
        "nan_rows_2": 20,
        "halved": 1000,
        "swapped_rows": 30,
        "all_zero": 1000,
    }


def test_one_row_of_thousands_that_is_off_is_caught() -> None:
    right = product(4000, 5)
    output = rounded(right)
    output[700] = [value * 0.5 for value in output[700]]
    (fault,) = judged(output, right).faults
    assert fault.startswith("a row is off by 0.5")


def test_a_scale_that_is_lost_on_both_sides_is_seen_by_the_loose_check() -> None:
    right = product(8, 1)
    tight = rows_of(rounded(right), right)
    loose = rows_of(rounded(right), [[value * 1.5 for value in row] for row in right])
    (fault,) = judge(tight, loose).faults
    assert fault.startswith("norm 0.667")


def test_zero_where_zero_is_right_is_no_fault() -> None:
    right = product(4, 1)
    right[2] = [0.0] * COLUMNS
    assert judged(rounded(right), right).outcome is None


def test_what_is_around_the_numbers_counts_too() -> None:
    right = product(4, 1)
    rows = rows_of(rounded(right), right)
    assert judge(rows, canary=False).faults == ("memory outside the output was written",)
    assert judge(rows, shape=((4, 2), (4, 3))).faults == ("shape is (4, 2), not (4, 3)",)
    assert judge(rows, dtype=("a", "b")).outcome == "wrong"
    assert judge(rows, limit=1e-9).outcome == "wrong"


def test_a_number_that_is_none_passes_no_comparison() -> None:
    rows = rows_of([[math.nan]], [[1.0]])
    assert judge(rows, rows).outcome == "nan"
    assert judge(rows_of([[math.inf]], [[math.inf]])).outcome == "nan"
