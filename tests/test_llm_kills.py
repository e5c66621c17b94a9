"""Investigations in which a model decides, under ``kill -9``. ``ASSAY_STRESS`` multiplies it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from program import ROOT, variables

TIMES = int(os.environ.get("ASSAY_STRESS", "1"))


def test_killed_at_any_moment_it_goes_on_to_the_same_findings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "kill_models.py"), str(tmp_path), str(10 * TIMES), "kills"],
        capture_output=True, text=True, check=False, env=variables(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kills"] >= 10 * TIMES
