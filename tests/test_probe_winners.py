"""Which backend is the fastest, for which sizes."""

from __future__ import annotations

from typing import Any

from agent.winners import winner_line, winners


def result(backend: str, outcome: str, *medians: float, **size: int) -> dict[str, Any]:
    timing = [{"m": m, "median": median} for m, median in zip((1, 16, 128), medians, strict=True)]
    cell = {"component": "fp8_gemm", "backend": backend, "size": size or {"n": 8}, "scenario": {}}
    return {"outcome": outcome, "cell": cell, "measured": {"timing": timing}}


def test_the_fastest_of_what_is_right_is_told_by_ranges() -> None:
    found = winners(
        [
            result("oak", "ok", 1.0, 2.0, 9.0),
            result("elm", "ok", 2.0, 3.0, 4.0),
            result("ash", "wrong", 0.1, 0.1, 0.1),
            result("fir", "ok", 7.0, 7.0, 7.0, n=9),
        ]
    )
    assert [one["shape"] for one in found] == ["n=8", "n=9"]
    assert found[0]["ranges"] == [
        {"from": 1, "to": 16, "backend": "oak", "median": 2.0},
        {"from": 128, "to": 128, "backend": "elm", "median": 4.0},
    ]
    assert winner_line(found[0]) == "fastest fp8_gemm n=8: m 1-16 oak (2 ms), 128 elm (4 ms)"


def test_what_was_not_timed_wins_nothing() -> None:
    assert winners([{"outcome": "ok", "cell": result("a", "ok", 1, 1, 1)["cell"], "measured": {}}]) == []
