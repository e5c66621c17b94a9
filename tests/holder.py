"""A program of ours that holds something, so that a test can kill it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def holding(script: str, words: list[str], until: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``script`` with ``words``; given once it has said ``until``, and killed at the end."""
    holder = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert holder.stdout is not None
    try:
        while until not in (line := holder.stdout.readline()):
            assert line, "it ended before"
        yield holder
    finally:
        holder.kill()
        holder.communicate()
