"""Shared memory that a server uses: engines leave theirs behind where they are killed, and it is memory.

Removed is what its processes were seen to have mapped. What they made between two looks is not known to be
theirs: owner, time and name fit what another program of the same person may have made, perhaps where its
processes cannot be seen from here. For that their own cleaner lives longest (``tools/environment/child.py``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

FOLDER = Path("/dev/shm")  # noqa: S108 - where shared memory lies


def there() -> frozenset[str]:
    with contextlib.suppress(OSError):
        return frozenset(one.name for one in FOLDER.iterdir())
    return frozenset()


@dataclass
class Shared:
    """``before``: what there was when the server was not yet; ``names``: what its processes have mapped of
    the rest."""

    before: frozenset[str] = field(default_factory=there)
    names: set[str] = field(default_factory=set)

    def look(self, processes: Iterable[psutil.Process]) -> bool:
        """Whether there is more than before."""
        number = len(self.names)
        self.names |= mapped(one.pid for one in processes) - self.before
        return len(self.names) > number

    def remove(self) -> None:
        remove(self.names)


def mapped(pids: Iterable[int]) -> set[str]:
    """Names below :data:`FOLDER` that processes have mapped; of those that are gone or hidden none.

    By their numbers as well: a semaphore is made under another name than it then has, and the map of who
    made it tells the first (glibc, ``sem_open``).
    """
    numbers = {}
    for name in there():
        with contextlib.suppress(OSError):
            numbers[(FOLDER / name).lstat().st_ino] = name
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines():
                before, _, path = line.partition(f" {FOLDER}/")
                if path and "/" not in path:
                    found.add(numbers.get(int(before.split()[4]), path.removesuffix(" (deleted)")))
    return found


def remove(names: Iterable[str]) -> None:
    """Of ``names`` what is this user's and no process has mapped."""
    left = {name for name in names if "/" not in name and name not in ("", ".", "..")}
    left = {name for name in left if (FOLDER / name).is_file()}
    if not left:
        return
    left -= mapped(int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
    for name in left:
        with contextlib.suppress(OSError):
            if (FOLDER / name).lstat().st_uid == os.getuid():
                (FOLDER / name).unlink()
