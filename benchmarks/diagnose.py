"""Diagnosing logs that are long or odd: CPU seconds and memory, beside a program that only reads them.

    python benchmarks/diagnose.py [--megabytes 1024] [--json]

Budgets: 5 s and 200 MB, whatever the log is. Exit 1 if something is over them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import PROGRAM, ROOT, run

SECONDS = 5.0
MEGABYTES = 200.0
LINE = b"[2026-03-07 19:20:40 TP0] Decode batch. #running-req: 64, #token: 12345, gen throughput: 1234.56\n"
READ = "import sys; from pathlib import Path; f = Path(sys.argv[1]).open('rb')\nwhile f.read(1 << 20): pass"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, over = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, unit in _kinds():
            log = folder / "log"
            with log.open("wb") as file:
                for _ in range(args.megabytes * 1_000_000 // len(unit)):
                    file.write(unit)
                file.write(b" torch.OutOfMemoryError: CUDA out of memory\n")
            read = run([sys.executable, "-c", READ, str(log)], folder / "home")
            cost = run([*PROGRAM, "diagnose", str(log), "--json"], folder / "home")
            rows.append(
                {"log": kind, "cpu": round(cost.cpu, 2), "memory": round(cost.memory), "read": read.cpu}
            )
            if cost.cpu > SECONDS or cost.memory > MEGABYTES:
                over.append(kind)
    if args.json:
        print(json.dumps({"measured": rows, "over_budget": over}))
    else:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    return 1 if over else 0


def _kinds() -> Iterator[tuple[str, bytes]]:
    failing = (ROOT / "tests" / "logs" / "fp4-trtllm-on-sm120.log").read_bytes()
    yield "an engine at work", LINE * 9000
    yield "failures without end", failing * (1_000_000 // len(failing))
    yield "one line", b"x " * 500_000


if __name__ == "__main__":
    sys.exit(main())
