"""What is installed is what is here: every data file is in the wheel, and it runs from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from program import python

from tools.environment.uv import find_uv

ROOT = Path(__file__).parent.parent
PACKAGES = ("memory", "transcripts", "tools", "agent")
USE_ALL_DATA = """
import agent, sys, tools
from agent.question import parse_question
from memory.architecture import gpus
from tools.engines.adapter import engines
from tools.engines.components import component_of
from tools.environment.pins import profiles
from tools.registry import registry
assert agent.__file__.startswith(sys.argv[1]) and tools.__file__.startswith(sys.argv[1]), tools.__file__
assert gpus() and engines() and profiles() and component_of("--moe-backend") == "moe_runner"
print(parse_question("x nvfp4 on sm120").arch, *sorted(registry()))
"""


def test_the_scripts_start_the_program() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert set(scripts) == {"agent", "assay"}
    for place in set(scripts.values()):
        module, _, function = place.partition(":")
        # As the script that an installer writes.
        done = python(f"from {module} import {function}; import sys; sys.argv[1:] = ['--help']; {function}()")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: agent ")


@pytest.mark.network  # fetches the build backend
def test_the_wheel_holds_all_and_runs_from_a_folder_with_the_same_names(tmp_path: Path) -> None:
    subprocess.run(
        [str(find_uv()), "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(ROOT)],
        check=True,
        env={"UV_SYSTEM_CERTS": "1", **os.environ},
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        archive.extractall(tmp_path / "site")
    there = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert held == there
    elsewhere = tmp_path / "elsewhere"
    for package in PACKAGES:
        (elsewhere / package).mkdir(parents=True)
        (elsewhere / package / "__init__.py").write_text("raise SystemExit('another package was imported')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"}
    for command, says in (
        (["-c", USE_ALL_DATA, str(tmp_path / "site")], "sm120 benchmark_server"),
        (["-m", "agent", "--help"], "investigate"),
    ):
        done = subprocess.run(
            [sys.executable, *command],
            capture_output=True, text=True, check=False, env=environment, cwd=elsewhere,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
