"""The process between us and a child: starts the program, and ends all that it leaves behind, come what may.

Run by its path, on the standard library alone, on Linux. What the program starts and abandons becomes a
child of this process (a *subreaper*), whatever session it made for itself. It is ended when the program has
ended, and with the program when our parent is gone, be it killed outright. Exits as the program did, signals
included. Why the program could not be started goes through a pipe: an exit code could be mistaken for the
program's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LAST = 3.0
"""Seconds in which what was killed must be gone; a driver that hangs may keep it."""
CLEANER, CLEANING = b"multiprocessing.resource_tracker", 1.0
"""Words in the command line of Python's own process that removes shared memory and semaphores of others when
these are gone; seconds that it has for it after them."""


class OrphanedError(Exception):
    """Our parent is gone."""


def main(parent: int, pipe: int, memory: int, grace: float, command: list[str]) -> None:
    """``memory``: bytes, negative for no limit; ``grace``: seconds between asking what is left to end and
    ending it."""

    asked = False

    def ask(*_: object) -> None:
        # The kernel says so where our parent is gone. Else it is whoever asks the program to end, and asks
        # its whole group; or a thread of the parent has ended, and the parent lives on.
        nonlocal asked
        asked = True
        if os.getppid() != parent:
            raise OrphanedError

    signal.signal(signal.SIGTERM, ask)
    for other in (signal.SIGINT, signal.SIGHUP):
        signal.signal(other, lambda *_: None)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    status = int(signal.SIGKILL)
    try:
        if os.getppid() != parent:
            raise OrphanedError
        program = _start(pipe, memory, command)
        os.close(pipe)
        ended = 0
        while ended != program:
            ended, status = os.wait()
        _end_children(grace, ask=not asked)
    except OrphanedError:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_children(0.0, ask=False)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        _limit(resource.RLIMIT_CORE, 0)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _start(pipe: int, memory: int, command: list[str]) -> int:
    guard = os.getpid()
    program = os.fork()
    if program:
        return program
    try:
        os.set_inheritable(pipe, False)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard:
            # Python ignores these; a program expects them as they are.
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            # What is private and written to; RLIMIT_AS would count what a GPU's driver only reserves.
            if memory >= 0:
                _limit(resource.RLIMIT_DATA, memory)
            _limit(resource.RLIMIT_CORE, 0)
            os.execv(command[0], command)  # noqa: S606 - no shell is meant
    except OSError as error:
        os.write(pipe, str(error.errno).encode())
    finally:
        os._exit(127)


def _limit(which: int, wanted: int) -> None:
    most = resource.getrlimit(which)[1]
    if most == resource.RLIM_INFINITY or wanted < most:
        resource.setrlimit(which, (wanted, wanted))


def _end_children(grace: float, *, ask: bool) -> None:
    """Ask all that is left to end, wait ``grace`` seconds, and kill it, with what appears meanwhile."""
    begun = time.monotonic()
    asked: set[int] = set()
    while time.monotonic() - begun < grace + LAST:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        gone = time.monotonic() - begun
        for child in _children():
            late = gone >= grace and (gone >= grace + CLEANING or not _cleans(child))
            if late or (ask and child not in asked):
                asked.add(child)
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(0.01)


def _cleans(child: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{child}/cmdline", "rb") as file:  # noqa: PTH123
        return CLEANER in file.read()
    return False


def _children() -> Iterator[int]:
    """Processes whose parent is this one; they stay in the table until this one waits for them."""
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - pathlib takes long to load
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                yield int(name)


def _prctl(what: int, value: int) -> None:
    ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5:])
