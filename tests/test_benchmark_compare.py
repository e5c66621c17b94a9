"""Differences between launches: exact where it can be checked by hand, silent where nothing is shown."""

from __future__ import annotations

import json
import math
import random
import re
import statistics
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from completions import Fake
from fake_generator import add_generator
from fake_server import fake_engine, fake_model

from agent.benchmarks_page import lines, markdown, page
from agent.cli.main import run
from agent.plots import Dot, Line, plot
from memory.home import Home
from tools.benchmark.comparing import Key, document, points, side_of, sides_of, winners
from tools.benchmark.statistics import change, mean, quantile, words


def cell(concurrency: int = 4, *, output: float = 100.0, tpot: float = 10.0, **more: Any) -> dict[str, Any]:
    figures = {
        "output_throughput": output, "median_tpot": tpot, "median_ttft": 50.0, "median_itl": tpot,
        "total_input_tokens": 64.0 * 20, "total_output_tokens": 16.0 * 20, **more.pop("figures", {}),
    }  # fmt: skip
    return {
        "concurrency": concurrency, "input": 64, "output": 16, "prompts": 20, "warmup": False,
        "outcome": "ok", "refused": [], "speculative": False,
        "figures": {name: {"value": value, "unit": "x"} for name, value in figures.items()}, **more,
    }  # fmt: skip


def launch(*cells: dict[str, Any], itl: str = "token") -> dict[str, Any]:
    return {"outcome": "ok", "because": "", "benchmark": {"itl": itl, "cells": list(cells)}}


def test_a_paired_interval_is_students_t_over_differences_of_logarithms() -> None:
    base, other = [100.0, 110.0, 90.0], [105.0, 114.0, 95.0]
    apart = [math.log(b / a) for a, b in zip(base, other, strict=True)]
    half = 4.303 * statistics.stdev(apart) / math.sqrt(3)
    found = change(base, other)
    assert (found.method, found.launches) == ("paired t", (3, 3))
    assert found.share == pytest.approx(math.expm1(statistics.fmean(apart)))
    assert found.low == pytest.approx(math.expm1(statistics.fmean(apart) - half))
    assert found.high == pytest.approx(math.expm1(statistics.fmean(apart) + half))
    assert found.shown
    assert not change(base, [100.0, 120.0, 85.0]).shown


def test_sides_with_other_numbers_of_launches_are_compared_by_welch() -> None:
    found = change([100.0, 102.0], [120.0, 121.0, 119.0])
    assert found.method == "Welch's t"
    assert found.low is not None
    assert found.low < found.share < 0.2
    assert change([5.0, 5.0], [5.0, 5.0, 5.0]).share == pytest.approx(0)


def test_one_launch_has_no_interval_and_says_so() -> None:
    found = change([100.0], [110.0, 111.0])
    assert (found.low, found.high, found.method, found.shown) == (None, None, "one launch", False)
    assert words(found, more_is="more", less_is="less").startswith(
        "10.5 % more (one launch on a side: no int"
    )
    assert mean([3.0]).half is None
    with pytest.raises(ValueError, match="two launches"):
        quantile(0)
    for bad in ([], [0.0], [-1.0]):
        with pytest.raises(ValueError, match="positive"):
            change(bad, [1.0])


def test_intervals_hold_what_they_promise() -> None:
    """Two settings that are the same: an interval that leaves out nought is wrong, and 1 in 20 may be."""
    source = random.Random(1)
    wrong = 0
    for _ in range(600):
        base, other = ([100 * source.lognormvariate(0, 0.05) for _ in range(3)] for _ in range(2))
        wrong += change(base, other).shown
    assert 12 <= wrong <= 50, "30 are expected of 600"


def test_a_difference_is_said_with_its_direction_and_only_where_it_is_shown() -> None:
    base = side_of("base", [launch(cell(output=value)) for value in (100.0, 101.0, 99.0)])
    other = side_of("other", [launch(cell(output=value, tpot=9.0)) for value in (120.0, 121.0, 119.5)])
    found = document([base, other])
    rows = {row["metric"]: row for row in found["comparisons"][0]["rows"]}
    assert rows["output_throughput"]["better"] == 1
    assert rows["output_throughput"]["says"].startswith("20.2 % more output (95 %: +")
    assert rows["median_tpot"]["better"] == 1, "less time is better"
    assert rows["median_ttft"]["better"] == 0
    assert found["winners"][0]["side"] == "other"
    told = "\n".join(lines(found))
    assert "other against base:" in told
    assert "  + c=4 64+16" in told
    noisy = side_of("noisy", [launch(cell(output=value)) for value in (80.0, 130.0, 101.0)])
    [winner] = winners([base, noisy])
    assert (winner.side, winner.best) == (None, "noisy")
    assert "not decided" in "\n".join(lines(document([base, noisy])))


def test_loads_with_other_tokens_are_not_compared() -> None:
    base = side_of("a", [launch(cell())])
    other = side_of("b", [launch(cell(figures={"total_output_tokens": 16.0 * 20 * 0.98}))])
    found = document([base, other])["comparisons"][0]
    assert found["rows"] == []
    assert found["refused"] == ["c=4: total output tokens differ by more than 1 %"]
    nothing = document([base, side_of("c", [launch(cell(8))])])["comparisons"][0]
    assert nothing["refused"] == ["no load was measured, and believed, on both sides"]


@pytest.mark.parametrize(("itl", "speculative"), [("chunk", False), ("token", True)])
def test_gaps_between_chunks_are_never_compared(itl: str, speculative: bool) -> None:
    base = side_of("a", [launch(cell())])
    other = side_of("b", [launch(cell(speculative=speculative), itl=itl)])
    metrics = {row["metric"] for row in document([base, other])["comparisons"][0]["rows"]}
    assert "median_tpot" in metrics
    assert "median_itl" not in metrics
    alike = document([base, side_of("c", [launch(cell())])])["comparisons"][0]["rows"]
    assert "median_itl" in {row["metric"] for row in alike}


def test_times_of_tokens_that_came_in_bursts_are_not_compared() -> None:
    base, other = side_of("a", [launch(cell())]), side_of("b", [launch(cell(tpot=0.01))])
    found = document([base, other])
    assert [row["metric"] for row in found["comparisons"][0]["rows"]] == ["output_throughput"]
    assert found["comparisons"][0]["refused"] == ["c=4: the times of tokens: answers came in bursts"]
    assert [point["side"] for point in found["points"]] == ["a"]


def test_what_was_not_believed_takes_no_part_and_is_named() -> None:
    side = side_of(
        "a",
        [
            launch(cell(1), cell(4, outcome="wrong", refused=["1 requests gave no text"])),
            launch(cell(1, warmup=True), cell(4)),
            {"outcome": "nan", "because": "alone: nan", "benchmark": None},
        ],
    )
    assert side.keys() == [Key(1, 64, 16), Key(4, 64, 16)]
    assert side.values(Key(1, 64, 16), "output_throughput") == [100.0]
    assert side.failed == ("launch 1, c=4: 1 requests gave no text", "launch 3: nan: alone: nan")


def test_the_frontier_is_what_nobody_beats_in_both() -> None:
    one = side_of("one", [launch(cell(1, output=50, tpot=5), cell(16, output=400, tpot=20))])
    two = side_of("two", [launch(cell(1, output=40, tpot=6), cell(16, output=500, tpot=25))])
    found = {(point.side, point.key.concurrency): point.frontier for point in points([one, two])}
    assert found == {("one", 1): True, ("one", 16): True, ("two", 1): False, ("two", 16): True}


def test_settings_that_were_measured_in_turn_are_sides_of_their_own() -> None:
    results = [
        {**launch(cell(output=100.0 + number)), "asked": asked}
        for number in range(2)
        for asked in ({"moe": "a"}, {"moe": "b"})
    ]
    sides = sides_of("trial", results)
    assert [(side.name, len(side.launches)) for side in sides] == [("moe=a", 2), ("moe=b", 2)]
    assert [side.name for side in sides_of("one", results[::2])] == ["one"]


HOSTILE = '"><script>alert(1)</script>\x1b[31m|`'


def test_an_option_that_was_tried_makes_sides_and_one_that_all_have_does_not() -> None:
    common = {"asked": {"attention": "a"}}
    results = [
        {**launch(cell()), **common, "options": {"seed": "1"}},
        {**launch(cell(speculative=True)), **common, "options": {"seed": "1", "draft": "NGRAM"}},
    ]
    sides = sides_of("trial", results)
    assert [side.name for side in sides] == ["attention=a, draft=off", "attention=a, draft=NGRAM"]
    assert [side.speculative for side in sides] == [False, True]


def test_reports_escape_what_others_named() -> None:
    side = side_of(HOSTILE, [launch(cell(1), cell(4)), launch(cell(1), cell(4))])
    found = document([side, side_of("plain", [launch(cell(1)), launch(cell(1))])])
    whole = "".join(page(found))
    assert "<script" not in whole
    assert "\x1b" not in whole + "".join(markdown(found)) + "\n".join(lines(found))
    assert "default-src &#x27;none&#x27;" in whole
    [svg] = re.findall(r"<svg.*?</svg>", whole, re.DOTALL)
    ET.fromstring(svg)
    assert re.search(r"(?<!\\)<script", "".join(markdown(found))) is None


@pytest.mark.parametrize("value", [0.0, 1e-12, 7.0, 12.0, 1e9, math.inf, math.nan])
def test_a_plot_is_drawn_whatever_the_numbers_are(value: float) -> None:
    if not math.isfinite(value):
        value = 0.0
    ET.fromstring(plot([Line("a", (Dot(value, value, value, "c=1", True),)), Line("b", ())], "t", "x", "y"))
    ET.fromstring(plot([], "t", "x", "y"))


@pytest.fixture
def measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """What ``agent benchmark URL --json`` prints, with a server and a generator that are fakes."""

    def go(*more: str, code: int = 0, server: dict[str, Any] | None = None, **fault: Any) -> dict[str, Any]:
        site = add_generator(tmp_path / "site", "sglang", **fault)
        options = ("-e", str(site), "--python", sys.executable, "--site", str(site), "--crowd", "4")
        loads = ("--concurrency", "1,4", "--input", "64", "--output", "16", "--least", "8")
        with Fake(**(server or {})) as fake:
            assert run(["benchmark", fake.url, *options, *loads, "--json", *more]) == code
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return go


def test_a_benchmark_is_recorded_and_compared_by_its_id_or_file(
    measured: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = measured(), measured(speed=2.0)
    assert first["launches"][0]["outcome"] == "ok"
    file = tmp_path / "fast.json"
    file.write_text(json.dumps(second))
    html, text = tmp_path / "c.html", tmp_path / "c.md"
    both = ["compare", first["transcript"], str(file), "--html", str(html), "--markdown", str(text)]
    assert run(both) == 0
    told = capsys.readouterr().out
    assert "one launch on a side: no interval" in told
    assert "fast against " in told
    assert html.read_text().count("<svg") == 1
    assert "| load |" in text.read_text()
    assert run([*both, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["comparisons"][0]["rows"]
    assert {row["better"] for row in rows} == {0}, "one launch shows nothing"
    assert run(["replay", first["transcript"]]) == 0
    assert run(["replay", first["transcript"], "--verify"]) == 0


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"figures": [1]}, 2, "is no benchmark"),
        ({"input": None}, 2, "is no benchmark"),
        ({"figures": {"output_throughput": {"value": "x", "unit": ""}}}, 2, "is no benchmark"),
        ({"figures": {"output_throughput": {"value": -5, "unit": ""}}}, 1, "some of its figures are none"),
        (
            {"figures": {"output_throughput": {"value": math.nan, "unit": ""}}},
            1,
            "some of its figures are none",
        ),
        ({"figures": {"output_throughput": {"value": 0, "unit": ""}}}, 1, "no load was measured"),
        ({"concurrency": 10**400}, 1, "no load was measured"),
    ],
)
def test_figures_that_are_none_are_not_compared(
    change: dict[str, Any],
    code: int,
    says: str,
    measured: Callable[..., dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = measured()
    (tmp_path / "good.json").write_text(json.dumps(good))
    for cell in good["launches"][0]["benchmark"]["cells"]:
        cell |= change
    (tmp_path / "bad.json").write_text(json.dumps(good))
    page = tmp_path / "c.html"
    assert (
        run(["compare", *(str(tmp_path / f"{name}.json") for name in ("good", "bad")), "--html", str(page)])
        == code
    )
    told = capsys.readouterr()
    assert says in told.out + told.err


def test_a_server_that_fails_the_gate_is_not_measured(measured: Callable[..., dict[str, Any]]) -> None:
    found = measured(code=1, server={"fault": "characters"})
    assert found["launches"][0]["outcome"] == "wrong"
    assert found["launches"][0]["benchmark"] is None


def test_launches_are_started_checked_measured_and_ended_one_after_the_other(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = add_generator(fake_engine(tmp_path / "site"), "sglang")
    model = fake_model(tmp_path / "model")
    options = [
        "-e",
        str(site),
        "--python",
        sys.executable,
        "--site",
        str(site),
        "--model",
        str(model),
        "--cpu",
    ]
    loads = ["--concurrency", "2", "--input", "64", "--output", "16", "--least", "4", "--crowd", "4"]
    assert run(["benchmark", *options, *loads, "--launches", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["outcome"] for one in found["launches"]] == ["ok", "ok"]
    assert all(one["level"] == "benchmark" and one["ready_seconds"] > 0 for one in found["launches"])
    assert [one["left"] for one in found["launches"]] == [[], []]
    assert run(["benchmark", *options, *loads]) == 0
    assert "note: one launch" in capsys.readouterr().out


def test_one_that_is_gone_on_with_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = add_generator(tmp_path / "site", "sglang")
    there = ["-e", str(site), "--python", sys.executable, "--site", str(site)]
    assert run(["benchmark", "http://127.0.0.1:9", *there]) == 3
    assert run(["resume", "--last"]) == 4
    assert "was not granted" in (told := capsys.readouterr().err.splitlines()[-1])
    assert "give --run benchmarks" in told
    assert run(["resume", "--last", "--run", "benchmarks", *there[2:]]) == 3
    assert "does not answer" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["benchmark", "http://127.0.0.1:9", "--concurrency", "0"], 2, "is no list of numbers"),
        (["benchmark", "http://127.0.0.1:9", "--launches", "2"], 2, "is one launch"),
        (["benchmark", "http://127.0.0.1:9", "--attention", "x"], 2, "leave URL out"),
        (["benchmark", "http://127.0.0.1:9", "--tp", "1"], 2, "--tp is for a server that is launched"),
        (["benchmark", "http://127.0.0.1:9", "--tokenizer", "./x"], 2, "--tokenizer ./x: there is no such"),
        (["benchmark", "--model", "m", "--api-key-env", "X"], 2, "--api-key-env is for a server at URL"),
        (["compare", "a", "b", "--html", "missing/x.html"], 2, "--html missing/x.html cannot be written"),
        (["benchmark"], 2, "which model?"),
        (["compare", "a"], 2, "a"),
        (["compare", "a", "b"], 2, "a"),
    ],
)
def test_wrong_input_is_one_line(
    args: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == code
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("agent: ")
    assert says in error


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"launches": 3}', '{"launches": [{"benchmark": {}}]}', "[" * 99999]
)
def test_what_is_no_benchmark_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    assert run(["compare", str(file), str(file)]) == 2
    assert "is no benchmark" in capsys.readouterr().err
    file.write_text('{"launches": []}')
    assert run(["compare", str(file), str(file)]) == 2
    assert "measured no server" in capsys.readouterr().err
