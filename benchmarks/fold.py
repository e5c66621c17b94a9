"""What making the database again costs: a log of many events, folded into rows.

    python -P benchmarks/fold.py [--events N] [--json]

One event in ten is a finding, two are hypotheses; half of the findings are of one scope. Prints events per
CPU second, and how many times longer that is than reading them; the longest transaction with its commit (CPU
and wall); the peak of memory for all of the log and for a tenth of it; how long the new rows take to replace
the old ones; what one event of a live investigation costs. Exit 1 if a budget is exceeded.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from memory.canonical import finding_id  # noqa: E402
from memory.clock import SystemClock  # noqa: E402
from memory.home import Home  # noqa: E402
from memory.store import Store, Writing  # noqa: E402
from memory.vocabulary import Claim, Effect, Evidence, Finding, HypothesisState, Level, Verdict  # noqa: E402
from transcripts.catch_up import Follower, catch_up  # noqa: E402
from transcripts.chain import encode  # noqa: E402
from transcripts.events import GENESIS, Body, Called, Found, HypothesisChanged, Noted, Opened, Returned  # noqa: E402
from transcripts.log import Log  # noqa: E402
from transcripts.reader import records  # noqa: E402

LONGEST_MS = 50
GROWTH_MIB = 8
"""Budgets: CPU of a transaction, and memory that a log of ten times the length may take more."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--home", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.home:
        print(json.dumps(measure(Home(Path(args.home)), args.events)))
        return 0
    result: dict[str, Any] = {}
    for events in (args.events // 10, args.events):
        with tempfile.TemporaryDirectory() as name:
            home = Home(Path(name)).prepare()
            write(home, events)
            # In a process of its own, so that its memory is what the folding needs.
            command = [sys.executable, "-P", __file__, "--events", str(events), "--home", name]
            found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            result = {**found, "peak_mib_tenth": result.get("peak_mib", found["peak_mib"])}
    over = [
        name
        for name, exceeded in {
            "longest_cpu_ms": result["longest_cpu_ms"] > LONGEST_MS,
            "peak_mib": result["peak_mib"] > result["peak_mib_tenth"] + GROWTH_MIB,
        }.items()
        if exceeded
    ]
    if args.json:
        print(json.dumps({**result, "over_budget": over}))
    else:
        for key, value in result.items():
            print(f"{key:24} {value:10.1f}")
    return 1 if over else 0


def measure(home: Home, events: int) -> dict[str, float]:
    longest = {"cpu": 0.0, "wall": 0.0}

    class Timed(Store):
        @contextmanager
        def write(self) -> Iterator[Writing]:
            with super().write() as writing:
                cpu, wall = time.process_time(), time.perf_counter()
                yield writing
            longest["cpu"] = max(longest["cpu"], time.process_time() - cpu)
            longest["wall"] = max(longest["wall"], time.perf_counter() - wall)

    gc.freeze()  # a full collection of what was imported takes 40 ms once, wherever it falls
    cpu = time.process_time()
    read = sum(1 for _ in records(home.transcripts / "long.jsonl"))
    reading = time.process_time() - cpu
    assert read == events
    cpu = time.process_time()
    with Timed(home) as store:
        assert catch_up(store, home.transcripts) == []
        cpu = time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        with Store(home, aside=True) as fresh:
            catch_up(fresh, home.transcripts)
            wall = time.perf_counter()
            store.replace(fresh)
            replaced = time.perf_counter() - wall
    return {
        "events_per_cpu_second": events / cpu,
        "times_reading": cpu / reading,
        "longest_cpu_ms": longest["cpu"] * 1000,
        "longest_wall_ms": longest["wall"] * 1000,
        "peak_mib": peak,
        "replace_ms": replaced * 1000,
        "live_cpu_ms": live(home) * 1000,
    }


def live(home: Home) -> float:
    """CPU seconds for one event of an investigation that is being written."""
    path, cpu, times = home.transcripts / "live.jsonl", 0.0, 200
    opened = Opened(investigation="live", program="p", driver="d", question="q", seed=0)
    with Log.create(path, opened, SystemClock()) as log, Follower(home, print) as follower:
        fold = follower.follow(path)
        for number in range(times):
            event = log.append(Noted(text=f"note {number}"))
            start = time.process_time()
            fold(event)
            cpu += time.process_time() - start
    return cpu / times


def write(home: Home, events: int) -> None:
    prev = GENESIS
    with (home.transcripts / "long.jsonl").open("wb") as file:
        for number in range(events):
            at = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
            line, prev = encode(number, at, body(number).model_dump(mode="json"), prev)
            file.write(line)


def body(number: int) -> Body:
    match number % 10:
        case _ if number == 0:
            return Opened(investigation="long", program="p", driver="d", question="q", seed=0)
        case 2 | 6:
            return HypothesisChanged(
                id=f"h{number % 3000}", component="c", backend="b", arch="sm120",
                state=HypothesisState.OPEN, because=f"event {number}",
            )  # fmt: skip
        case 3:
            line = Evidence(
                package="lib", version="1", file="a.py", line=number, end_line=number, sha256="0" * 64,
                text="x = 1", idiom="i",
            )  # fmt: skip
            backend = "b" if number % 20 == 3 else f"b{number}"
            claim = Claim(
                component="c", backend=backend, arch="sm120", engine="e", packages={"lib": "1"},
                level=Level.STATIC, source_evidence=(line,), verdict=Verdict.BLOCKED,
            )  # fmt: skip
            name = finding_id(claim.model_dump(mode="json"))
            return Found(finding=Finding(id=name, claim=claim, transcript="long", event=number))
        case 1 | 5 | 9:
            return Returned(call=f"c{number - 1}", status="ok", output="x" * (number * 7919 % 2000))
        case _:
            return Called(call=f"c{number}", tool="t", effect=Effect.READS, input={"n": number})


if __name__ == "__main__":
    sys.exit(main())
