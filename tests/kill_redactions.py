"""Redactions that are killed on the way, for ``test_redact.py``: forked, so that each starts at once.

``python tests/kill_redactions.py COPY EVERY SECRET``: ``COPY`` is a home; a redaction of all its transcripts
is killed before the first, then before each EVERYth step that changes a file. Prints how many were killed,
how many of these had begun to replace logs, and had replaced some of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from stress import ended, fork

from memory.home import Home
from memory.store import Store
from tools.output import cap
from transcripts.redaction.pending import NAME
from transcripts.redaction.place import Place
from transcripts.redaction.redact import redact

STEPS = {"write", "flush", "fsync", "close", "utime", "replace", "rename", "unlink", "execute", "backup"}


def run(home: Home, secret: str) -> None:
    redact(home, sorted(home.transcripts.glob("*.jsonl")), [secret], cap)


def run_until(home: Home, secret: str, step: int) -> None:
    """Be killed before the ``step``-th call of the system that changes a file."""
    left = step

    def count(_frame: FrameType, event: str, what: Any) -> None:
        nonlocal left
        if event == "c_call" and getattr(what, "__name__", "") in STEPS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    run(home, secret)
    sys.setprofile(None)


def state(home: Home) -> dict[str, Any]:
    """Every file of the home but the database, and the rows of that."""
    files = [path for path in home.root.rglob("*") if path.is_file() and "findings.db" not in path.name]
    with Store(home) as store:
        rows = store.content()
    return {str(path.relative_to(home.root)): path.read_bytes() for path in files} | rows


def main(copy: Path, every: int, secret: str) -> None:
    home = Home(copy.with_name("killed"))
    shutil.copytree(copy, home.root)
    run(home, secret)
    expected = state(home)
    begun = half = 0
    step = 1
    while True:
        shutil.rmtree(home.root)
        shutil.copytree(copy, home.root)
        child, reading = fork(lambda _say, step=step: run_until(home, secret, step))
        os.close(reading)
        code = ended(child)
        if code == 0:
            break
        assert code == -signal.SIGKILL, code
        new = 0
        for path in home.transcripts.glob("*.jsonl"):
            whole = path.read_bytes()
            new += whole == expected[f"transcripts/{path.name}"]
            assert new or whole == (copy / "transcripts" / path.name).read_bytes(), (step, path)
        pending = home.transcripts / NAME
        begun += pending.exists()
        half += 0 < new < len(list(home.transcripts.glob("*.jsonl")))
        assert pending not in Place.of(home, ()).files_with([secret])
        run(home, secret)
        assert state(home) == expected, step
        assert list(Place.of(home, ()).files_with([secret])) == []
        step += every
    print((step - 1) // every, begun, half)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
