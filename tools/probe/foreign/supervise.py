"""The program of a packed probe: takes the plan's cells one by one to a worker, and writes a row for each.

    python -P run.py [--site FOLDER] [--gpu N|UUID] [--minutes N] [--wait SECONDS] [--cell ID]… [--again]
                     [--cache FOLDER]

Rows are appended to ``results.jsonl`` and on disk before the next cell begins: what was killed, or had no
disk left, goes on where it was when it is started again. Exit codes: 0 all rows are there; 2 wrong input;
3 something is missing; 4 stopped early, to be started again.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from .machine import MachineError, chosen, held, memory_used
from .serving import Serving

HERE = Path(__file__).resolve().parent
RESULTS = "results.jsonl"
SLACK = 64
"""MiB by which the memory in use may differ from what it was before."""
BACK = 30.0
"""Seconds in which it must be back."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run.py", description="Run the probes of plan.json.")
    parser.add_argument("--site", action="append", default=[], help="a folder of packages that comes first")
    parser.add_argument("--gpu", help="index or UUID; else the first that nobody uses")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; start again to go on")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a GPU that is taken")
    parser.add_argument("--cell", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--again", action="store_true", help="try cells again that ran out of time")
    parser.add_argument("--seconds", type=float, help="limit for each cell, instead of the plan's")
    parser.add_argument("--cache", type=Path, help="where what is compiled is kept, instead of here")
    parser.add_argument("--cpu", action="store_true", help="rehearse without a GPU; never counts as measured")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        from .worker import start

        told = json.loads(given.worker)
        start(told, told["pipe"])
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return _run(HERE.parent, given)
    except MachineError as error:
        say(str(error))
        return error.code
    except KeyboardInterrupt:
        say("interrupted; start again to go on")
        return 130
    except OSError as error:
        say(f"cannot go on ({error.strerror or error}); what was written is kept, start again to go on")
        return 4


def say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _run(folder: Path, given: argparse.Namespace) -> int:
    text = (folder / "plan.json").read_bytes()
    plan = json.loads(text)
    _check_scripts(plan["scripts"])
    device = "cpu" if given.cpu else "cuda"
    with contextlib.ExitStack() as stack:
        gpu = None
        if device == "cuda":
            gpu = chosen(given.gpu)
            stack.enter_context(held(gpu.uuid, given.wait, say))
        results = stack.enter_context(_results(folder / RESULTS))
        plan_sha = hashlib.sha256(text).hexdigest()
        done = _done(results, plan_sha, again=given.again)
        before = memory_used(gpu.uuid) if gpu else None
        header = {
            "format": 1,
            "plan": plan_sha,
            "device": device,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": platform.platform(),
            "gpu": vars(gpu) if gpu else None,
            "site": [str(Path(one).resolve()) for one in given.site],
        }
        _write(results, {"header": header})
        left = [cell for cell in plan["cells"] if cell["id"] not in done]
        if given.cell:
            left = [cell for cell in left if cell["id"] in given.cell]
        uuid = gpu.uuid if gpu else None
        with Serving(folder, plan["limits"], given.site, device, uuid, given.cache) as serving:
            return _all(serving, left, given, results, lambda: _back(uuid, before))


def _all(
    serving: Serving,
    cells: list[dict[str, Any]],
    given: argparse.Namespace,
    results: BinaryIO,
    back: Callable[[], str | None],
) -> int:
    until = time.monotonic() + 60.0 * given.minutes
    for number, cell in enumerate(cells):
        left = until - time.monotonic()
        if left <= 1.0:
            say(f"out of time with {len(cells) - number} cells left; start again to go on")
            return 4
        fresh = serving.fresh
        if fresh and (trouble := back()) is not None:
            say(trouble)
            return 4
        limit = given.seconds or cell["seconds"]
        begun = time.monotonic()
        row, here = serving.run(cell, min(limit, left))
        row["limit"] = limit
        row["worker"] = "new" if fresh else "warm"
        row["overhead_seconds"] = time.monotonic() - begun - float(row.get("seconds", 0.0))
        if here is not None:
            _write(results, {"here": here})
        if row["ended"] == "lacking":
            say(f"torch cannot be used here: {row['error']['message'][:300]}")
            return 3
        if row["ended"] == "timed_out" and left < limit:
            say(f"out of time in {cell['id']}; start again to go on")
            return 4
        _write(results, {"row": row})
        say(f"{number + 1}/{len(cells)} {cell['id']}: {row['ended']} in {row.get('seconds', 0):.1f} s")
    serving.end()
    if (trouble := back()) is not None:
        _write(results, {"note": trouble})
        say(trouble)
        return 4
    return 0


def _back(uuid: str | None, before: int | None) -> str | None:
    """None once the GPU's memory in use is what it was, else what is left, after waiting for it."""
    if uuid is None or before is None:
        return None
    until = time.monotonic() + BACK
    while (now := memory_used(uuid)) is not None and now > before + SLACK:
        if time.monotonic() > until:
            return f"GPU {uuid} holds {now} MiB, {before} before: something is left on it; look at nvidia-smi"
        time.sleep(0.5)
    return None


def _check_scripts(scripts: dict[str, str]) -> None:
    for name, wanted in scripts.items():
        path = HERE / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
        if found != wanted:
            raise MachineError(f"{name} is not what the plan was made for ({found[:12]}); pack it again", 2)


@contextlib.contextmanager
def _results(path: Path) -> Iterator[BinaryIO]:
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MachineError(f"another run writes {path.name} already; wait for it", 4) from None
        file.seek(0)
        whole = file.read()
        file.truncate(whole.rfind(b"\n") + 1)  # a torn line was never a row
        file.seek(0)
        yield file


def _done(results: BinaryIO, plan: str, *, again: bool) -> set[str]:
    found: set[str] = set()
    for line in results:
        entry = json.loads(line)
        if entry.get("header", {}).get("plan", plan) != plan:
            raise MachineError(f"{RESULTS} is of another plan; move it away", 2)
        row = entry.get("row")
        if row and not (again and row["ended"] == "timed_out"):
            found.add(row["cell"])
        elif row:
            found.discard(row["cell"])
    return found


def _write(results: BinaryIO, entry: dict[str, Any]) -> None:
    results.seek(0, os.SEEK_END)
    results.write(json.dumps(entry, sort_keys=True).encode() + b"\n")
    results.flush()
    os.fsync(results.fileno())
