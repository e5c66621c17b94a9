"""Ending a server of ours, wholly and nobody else's, also one that an earlier run of the program left behind.

Three things tell that a process is ours: it is below one that we started; it carries the server's own mark in
its environment; or it is on the server's record by number and by the time at which it began.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memory.home import Home
from tools.environment.child import end_tree, kill_but_cleaners, lives
from tools.server.places import RECORD, forget
from tools.server.watch import members
from tools.source.tree import read_head

if TYPE_CHECKING:
    import psutil

MARK = "ASSAY_SERVER"
"""The variable that says of which server of ours a process is."""
GRACE = 20.0
"""Seconds for a server that was asked to end; engines end their own processes first."""
LAST = 5.0
"""Seconds in which what was killed must be gone."""


@dataclass(frozen=True)
class Ended:
    """``seconds`` it took; ``code``: the server's exit status; ``left``: processes that were not ended."""

    seconds: float
    code: int | None
    left: tuple[int, ...]


def end(guard: subprocess.Popen[bytes], mark: str, grace: float = GRACE) -> Ended:
    """End the server below ``guard``: asks the server alone first, then ends all that is left. Bounded."""
    import psutil

    started = time.monotonic()
    # Before the first signal: once a parent is gone its children can no longer be found by it.
    below = members(guard.pid)
    try:
        for process in below:
            if _parent(process) == guard.pid:
                with contextlib.suppress(psutil.Error):
                    process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(grace)
    finally:  # also where we are asked to stop once more
        _kill(below)
        end_tree(guard, 0.0)
        _kill(marked(mark))
    left = {one.pid for one in (*below, *marked(mark)) if lives(one)}
    return Ended(
        round(time.monotonic() - started, 3),
        guard.returncode,
        tuple(sorted(left)),
    )


def marked(mark: str) -> list[psutil.Process]:
    """Processes of this user whose environment bears the mark."""
    import psutil

    wanted = f"{MARK}={mark}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError, psutil.Error):
            if wanted in environ.read_bytes().split(b"\0"):
                process = psutil.Process(int(environ.parent.name))
                if process.pid != os.getpid() and lives(process):
                    found.append(process)
    return found


def sweep(home: Home, tell: Callable[[str], None]) -> list[str]:
    """End what is left of servers whose owner is gone; their names. What still has its owner is let be."""
    found = []
    for record in sorted((home.root / "servers").glob(f"*/{RECORD}")):
        document = _document(record)
        if document is None or owner_of(document) is not None:
            continue
        name = record.parent.name
        rest = [one for pair in _pairs(document.get("processes")) if (one := _there(pair)) is not None]
        rest = list({one.pid: one for one in (*rest, *marked(name))}.values())
        if rest:
            tell(f"ending server {name}, left behind by an earlier run ({len(rest)} processes)")
            _ask(rest)
            _kill([*rest, *marked(name)])
        found.append(name)
        forget(record.parent, document)
    return found


def owner_of(document: dict[str, object]) -> psutil.Process | None:
    """The program that looks after the server of a record, where it still runs."""
    return _there(document.get("owner"))


def _document(record: Path) -> dict[str, object] | None:
    try:
        document = json.loads(read_head(record))
    except (ValueError, RecursionError, OSError):
        return None
    return document if isinstance(document, dict) else None


def _pairs(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _there(pair: object) -> psutil.Process | None:
    """The process that a record names, if it is the same one still."""
    import psutil

    if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, int | float) for one in pair)):
        return None
    try:
        process = psutil.Process(int(pair[0]))
        same = abs(process.create_time() - pair[1]) < 0.05 and process.uids().real == os.getuid()
    except (psutil.Error, ValueError, OverflowError):
        return None
    return process if same and lives(process) else None


def _parent(process: psutil.Process) -> int | None:
    import psutil

    try:
        return int(process.ppid())
    except psutil.Error:
        return None


def _ask(processes: Iterable[psutil.Process], seconds: float = LAST) -> None:
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _gone(processes, seconds)


def _kill(processes: Iterable[psutil.Process]) -> None:
    import psutil

    for process in kill_but_cleaners(processes):
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
    _gone(processes, LAST)


def _gone(processes: Iterable[psutil.Process], seconds: float) -> None:
    until = time.monotonic() + seconds
    while any(map(lives, processes)) and time.monotonic() < until:
        time.sleep(0.02)
