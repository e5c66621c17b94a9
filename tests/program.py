"""The program as a person starts it: a process of its own, a home, and what it said."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
START = (sys.executable, "-m", "agent")
SECONDS = 300.0

Finished = subprocess.CompletedProcess[str]


def variables(home: Path | None = None, **more: str) -> dict[str, str]:
    """The environment that the program is started in; ``ASSAY_HOME`` is the test's own without ``home``."""
    named = {} if home is None else {"ASSAY_HOME": str(home)}
    return {**os.environ, "PYTHONPATH": str(ROOT), **named, **more}


def started(command: Sequence[str], home: Path | None = None, **more: str) -> Finished:
    """Run a command to its end, with nothing to read and its output kept."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=variables(home, **more),
        stdin=subprocess.DEVNULL,
        check=False,
    )


def agent(*args: str, home: Path | None = None, **more: str) -> Finished:
    return started([*START, *args], home, **more)


def python(program: str, *args: str, home: Path | None = None, **more: str) -> Finished:
    """A Python program that has the project's packages."""
    return started([sys.executable, "-c", program, *args], home, **more)


def shell(command: str, home: Path | None = None, **more: str) -> Finished:
    """A command line of a shell, in which ``agent`` is the program."""
    return started(["bash", "-c", f'agent() {{ {shlex.join(START)} "$@"; }}; {command}'], home, **more)


def one_line(finished: Finished, code: int, *words: str) -> None:
    """The error is the last line of stderr, nothing but progress is before it, nothing is on stdout."""
    assert finished.returncode == code, finished.stderr
    assert finished.stdout == ""
    *before, last = finished.stderr.splitlines()
    assert all(line.startswith("· ") for line in before), finished.stderr
    assert last.startswith("agent: ")
    assert "Traceback" not in finished.stderr
    for word in words:
        assert word in last
