"""``agent probe`` at the command line: what it lacks and what it cannot do is one line, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_probe_plan import library

from agent.cli.main import run
from memory.home import Home


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "name a component, or all; or one of: pack, import, compile, dry-run"),
        (["fp4_gemm"], 2, "6 cells may take 12 minutes of a GPU; say how many: --gpu-minutes N"),
        (["fp4_gemm", "--gpu-minutes", "1"], 3, "no GPU to run on (no nvidia-smi on PATH"),
        (["fp4_gemm", "--gpu-minutes", "nan"], 2, "nan is no number that ends"),
        (["fp4_gemm", "--gpu-minutes", "inf"], 2, "inf is no number that ends"),
        (["teapot", "--gpu-minutes", "1"], 2, "no probe for 'teapot'"),
        (["fp4_gemm", "--backend", "birch", "--gpu-minutes", "1"], 2, "no backend birch to probe"),
        (["pack", "--to", "there"], 2, "is not empty; give a new folder"),
        (["import", "nowhere"], 2, "cannot read nowhere: No such file or directory"),
        (["compile", "--arch", "teapot"], 2, "teapot"),
        (["compile", "--arch", "sm70", "mm_fp4"], 2, "no module to compile for sm70"),
    ],
)
def test_what_is_lacking_is_said_in_a_line(
    words: list[str],
    code: int,
    says: str,
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = library(tmp_path / "site").path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    named = ["-e", site] if words else []
    assert run(["probe", *words, *named]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert list(home.transcripts.iterdir()) == []


@pytest.mark.parametrize("backend", [["--backend", "mm_fp4:cutlass"], ["--no-read"]])
def test_an_environment_that_is_only_read_is_not_run(
    backend: list[str], home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = library(tmp_path / "site").path
    assert run(["probe", "compile", "--arch", "sm120", "-e", site, *backend, "--json"]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert "is only read; probes need a full one: agent environment create --full" in line
    assert list(home.transcripts.iterdir()) == [], "nothing was read for what cannot be run"


def test_pack_writes_what_import_takes(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = library(tmp_path / "site").path
    assert run(["probe", "pack", "fp4_gemm", "--to", str(tmp_path / "pack"), "-e", site, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cells"][0] == "mm_fp4:oak"
    words = ["probe", "pack", "fp4_gemm", "--seconds", "40", "--controls", "-e", site]
    assert run([*words, "--to", str(tmp_path / "short")]) == 0
    cells = json.loads((tmp_path / "short" / "plan.json").read_text())["cells"]
    assert {one["seconds"] for one in cells if one["kind"] == "kernel"} == {40}
    assert 40 not in {one["seconds"] for one in cells if one["kind"] == "control"}
    capsys.readouterr()
    header = json.dumps({"header": {"plan": document["plan"], "device": "cpu"}}) + "\n"
    (tmp_path / "results.jsonl").write_text(header)
    assert run(["probe", "import", str(tmp_path / "results.jsonl")]) == 0
    assert "nothing ran; 0 findings; 6 cells have no row" in capsys.readouterr().out
