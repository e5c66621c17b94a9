"""Log and store under ``kill -9`` and in a crowd. A short run each time; ``ASSAY_STRESS`` multiplies it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.home import Home

TIMES = int(os.environ.get("ASSAY_STRESS", "1"))
ROOT = Path(__file__).parent.parent


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """In memory where there is such a folder: what is killed here is a process, not the machine."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else tmp_path) as folder:
        yield Home(Path(folder) / "home").prepare()


def run(scenario: str, home: Home, count: int, seed: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "stress.py"), scenario, str(home.root), str(count), seed],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_forty_kills_lose_nothing_and_rows_are_those_of_the_log(home: Home) -> None:
    seen = run("kills", home, 40 * TIMES, "kills")
    assert seen["kills"] >= 40 * TIMES
    # The moments are random: this says that they were of every kind.
    assert seen["events"] > 40
    assert seen["cuts"] >= 5
    assert seen["behind"] > 0


def test_a_transcript_is_born_with_its_first_event(home: Home) -> None:
    assert run("births", home, 40 * TIMES, "births")["logs"] > 40


def test_eight_write_at_once_and_nothing_is_lost(home: Home) -> None:
    """``ASSAY_STRESS=40`` makes it 1,000 writes each."""
    seen = run("writers", home, 25 * TIMES, "writers")
    assert seen["written"] == 8 * 25 * TIMES
    assert seen["findings"] == seen["written"], "the evidence of each is its own"
    assert seen["reads"] >= 2


def test_eight_read_write_replace_and_rebuild(home: Home) -> None:
    seen = run("crowd", home, 60 * TIMES, "crowd")
    assert seen.pop("events") >= 2 * (60 * TIMES + 1)
    assert len(seen) == 6
    assert min(seen.values()) >= 2, seen
