"""The log at length: events a second, and memory, each beside a peer of the same run.

    python benchmarks/log.py [--events N] [--appended N] [--json]

Appending is to disk, event by event: beside JSON lines and SQLite rows that are brought to disk one by one
too. Reading and checking is of a log of ``--events``, beside ``json.loads`` of its lines. Replaying is of an
investigation of a tiny engine, over and over. Memory is the difference between a log of that length and one
of a hundredth. Exit 1 if something is over its budget.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from measure import PROGRAM, run, tell

LEAST_REPLAYED = 1000.0
"""Events a second."""
MOST_GROWTH = 8.0
"""MB that a log a hundred times as long may take more."""
MOST_SLOWER = 3.0
"""How many times a peer's time appending may take."""
MOST_PAGE = 0.4
"""CPU seconds until a page is there, whichever."""
PAGE = 40

READ = {
    "json.loads of each line": "import json; all(json.loads(line) for line in path.open('rb'))",
    "read, as it stands": "from transcripts.reader import read_raw; assert sum(1 for _ in read_raw(path))",
    "read, chain checked": "from transcripts.reader import records; assert sum(1 for _ in records(path))",
    "read, typed": "from transcripts.log import read; assert sum(1 for _ in read(path))",
    "verify": "from transcripts.log import verify; assert verify(path) == []",
}
IN_A_PROCESS = "import sys, time; from pathlib import Path; path = Path(sys.argv[1]); {body}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--appended", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    over: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        long, short = folder / "long.jsonl", folder / "short.jsonl"
        _in_a_process("write", long, args.events)
        _in_a_process("write", short, args.events // 100)
        appended(folder, args.appended, rows, over)
        read(long, short, args.events, rows, over)
        paged(folder / "home", long, args.events, rows, over)
        replayed(folder / "replay", rows, over)
    return tell(rows, over, args.json)


def row(what: str, rate: str, ratio: str = "", memory: str = "") -> dict[str, object]:
    return {"what": what, "rate": rate, "ratio": ratio, "memory": memory}


def appended(folder: Path, count: int, rows: list[dict[str, object]], over: list[str]) -> None:
    """One event after the other, each on disk before the next."""
    spent = json.loads(_in_a_process("append", folder, count))
    peer = next(iter(spent.values()))
    for way, seconds in spent.items():
        rows.append(row(way, f"{count / seconds:.0f} /s", f"{seconds / peer:.2f} x"))
    if spent["append: the log"] > MOST_SLOWER * peer:
        over.append("append: the log")


def read(long: Path, short: Path, count: int, rows: list[dict[str, object]], over: list[str]) -> None:
    """The whole log, in ways that check more and more."""
    home, peer = long.parent, None
    for what, body in READ.items():
        command = [sys.executable, "-c", IN_A_PROCESS.format(body=body)]
        small, large = run([*command, str(short)], home), run([*command, str(long)], home)
        seconds = max(large.cpu - small.cpu, 1e-9)
        peer = peer or seconds
        growth = large.memory - small.memory
        rows.append(row(what, f"{count / seconds:.0f} /s", f"{seconds / peer:.2f} x", f"{growth:+.1f} MB"))
        if growth > MOST_GROWTH:
            over.append(f"{what}: memory")


def paged(home: Path, long: Path, count: int, rows: list[dict[str, object]], over: list[str]) -> None:
    """``agent transcripts show``: a page at the front, one near the end, all of it."""
    show = [*PROGRAM, "transcripts", "show", str(long)]
    for what, command, lines in (
        ("show: first page", show, PAGE),
        ("show: near the end", [*show, "--from", str(count - PAGE), "--events", str(PAGE)], None),
        ("show --json: first page", [*show, "--json"], PAGE),
        ("show: all", show, None),
        ("show --json: all", [*show, "--json"], None),
    ):
        first = run([*command, "--events", "1"], home) if "--events" not in command else None
        cost = run(command, home, lines)
        growth = "" if first is None else f"{cost.memory - first.memory:+.1f} MB"
        rows.append(row(what, f"{cost.cpu:.2f} s", "", growth))
        if what.endswith(("page", "end")) and cost.cpu > MOST_PAGE:
            over.append(what)
        if first is not None and cost.memory - first.memory > MOST_GROWTH:
            over.append(f"{what}: memory")


def replayed(home: Path, rows: list[dict[str, object]], over: list[str]) -> None:
    """Decide an investigation again, over and over for two seconds."""
    rate = float(_in_a_process("replay", home, 2))
    rows.append(row("replay", f"{rate:.0f} /s"))
    if rate < LEAST_REPLAYED:
        over.append("replay")


def _in_a_process(what: str, path: Path, number: int) -> str:
    """What needs the program's modules is done elsewhere: a child's peak of memory begins at its parent's."""
    command = [sys.executable, __file__, what, str(path), str(number)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write(path: Path, count: int) -> None:
    """A log of so many events, not brought to disk one by one."""
    from transcripts.chain import encode
    from transcripts.events import GENESIS, Noted, Opened

    opened = Opened(investigation=path.stem, program="benchmark", driver="none", question="q", seed=0)

    def bodies() -> Iterator[dict[str, Any]]:
        yield opened.model_dump(mode="json")
        for number in range(1, count):
            yield Noted(text=f"event {number} " + "x" * 200).model_dump(mode="json")

    head = GENESIS
    with path.open("wb") as file:
        for seq, body in enumerate(bodies()):
            line, head = encode(seq, "2026-01-01T00:00:00.000Z", body, head)
            file.write(line)


def append(folder: Path, count: int) -> None:
    """Seconds by way, in turns so that what else the disk does falls on all alike."""
    from memory.clock import FixedClock
    from transcripts.events import Noted, Opened
    from transcripts.log import Log

    note = Noted(text="x" * 200)
    line = (json.dumps({"at": "2026-01-01T00:00:00.000Z", "data": note.model_dump()}) + "\n").encode()
    opened = Opened(investigation="b", program="benchmark", driver="none", question="q", seed=0)
    with (
        Log.create(folder / "b.jsonl", opened, FixedClock()) as log,
        (folder / "peer.jsonl").open("ab", buffering=0) as file,
        closing(sqlite3.connect(folder / "peer.db", isolation_level=None)) as db,
    ):
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE events (line BLOB)")

        def plain() -> None:
            file.write(line)
            os.fdatasync(file.fileno())

        ways: dict[str, Callable[[], object]] = {
            "append: JSON lines, synced": plain,
            "append: SQLite rows, synced": lambda: db.execute("INSERT INTO events VALUES (?)", (line,)),
            "append: the log": lambda: log.append(note),
        }
        spent = dict.fromkeys(ways, 0.0)
        for _ in range(count):
            for way, write in ways.items():
                start = time.perf_counter()
                write()
                spent[way] += time.perf_counter() - start
    print(json.dumps(spent))


def replay(home: Path, seconds: int) -> None:
    from measure import variables
    from tiny_engine import write_engine

    from agent.replay import replay as decide_again
    from memory.artifacts import Artifacts
    from transcripts.log import read as read_typed

    engine = write_engine(home / "site-packages")
    asked = [*PROGRAM, "investigate", "nvfp4 on sm120", "-e", str(engine)]
    subprocess.run(asked, env=variables(home), check=False, capture_output=True)
    (path,) = (home / "transcripts").glob("*.jsonl")
    kept = Artifacts(home / "artifacts")
    done, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        result = decide_again(read_typed(path), lambda sha256: json.loads(kept.get(sha256)))
        if result.difference is not None:
            raise SystemExit(str(result.difference))
        done += result.events
    print(done / (time.process_time() - start))


if __name__ == "__main__":
    inner = {"write": write, "append": append, "replay": replay}.get(" ".join(sys.argv[1:2]))
    if inner is None:
        sys.exit(main())
    inner(Path(sys.argv[2]), int(sys.argv[3]))
