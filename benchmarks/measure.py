"""What the benchmarks share: whole processes measured in turns, and results that travel between machines.

Figures of one run stand beside a peer of the same run: seconds are this machine's, ratios are not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

PROGRAM = (sys.executable, "-m", "agent")
EMPTY = "python -c pass"
"""The peer of whole processes: an interpreter that does nothing."""


@dataclass(frozen=True)
class Cost:
    """Of one process: CPU (user + system) in seconds, and the most memory it held, in MB (10^6 bytes)."""

    cpu: float
    memory: float


def variables(home: Path) -> dict[str, str]:
    return {**os.environ, "ASSAY_HOME": str(home), "PYTHONPATH": str(ROOT)}


def run(command: Sequence[str], home: Path, lines: int | None = None) -> Cost:
    """Run a command and see what it cost. ``lines``: its reader goes away after so many."""
    with subprocess.Popen(
        command,
        env=variables(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if lines is None else subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        if process.stdout is not None and lines is not None:
            for _ in range(lines):
                process.stdout.readline()
            process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)


def medians(commands: Mapping[str, Sequence[str]], home: Path, repeats: int) -> dict[str, Cost]:
    """The median cost of each, run in turns so that what else the machine does falls on all alike.

    Each is run once before, so that byte code is written and files are cached.
    """
    everything = {EMPTY: [sys.executable, "-c", "pass"], **commands}
    for command in everything.values():
        run(command, home)
    costs: dict[str, list[Cost]] = {name: [] for name in everything}
    for _ in range(repeats):
        for name, command in everything.items():
            costs[name].append(run(command, home))
    return {
        name: Cost(statistics.median(one.cpu for one in found), max(one.memory for one in found))
        for name, found in costs.items()
    }


def tell(rows: Sequence[Mapping[str, object]], over: Sequence[str], as_json: bool) -> int:
    """Print what was measured; 1 if something is over its budget, else 0."""
    if as_json:
        print(json.dumps({"measured": list(rows), "over_budget": list(over)}, indent=1))
    else:
        for row in rows:
            print(
                "  ".join(
                    f"{value:>9}" if number else f"{value:30}" for number, value in enumerate(row.values())
                )
            )
        for name in over:
            print(f"over budget: {name}")
    return 1 if over else 0
