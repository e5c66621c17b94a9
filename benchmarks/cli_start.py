"""What starting the program costs: CPU time of commands that only read, beside an empty Python.

    python benchmarks/cli_start.py [--repeats N] [--json]

Medians of user + system CPU seconds of whole processes; the ratio to ``python -c pass`` is what travels
between machines. Exit 1 if a command is over its budget.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGETS = {"agent --help": 0.15, "findings list": 0.4, "transcripts show": 0.4}
"""CPU seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, "ASSAY_HOME": name, "PYTHONPATH": str(ROOT)}
        transcript = _recorded(Path(name))
        program = [sys.executable, "-m", "agent.cli.main"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "agent --help": [*program, "--help"],
            "findings list": [*program, "findings", "list"],
            "transcripts show": [*program, "transcripts", "show", str(transcript)],
        }
        for command in commands.values():
            _cpu(command, environment)  # warm: byte code is written, files are cached
        # Interleaved, so that what else the machine does falls on all alike.
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(args.repeats):
            for label, command in commands.items():
                seconds[label].append(_cpu(command, environment))
    medians = {label: statistics.median(times) for label, times in seconds.items()}
    empty = medians["python -c pass"]
    over = [label for label, budget in BUDGETS.items() if medians[label] > budget]
    if args.json:
        print(json.dumps({"cpu_seconds": medians, "over_budget": over}))
    else:
        for label, median in medians.items():
            budget = f"budget {BUDGETS[label] * 1000:.0f} ms" if label in BUDGETS else ""
            print(f"{label:18} {median * 1000:6.0f} ms CPU  {median / empty:5.1f} x  {budget}")
    return 1 if over else 0


def _cpu(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _recorded(home: Path) -> Path:
    """A transcript of 400 events and the findings database that belongs to it."""
    sys.path.insert(0, str(ROOT))
    from memory.clock import FixedClock
    from memory.home import Home
    from memory.store import Store
    from transcripts.catch_up import catch_up
    from transcripts.events import Noted, Opened
    from transcripts.log import Log

    prepared = Home(home).prepare()
    path = prepared.transcripts / "20260307-abcdef.jsonl"
    opened = Opened(investigation=path.stem, program="benchmark", driver="none", question="q", seed=0)
    with Log.create(path, opened, FixedClock()) as log:
        for number in range(400):
            log.append(Noted(text=f"event {number} " + "x" * 200))
    with Store(prepared) as store:
        catch_up(store, prepared.transcripts)
    return path


if __name__ == "__main__":
    sys.exit(main())
