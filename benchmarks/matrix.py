"""What reading sources costs: the whole matrix of an environment, cold, then what was read before.

    python benchmarks/matrix.py FOLDER [--engine sglang] [--cell COMPONENT BACKEND] [--json]

``FOLDER`` holds unpacked packages. Cold is one run of every component on ten architectures, in seconds of
wall clock with the memory of all its processes (what they share counted once); warm is CPU, the median of 5.
Exit 1 if something is over its budget. What else the machine does falls on the wall clock: give it two idle
cores.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from measure import PROGRAM, medians, tell, variables

ARCHS = ("sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm103", "sm110", "sm120", "sm121")
BUDGETS = {"cold": 60.0, "memory": 1000.0, "warm": 1.0, "explain": 0.5}
"""Seconds; MB for memory."""
EVERY = 0.5
"""Seconds between two looks at the memory."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", default="sglang")
    parser.add_argument("--cell", nargs=2, default=["moe_runner", "auto"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    asked = ["-e", str(args.folder), "--engine", args.engine]
    matrix = [*PROGRAM, "backends", *asked, *(part for arch in ARCHS for part in ("--arch", arch))]
    with tempfile.TemporaryDirectory() as name:
        wall, cpu, memory = _cold(matrix, Path(name))
        explain = [*PROGRAM, "explain", *args.cell, *asked, "--arch", ARCHS[-1]]
        costs = medians({"warm": matrix, "explain": explain}, Path(name), 5)
    measured = {"cold": wall, "memory": memory, "warm": costs["warm"].cpu, "explain": costs["explain"].cpu}
    rows: list[dict[str, object]] = [
        {"what": what, "measured": f"{value:.3g}", "budget": f"{BUDGETS[what]:g}"}
        for what, value in measured.items()
    ]
    rows.insert(1, {"what": "cold, CPU", "measured": f"{cpu:.3g}", "budget": ""})
    return tell(rows, [what for what, value in measured.items() if value > BUDGETS[what]], args.json)


def _cold(command: Sequence[str], home: Path) -> tuple[float, float, float]:
    """Seconds of wall clock and of CPU, and MB at the most, of a command with all its children."""
    start, peak, used = time.monotonic(), 0, 0.0
    with subprocess.Popen(
        command, env=variables(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as one:
        process = psutil.Process(one.pid)
        while one.poll() is None:
            with contextlib.suppress(psutil.Error):
                family = [process, *process.children(recursive=True)]
                peak = max(peak, sum(member.memory_full_info().pss for member in family))
                used = max(used, sum(sum(member.cpu_times()[:2]) for member in family))
            time.sleep(EVERY)
    if one.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {one.returncode}")
    return time.monotonic() - start, used, peak / 1e6


if __name__ == "__main__":
    sys.exit(main())
