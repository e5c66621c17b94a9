"""``agent environment compare``: what another environment changes for a target."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from program import agent, one_line
from test_cli_light import known_engine
from wheel_index import Index

from memory.home import Home

GATE = "minilib/gemm.py"
REFUSES = "@supported_compute_capability([100, 103])"
OPTIONS = "sglang/srt/server_args.py"


def edit(root: Path, file: str, old: str, new: str) -> None:
    text = (root / file).read_text(encoding="utf-8")
    assert old in text
    with next(root.glob(f"{file.split('/', 1)[0]}-*/RECORD")).open("a", encoding="utf-8") as record:
        record.write(f"{file},sha256=x,1\n")  # a release of its own, not one that was edited in place
    (root / file).write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The small engine, and a home in which a question was answered from it. Neither is to be changed."""
    folder = tmp_path_factory.mktemp("answered")
    engine, home = known_engine(folder / "one"), folder / "home"
    asked = agent("investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine), home=home)
    assert asked.returncode in {0, 1, 4}, asked.stderr
    return engine, home


@pytest.fixture
def sides(answered: tuple[Path, Path], home: Home, tmp_path: Path) -> tuple[Path, Path]:
    """The small engine and a copy of it; the home knows the findings of the first."""
    shutil.copytree(answered[1], home.root, dirs_exist_ok=True)
    return answered[0], Path(shutil.copytree(answered[0], tmp_path / "two" / "site-packages"))


def compared(home: Home, sides: tuple[Path, Path], *options: str) -> dict[str, Any]:
    finished = agent("environment", "compare", *map(str, sides), *options, "--json", home=home.root)
    assert finished.returncode == 0, finished.stderr
    return dict(json.loads(finished.stdout))


def test_what_is_the_same_differs_in_nothing(home: Home, sides: tuple[Path, Path]) -> None:
    found = compared(home, sides, "--arch", "sm120", "--component", "fp4_gemm")
    assert (found["packages"], found["options"], found["stale"]) == ([], [], [])
    assert found["verdicts"]["changed"] == []


def test_options_defaults_verdicts_and_findings_that_changed(home: Home, sides: tuple[Path, Path]) -> None:
    before, after = sides
    edit(after, GATE, REFUSES, "@supported_compute_capability([100, 103, 120])")
    edit(after, OPTIONS, '    "flax",\n', '    "grove",\n')
    found = compared(home, sides, "--arch", "sm120", "--component", "fp4_gemm", "--quantisation", "nvfp4")

    (option,) = [one for one in found["options"] if one["component"] == "fp4_gemm"]
    assert (option["appeared"], option["gone"]) == (["grove"], ["flax"])
    changed = {one["backend"]: one for one in found["verdicts"]["changed"]}
    assert changed["birch"]["before"]["verdict"] == "blocked"
    assert changed["grove"]["before"] is None
    gates = [one for one in found["stale"] if one["file"] == GATE]
    assert gates, found["stale"]
    assert all(REFUSES in one["text"] for one in gates)
    # The other way round nothing of what was found is lost.
    assert found["stands"] > 0
    assert compared(home, (before, before))["stale"] == []

    shown = agent("environment", "compare", str(before), str(after), home=home.root).stdout
    assert "option --fp4-gemm-backend +grove -flax" in shown
    assert f"{GATE}:22 is not there any more: {REFUSES}" in shown


def test_going_back_says_how_much_is_known_there(home: Home, sides: tuple[Path, Path]) -> None:
    for side in sides[::-1]:
        assert agent("environment", "adopt", str(side), home=home.root).returncode == 0
    known = len(json.loads(agent("findings", "list", "--json", home=home.root).stdout)["findings"])
    back = agent("environment", "rollback", "--to", str(sides[0]), home=home.root)
    assert back.stdout == f"current stands for {sides[0]}\n"
    assert f"findings that are about it: {known}" in back.stderr


def test_lines_that_only_moved_keep_their_findings(home: Home, sides: tuple[Path, Path]) -> None:
    after = sides[1]
    gate = after / GATE
    gate.write_text("# a line more\n" * 30 + gate.read_text(encoding="utf-8"), encoding="utf-8")
    assert compared(home, sides)["stale"] == []


def test_a_name_alone_is_compared_with_what_it_stood_for(home: Home, index: Index) -> None:
    index.add("sglang", "0.5.9", requires=("minilib==1",))
    for version in ("1", "2"):
        index.add("minilib", version)
    one_line(agent("environment", "compare", home=home.root), 2, "stood for nothing before")
    create = ("environment", "create", "sglang==0.5.9", "minilib==1")
    assert agent(*create, home=home.root).returncode == 0
    assert agent("environment", "upgrade", "--to", "minilib==2", "--yes", home=home.root).returncode == 0
    shown = agent("environment", "compare", "--engine", "vllm", home=home.root).stdout
    assert "package minilib 1 → 2" in shown
