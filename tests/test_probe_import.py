"""What came back from elsewhere: read as data, bound to its plan, judged in the words of the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_probe_plan import library

from agent.cli.main import run
from memory.home import Home
from memory.views import Views
from tools.environment.model import Environment
from tools.probe.judge import judged
from tools.probe.pack import make_plan, pack
from tools.probe.plan import Cell, Plan, cells_of
from tools.probe.results import read_results

HERE = {
    "torch": "2.11.0",
    "cuda": "13.0",
    "gpu": {"name": "Teapot", "capability": "9.0", "memory": 1, "processors": 1},
}
RIGHT: dict[str, Any] = {
    "ended": "returned",
    "seconds": 1.5,
    "used": None,
    "checks": [{"m": 1, "routing": "even", "outcome": None, "faults": [], "figures": {}}],
    "repeats": {"m": 1, "count": 50, "different": 0, "largest_difference": 0.0, "faults": []},
    "timing": [{"m": 1, "median": 0.25, "do_bench": 0.251}, {"m": 9, "median": 0.25, "do_bench": 0.5}],
}
CELL = Cell(id="x", kind="kernel", component="fp4_gemm", backend="mm_fp4:elm", choice="elm", seconds=9)


def raised(kind: str, message: str, *kinds: str, stage: str = "first call") -> dict[str, Any]:
    error = {"type": kind, "kinds": [kind, *kinds], "message": message, "traceback": ""}
    return {"ended": "raised", "stage": stage, "error": error}


def checked(**check: Any) -> dict[str, Any]:
    return {**RIGHT, "checks": [*RIGHT["checks"], {"m": 7, "outcome": None, "faults": [], **check}]}


@pytest.mark.parametrize(
    ("row", "outcome", "because"),
    [
        (RIGHT, "ok", "right at 1 sizes; 50 repeats, the same bits each time"),
        (checked(outcome="nan", faults=["1 of 7 rows"]), "nan", "at m = 7: 1 of 7 rows"),
        (checked(outcome="wrong", faults=["all zero"]), "wrong", "at m = 7: all zero"),
        (checked(error="ValueError: m must be even"), "crashed", "at m = 7: ValueError: m must be even"),
        ({**RIGHT, "streams": {"faults": ["zero"]}}, "stress_failed", "right alone, on two streams not: "),
        ({**RIGHT, "used": "oak"}, "substituted", "elm was asked for, oak ran"),
        ({**RIGHT, "checks": []}, "not_run", "nothing was checked"),
        (
            raised("BackendSupportedError", "mm_fp4 does not support backend 'elm' with capability 90"),
            "unsupported",
            "BackendSupportedError: mm_fp4 does not support backend 'elm' with capability 90",
        ),
        (raised("UnboundLocalError", "no value", "NameError"), "not_run", "no kernel was reached: Unbound"),
        (raised("OutOfMemoryError", "tried"), "out_of_memory", "OutOfMemoryError: tried"),
        (raised("RuntimeError", "Ninja build failed. error: x"), "compile_failed", "RuntimeError: Ninja"),
        (raised("CompileError", "fatal error: curand.h: No such file or directory"),
         "environment_suspect", "the compiler here lacks curand.h"),
        (raised("RuntimeError", "Could not find nvcc and default cuda_home='/x' doesn't exist"),
         "environment_suspect", "there is no nvcc here to compile with"),
        (raised("FileNotFoundError", "[Errno 2] No such file or directory: 'ninja'", "OSError"),
         "environment_suspect", "there is no ninja here to compile with"),
        (raised("CompileError", "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"),
         "environment_suspect", "the compiler did not come to its end here: died due to signal 9"),
        (raised("CompileError", "c++: fatal error: Killed signal terminated program cc1plus"),
         "environment_suspect", "the compiler did not come to its end here: Killed"),
        (raised("CompileError", "'cicc' died due to signal 11"), "compile_failed", "CompileError: 'cicc'"),
        (raised("RuntimeError", "Ninja build failed: Killed"), "environment_suspect", "the compiler did"),
        (raised("CompilationError", "at 1:0: no such operation"), "compile_failed", "CompilationError: at"),
        (raised("CompileError", "/bin/sh: 1: /usr/bin/nvcc: not found", "RuntimeError"),
         "environment_suspect", "there is no nvcc here to compile with"),
        (raised("ImportError", "libx.so", stage="importing the library"), "import_failed", "ImportError"),
        ({"ended": "died", "code": -11, "stage": "sizes"}, "crashed", "the process ended with -11 "),
        ({"ended": "timed_out", "limit": 9, "stage": "sizes"}, "hung", "no end after 9 s while: sizes"),
        ({"ended": "timed_out", "limit": 9, "compiling": ["nvcc"]}, "not_run", "still compiling after 9 s"),
        ({"ended": "memory"}, "out_of_memory", "it took more of the machine's memory"),
        ({"ended": "unfit", "error": {"type": "UnfitError", "message": "needs z"}}, "not_run", "not tried: "),
    ],
)  # fmt: skip
def test_a_row_is_told_in_one_word_and_one_sentence(row: dict[str, Any], outcome: str, because: str) -> None:
    found = judged(CELL, row)
    assert found.outcome == outcome
    assert found.because.startswith(because)


def test_what_our_operands_may_be_to_blame_for_is_not_the_backends() -> None:
    cell = CELL.model_copy(update={"operation": "mm_fp4", "choice": "trtllm"})
    assert judged(cell, checked(outcome="wrong", faults=["all zero"])).outcome == "not_run"
    refused = raised("BackendSupportedError", "mm_fp4 does not support backend 'trtllm' with capability 90")
    assert judged(cell, refused).outcome == "unsupported"


def test_operands_that_were_right_on_no_gpu_blame_a_kernel_only_where_it_is_right_at_a_size() -> None:
    cell = CELL.model_copy(update={"operation": "cutlass_fused_moe_nvfp4", "choice": None})
    never = judged(cell, {**RIGHT, "checks": [{"m": 1, "outcome": "wrong", "faults": ["off by half"]}]})
    assert (never.outcome, never.because[:41]) == ("not_run", "not judged: no GPU has had these operands")
    assert judged(cell, checked(outcome="nan", faults=["1 of 7 rows"])).outcome == "nan"
    assert judged(cell, RIGHT).outcome == "ok"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return library(tmp_path / "site")


@pytest.fixture
def plan(environment: Environment, home: Home, tmp_path: Path) -> Plan:
    made = make_plan(environment, cells_of(environment, ["fp4_gemm"], ["elm", "oak"]))
    pack(made, tmp_path / "pack", home)
    return made


def results(folder: Path, plan: str, rows: dict[str, dict[str, Any]], device: str = "cuda") -> Path:
    gpu = {"name": "Teapot", "driver": "1.0", "uuid": "GPU-0"} if device == "cuda" else None
    lines = [{"header": {"format": 1, "plan": plan, "device": device, "gpu": gpu}}, {"here": HERE}]
    lines += [{"row": {"cell": name, **row}} for name, row in rows.items()]
    path = folder / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def imported(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["probe", "import", str(path), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_results_become_findings_of_level_imported(
    plan: Plan, home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {
        "mm_fp4:elm": RIGHT,
        "mm_fp4:elm@1": checked(outcome="nan", faults=["7 rows"]),
        "mm_fp4:oak": raised("ModuleNotFoundError", "No module named 'kiln'", "ImportError"),
    }
    document = imported(results(tmp_path, plan.sha256, rows), capsys)
    assert [row["outcome"] for row in document["rows"]] == ["import_failed", "ok", "nan"]
    assert document["refused"] == []
    assert "1 cells have no row" in document["summary"]
    found = Views(home).findings(statuses=())
    assert {(row["backend"], row["outcome"], row["level"], row["arch"]) for row in found} == {
        ("mm_fp4:elm", "ok", "imported", "sm90"),
        ("mm_fp4:elm", "nan", "imported", "sm90"),
    }
    times = {one["value"] for row in found for one in json.loads(row["claim"])["measurements"]}
    assert times == {0.25}, "a time is claimed where two ways of timing agree, and of what is right"
    assert run(["replay", document["transcript"]]) == 0
    assert run(["replay", document["transcript"], "--verify"]) == 0


def test_a_rehearsal_is_never_measured(
    plan: Plan, home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = imported(results(tmp_path, plan.sha256, {"mm_fp4:elm": RIGHT}, device="cpu"), capsys)
    assert [(row["outcome"], row["arch"]) for row in document["rows"]] == [("not_run", None)]
    assert Views(home).findings(statuses=()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "this is no file of results"),
        ("[]\n", "line 1 is no JSON object"),
        ("[" * 100_000 + "\n", "line 1 is no JSON object"),
        ('{"row": {}}\n', "line 1 comes before any header"),
        ('{"header": {"plan": "PLAN"}}\n{"row": {"cell": 3, "ended": "x"}}\n', "line 2 is no row of results"),
        ('{"header": {"plan": "PLAN"}}\n{"header": {"plan": "b"}}\n', "line 2 is of another plan"),
        (
            '{"header": {"plan": "PLAN"}}\n{"row": {"cell": "zz", "ended": "died"}}\n',
            "is of no cell of the plan",
        ),
        ('{"header": {"plan": "' + "0" * 64 + '"}}\n', "was not packed in this home"),
        ('{"header": {"plan": "../../etc/passwd"}}\n', "was not packed in this home"),
    ],
)
def test_what_is_no_file_of_results_is_refused_in_a_line(
    plan: Plan, tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(text.replace("PLAN", plan.sha256))
    assert run(["probe", "import", str(path)]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_a_hostile_row_changes_nothing_but_its_own_words(
    plan: Plan, home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = raised("Error\x1b[2J", "\x1b]0;owned\x07 [bold]", stage="\u202e")
    path = results(tmp_path, plan.sha256, {"mm_fp4:elm": {**row, "outcome": "ok", "level": "benchmark"}})
    assert run(["probe", "import", str(path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert {row["outcome"] for row in Views(home).findings(statuses=())} <= {"crashed"}


def test_results_are_of_the_environment_that_was_packed(
    plan: Plan, home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = library(tmp_path / "other", "9.10")
    path = results(tmp_path, plan.sha256, {"mm_fp4:elm": RIGHT})
    assert run(["probe", "import", str(path), "-e", other.path, "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["findings"] == []
    assert "name that environment" in document["refused"][0]


def test_a_torn_last_line_is_a_cell_without_a_row(plan: Plan) -> None:
    whole = json.dumps({"header": {"plan": plan.sha256, "device": "cuda"}}) + "\n"
    read = read_results((whole + '{"row": {"cell').encode())
    assert (read.rows, read.torn) == ({}, True)


@pytest.mark.parametrize(
    ("part", "junk"),
    [
        ("checks", 5),
        ("checks", [{"outcome": []}]),
        ("repeats", "x"),
        ("error", 7),
        ("used", {"a": []}),
        ("timing", [{"m": 1, "median": "9" * 9}, 4, {"m": [], "median": 1e400}]),
        ("timing", {"a": 1}),
        ("seconds", "x"),
        ("streams", [1]),
    ],
)
def test_whatever_a_row_holds_is_a_result_or_refused(
    plan: Plan, tmp_path: Path, part: str, junk: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for ended in ("returned", "raised"):
        row = {**RIGHT, "ended": ended, part: junk}
        path = results(tmp_path, plan.sha256, {"mm_fp4:elm": row, "mm_fp4:oak": RIGHT})
        document = imported(path, capsys)
        assert "ok" in {row["outcome"] for row in document["rows"]}
        assert "unexpected" not in str(document)
