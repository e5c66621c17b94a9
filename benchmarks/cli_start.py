"""What commands that only read cost: CPU time of whole processes, beside an empty Python.

    python benchmarks/cli_start.py [--repeats N] [--environment FOLDER --cell COMPONENT BACKEND] [--json]

Medians of user + system seconds; the ratio to ``python -c pass`` is what travels between machines. Without
``--environment`` the packages that are read are a tiny engine. Exit 1 if a command is over its budget.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from measure import EMPTY, PROGRAM, medians, run, tell

BUDGETS = {
    "agent --help": 0.15,
    "findings list": 0.4,
    "explain": 0.4,
    "backends": 1.0,
    "report --last": 0.4,
    "transcripts show": 0.4,
    "transcripts list": 0.4,
}
"""CPU seconds, when what is asked for was read before."""

TRANSCRIPTS = 2000
"""How many there are to list."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--environment", type=Path, help="a folder of packages with an engine")
    parser.add_argument("--cell", nargs=2, default=["fp4_gemm", "cedar"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine = args.environment or _engine(folder / "site-packages")
        home, many = folder / "home", folder / "many"
        asked = ["-e", str(engine), "--arch", "sm120"]
        # Whatever comes of it: some engines have no candidate.
        run(["sh", "-c", '"$@" || true', "sh", *PROGRAM, "investigate", "nvfp4 on sm120", *asked], home)
        (transcript,) = (home / "transcripts").glob("*.jsonl")
        _copies(transcript, many / "transcripts")
        listing = ["env", f"ASSAY_HOME={many}", *PROGRAM, "transcripts", "list"]
        costs = medians(
            {
                "agent --help": [*PROGRAM, "--help"],
                "findings list": [*PROGRAM, "findings", "list"],
                "explain": [*PROGRAM, "explain", *args.cell, *asked],
                "backends": [*PROGRAM, "backends", *asked, "--arch", "sm90", "--arch", "sm100"],
                "report --last": [*PROGRAM, "report", "--last"],
                "transcripts show": [*PROGRAM, "transcripts", "show", "--last"],
                "transcripts list": listing,
            },
            home,
            args.repeats,
        )
    empty = costs[EMPTY].cpu
    rows = [
        {
            "command": label,
            "cpu": f"{cost.cpu * 1000:.0f} ms",
            "ratio": f"{cost.cpu / empty:.1f} x",
            "budget": f"{BUDGETS[label] * 1000:.0f} ms" if label in BUDGETS else "",
        }
        for label, cost in costs.items()
    ]
    return tell(rows, [label for label, budget in BUDGETS.items() if costs[label].cpu > budget], args.json)


def _engine(root: Path) -> Path:
    from tiny_engine import write_engine

    return write_engine(root)


def _copies(transcript: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(TRANSCRIPTS):
        os.link(transcript, folder / f"20260101-{number:06x}.jsonl")


if __name__ == "__main__":
    sys.exit(main())
