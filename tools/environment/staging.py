"""Making a folder that is either complete or not there, however the making ends.

A folder in the making lies in ``environments/.partial/`` under a random name, with a lock file beside it that
its maker holds. Only when complete does it get its name, in one step. What a killed maker left behind is told
by its free lock, and cleared away by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from memory.home import Home, HomeError
from tools.errors import ToolError

PARTIAL = ".partial"
LOCKS = ".locks"
WAIT = 0.1


@contextlib.contextmanager
def writing(home: Home) -> Iterator[None]:
    """What keeps an environment from being written, as one line. Raises :class:`ToolError`."""
    try:
        yield
    except HomeError as error:
        raise ToolError(str(error), missing=True) from error
    except OSError as error:
        raise ToolError(
            f"cannot write to {home.environments} ({error.strerror or error}); nothing was changed; free "
            "some space, or set ASSAY_HOME to a folder that can be written",
            missing=True,
        ) from error


class Staging:
    """A folder in the making, below ``parent``. Leaving the ``with`` block unpublished removes it.

    ``whole`` is what gets the name; ``work`` is beside it and never kept.
    """

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self._base = parent / PARTIAL

    def __enter__(self) -> Staging:
        self._base.mkdir(exist_ok=True)
        clear_leftovers(self._base)
        while True:
            self._folder = self._base / secrets.token_hex(6)
            self._lock_path = self._folder.with_suffix(".lock")
            self._lock = os.open(self._lock_path, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600)
            if _try_lock(self._lock) and self._lock_path.exists():
                break
            os.close(self._lock)  # someone clearing up was quicker than we were with our lock
        self.whole, self.work = self._folder / "whole", self._folder / "work"
        for folder in (self._folder, self.whole, self.work):
            folder.mkdir()
        return self

    def publish(self, name: str) -> bool:
        """Give ``whole`` its name. False, and nothing done, where that name exists already."""
        try:
            self.whole.rename(self.parent / name)
        except OSError:
            if (self.parent / name).exists():
                return False
            raise
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock_path.unlink(missing_ok=True)
        os.close(self._lock)


def clear_leftovers(base: Path) -> None:
    """Remove what makers that are no longer alive have left in ``base``."""
    for lock_path in base.glob("*.lock"):
        try:
            lock = os.open(lock_path, os.O_RDWR)
        except OSError:
            continue
        if _try_lock(lock):
            shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
            if not lock_path.with_suffix("").exists():  # else the next one tries again
                lock_path.unlink(missing_ok=True)
        os.close(lock)


@contextlib.contextmanager
def exclusive(parent: Path, key: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock ``key`` so that two do not do the same work at the same time.

    ``waiting`` is called once if another holds it. Only saves work: publishing is atomic by itself, so a file
    system without locks still gives right results.
    """
    folder = parent / LOCKS
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / key, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        told = False
        while not _try_lock(lock):
            if not told:
                waiting()
                told = True
            time.sleep(WAIT)
        yield
    finally:
        os.close(lock)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks on this file system
        return True
    return True
