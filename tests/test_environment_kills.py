"""Environments under ``kill -9``, and two who upgrade at once. ``ASSAY_STRESS`` multiplies it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from program import ROOT, SECONDS, START, agent, variables
from wheel_index import Index

from memory.home import Home
from tools.environment.store import open_environment

TIMES = int(os.environ.get("ASSAY_STRESS", "1"))


MANY = {f"sglang/part_{number}.py": f"number = {number}\n" for number in range(400)}
"""So that unpacking and taking over take long enough to be killed in."""


def published(index: Index) -> None:
    for engine, pin in (("0.5.9", "0.6.3"), ("0.5.10", "0.6.7")):
        index.add("sglang", engine, requires=(f"flashinfer_python=={pin}",), files=MANY)
    for number in range(3, 15):
        library = f"0.6.{number}"
        index.add("flashinfer-python", library, text=f"version = '{library}'\n")


def test_fifty_kills_always_leave_a_whole_current_environment(home: Home, index: Index) -> None:
    published(index)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "kill_upgrades.py"), str(home.root), str(50 * TIMES), "kills"],
        capture_output=True, text=True, check=False, env=variables(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["kills"] >= 50 * TIMES
    # The moments are random: this says that they were within everything that can be done.
    assert set(seen["in"]) >= {"create", "upgrade", "rollback"}, seen
    assert seen["making"] > 5, seen


def test_of_two_who_upgrade_at_once_the_second_goes_on_from_the_first(home: Home, index: Index) -> None:
    published(index)
    assert agent("environment", "create", "sglang==0.5.9", "flashinfer-python==0.6.5", "--name", "work",
                 home=home.root).returncode == 0  # fmt: skip
    wanted = ("sglang==0.5.10", "flashinfer-python==0.6.8")
    both = [
        subprocess.Popen(
            [*START, "environment", "upgrade", "work", "--to", one, "--yes"],
            env=variables(home.root), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for one in wanted
    ]  # fmt: skip
    for each in both:
        _, told = each.communicate(timeout=SECONDS)
        assert each.returncode == 0, told
    assert open_environment(home, "work").packages == {"sglang": "0.5.10", "flashinfer-python": "0.6.8"}
    assert agent("environment", "rollback", "work", home=home.root).returncode == 0
    assert agent("environment", "rollback", "work", home=home.root).returncode == 0
    assert open_environment(home, "work").packages == {"sglang": "0.5.9", "flashinfer-python": "0.6.5"}
