"""The benchmarks run, and say what they measured. Whether it is fast enough is for a quiet machine to say."""

from __future__ import annotations

import json
import sys

import pytest
from program import ROOT, started


@pytest.mark.parametrize(
    ("script", "args", "rows"),
    [
        ("cli_start.py", ["--repeats", "1"], {"python -c pass", "agent --help", "explain", "backends"}),
        (
            "imports.py",
            ["--megabytes", "1", "--segments", "1"],
            {"import: Claude Code", "import: opencode storage"},
        ),
        ("diagnose.py", ["--megabytes", "2"], {"an engine at work", "failures without end", "one line"}),
        ("log.py", ["--events", "2000", "--appended", "5"], {"append: the log", "verify", "replay"}),
    ],
)
def test_a_benchmark_runs_and_judges_by_its_exit_code(script: str, args: list[str], rows: set[str]) -> None:
    finished = started([sys.executable, str(ROOT / "benchmarks" / script), *args, "--json"])
    document = json.loads(finished.stdout)
    assert rows <= {next(iter(row.values())) for row in document["measured"]}
    assert finished.returncode == (1 if document["over_budget"] else 0), finished.stderr
