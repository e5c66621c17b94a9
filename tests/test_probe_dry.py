"""``agent probe dry-run``: an engine's own start-up beside a device that is simulated, next to reading."""

from __future__ import annotations

import json
import venv
from pathlib import Path
from typing import Any

import pytest
from tiny_engine import write_engine

from agent.cli.main import run
from memory.home import Home
from memory.views import Views
from tools.probe.agreeing import agreement

TORCH = """\
__version__ = "0.0"
class version:
    cuda = None
class cuda:
    def is_available():
        return False
def device(name):
    return name
"""
START = """

import loom_kernels
import torch


def gate(args):
    if args.fp4_gemm_backend == "cedar" and torch.cuda.get_device_capability()[0] != 10:
        raise ValueError("cedar needs 10.x")


def prepare_server_args(argv):
    import argparse
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    args = parser.parse_args(argv)
    assert torch.cuda.is_available() and torch.version.cuda == "13.0"
    if args.fp4_gemm_backend == "auto":
        args.fp4_gemm_backend = "birch" if torch.cuda.get_device_capability() == (12, 0) else "cedar"
    if args.fp4_gemm_backend == "amber":
        loom_kernels.weave(1)
    if args.moe_runner_backend == "dune":
        args.moe_runner_backend = "birch"
    gate(args)
    return args
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    venv.create(tmp_path / "venv", symlinks=True)
    (folder,) = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    write_engine(folder)
    options = folder / "sglang" / "srt" / "server_args.py"
    options.write_text(options.read_text() + START.replace("loom_kernels", "sgl_kernel"))
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(TORCH)
    (folder / "sgl_kernel.py").write_text("raise OSError('libcuda.so.1: cannot open shared object file')\n")
    return folder


def cells(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document = json.loads(capsys.readouterr().out)
    assert document["simulated"] is True
    return {one["cell"]: one for one in document["rows"]}


@pytest.mark.parametrize(
    ("arch", "auto", "cedar"), [("sm120", "birch", "unsupported"), ("sm100", "cedar", "ok")]
)
def test_start_up_decides_as_beside_that_device(
    arch: str, auto: str, cedar: str, site: Path, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe", "dry-run", "--arch", arch, "-e", str(site), "--no-read", "--json"]) == 0
    rows = cells(capsys)
    for name in ("left alone", "auto"):
        assert rows[f"fp4_gemm {name} on {arch}"]["resolved"]["fp4_gemm"] == auto
        assert rows[f"fp4_gemm {name} on {arch}"]["outcome"] == "ok"
    refused = rows[f"fp4_gemm cedar on {arch}"]
    assert refused["outcome"] == cedar
    if cedar == "unsupported":
        assert "ValueError: cedar needs 10.x" in refused["because"]
        assert refused["where"][0] == "sglang/srt/server_args.py"
    assert rows[f"moe_runner dune on {arch}"]["outcome"] == "substituted"
    # What is not there stands for nothing: a call of it decides nothing.
    assert rows[f"fp4_gemm amber on {arch}"]["outcome"] == "not_run"
    assert rows[f"fp4_gemm birch on {arch}"]["blank"] == ["sgl_kernel"]
    kept = Views(home).findings()
    assert {one["outcome"] for one in kept} <= {"unsupported", "substituted"}, "never that it works"
    assert {json.loads(one["scenario"])["device"] for one in kept} == {"simulated"}


def test_it_is_compared_with_what_reading_says(
    site: Path, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe", "dry-run", "fp4_gemm", "--arch", "sm120", "-e", str(site)]) == 0
    said = capsys.readouterr().out
    assert "simulated, nothing ran; beside reading: " in said
    assert "works" not in said


ROW: dict[str, Any] = {
    "verdict": "blocked",
    "runs_instead": None,
    "evidence": [{"file": "loom/gates.py", "line": 7}],
}
CELL = {"component": "fp4_gemm", "backend": "elm"}


def became(value: str, *reached: list[int]) -> dict[str, Any]:
    return {"resolved": {"fp4_gemm": value}, "reached": {"loom/gates.py": list(reached)}}


def leads(to: str) -> dict[str, Any]:
    return {"verdict": "rerouted", "runs_instead": to}


PASSES = {"verdict": "no_static_obstacle"}


@pytest.mark.parametrize(
    ("outcome", "measured", "row", "agrees"),
    [
        ("unsupported", {"where": ["loom/gates.py", 7]}, {}, "agrees"),
        ("ok", became("elm"), {}, "decided deeper"),
        ("ok", became("elm", [9, 20]), {}, "decided deeper"),
        ("ok", became("elm", [3, 9]), {}, "differs"),
        ("ok", became("elm"), PASSES, "agrees"),
        ("unsupported", {"where": None}, PASSES, "differs"),
        ("substituted", became("fir"), leads("fir"), "agrees"),
        ("substituted", became("fir"), leads("oak"), "differs"),
        ("ok", became("elm"), leads("oak"), "decided later"),
        ("ok", {}, {"verdict": "unknown"}, "not decided"),
        ("not_run", {}, {}, "not decided"),
    ],
)
def test_a_difference_is_one_only_where_start_up_passes_the_line(
    outcome: str, measured: dict[str, Any], row: dict[str, Any], agrees: str
) -> None:
    assert agreement(CELL, outcome, measured, {"row": {**ROW, **row}})[0] == agrees


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["teapot"], "has no component 'teapot' here"),
        (["--backend", "teapot"], "no backend teapot of "),
        (["--engine", "vllm"], "no dry run of vllm is known"),
        (["--model-config", "nowhere.json"], "cannot read nowhere.json"),
    ],
)
def test_wrong_input_is_said_in_a_line(
    words: list[str], says: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe", "dry-run", "--arch", "sm120", "-e", str(site), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
