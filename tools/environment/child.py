"""Running another program so that nothing of it is left behind, whatever happens to us.

The child gets a session of its own, an environment of allowed variables only (no keys), no input, its output
in a file, and a time limit. On every way out (a return, an error, Ctrl-C, a request to terminate) the whole
tree below it is ended before this function returns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING

from tools import stopping
from tools.errors import ToolError

if TYPE_CHECKING:
    import psutil

POLL = 0.05
GRACE = 3.0
"""Seconds between asking the tree to end and ending it."""

CLEANER, CLEANING = "multiprocessing.resource_tracker", 1.0
"""Words in the command line of Python's own process that removes what others leave; seconds that it gets."""
MEMORY = 8 << 30
"""Bytes that one process may write to, by default: many times what a resolver or a search needs."""
OUTPUT = 64 << 20
"""Bytes of output, by default: more than any question here is answered with."""

# Between us and the program runs the guard, which ends what the program leaves behind, also where we are
# killed outright and no ``finally`` runs. Elsewhere such a child runs on to its own end, and without a limit
# to its memory.
_GUARDS = sys.platform == "linux"
_GUARD = Path(__file__).with_name("_guard.py")

_ALLOWED = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TMP", "TEMP"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_STATE_HOME"),
}

NETWORK = {
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT", "NETRC"),
}
"""Variables that say how to reach a network: for children that do, since a proxy's may hold a password."""


class OutputError(ToolError):
    """A child wrote more than it may, and was ended for it."""


@dataclass(frozen=True)
class Ended:
    """How the child ended. ``code`` is its exit status (negative: the signal); ``seconds`` of wall time."""

    code: int
    timed_out: bool
    seconds: float


def allowed_environment(
    source: Mapping[str, str], also: Callable[[str], bool] = lambda _: False
) -> dict[str, str]:
    """Those variables of ``source`` that a child may see: the common ones and those that ``also`` accepts."""
    return {name: value for name, value in source.items() if name in _ALLOWED or also(name)}


def run_child(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    output: Path,
    seconds: float,
    tick: Callable[[float], None] = lambda _: None,
    errors: Path | None = None,
    grace: float = GRACE,
    memory: int | None = MEMORY,
    most_output: int = OUTPUT,
) -> Ended:
    """Run ``command`` in ``folder`` and wait; stdout goes to ``output``, stderr to ``errors`` or there too.

    ``tick`` is called about twenty times a second with the seconds gone by. ``grace``: seconds between
    asking what is left of the tree to end and ending it. ``memory``: bytes that each process of the tree
    may write to; None: as many as there are. ``most_output``: bytes of both streams together. Raises
    ``OSError`` if the program cannot be started, :class:`OutputError` if it writes too much,
    :class:`tools.stopping.Stopped` if this thread is asked to stop; the child is gone then too.
    """
    stopping.check()
    started = time.monotonic()
    with contextlib.ExitStack() as files:
        out = files.enter_context(output.open("wb"))
        err = files.enter_context(errors.open("wb")) if errors else None
        files.enter_context(terminated_as_exit())
        files.enter_context(stopping.child())
        process, failed = start_guarded(command, environment, folder, out, err, memory, grace)
        files.callback(os.close, failed)
        timed_out = False
        try:
            while True:
                try:
                    process.wait(POLL)
                    break
                except subprocess.TimeoutExpired:
                    gone = time.monotonic() - started
                    if gone > seconds:
                        timed_out = True
                        break
                    if _size(out, err) > most_output:
                        break
                    stopping.check()
                    tick(gone)
        finally:
            end_tree(process, grace)
        if _size(out, err) > most_output:
            raise OutputError(
                f"{Path(command[0]).name} wrote more than {most_output / 1e6:.0f} MB and was ended; "
                "ask for less, or find out what it writes without end"
            )
        check_started(failed, command[0])
    return Ended(process.returncode, timed_out, time.monotonic() - started)


def start_guarded(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    out: IO[bytes],
    err: IO[bytes] | None = None,
    memory: int | None = MEMORY,
    grace: float = GRACE,
) -> tuple[subprocess.Popen[bytes], int]:
    """Start ``command`` below a guard, and do not wait: whoever calls this ends it (:func:`end_tree`).

    Also returned: a pipe to look into with :func:`check_started`, and to close. Raises ``OSError`` if the
    program is not there.
    """
    failed, says = os.pipe()
    try:
        process = subprocess.Popen(
            _guarded(command, says, memory, grace),
            pass_fds=(says,) if _GUARDS else (),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err or subprocess.STDOUT,
            start_new_session=True,
        )
    except BaseException:
        os.close(failed)
        raise
    finally:
        os.close(says)
    return process, failed


def check_started(failed: int, program: str) -> None:
    """Raise the ``OSError`` for which a program could not be started, if its guard said one by now."""
    os.set_blocking(failed, False)
    with contextlib.suppress(BlockingIOError):
        if number := os.read(failed, 16):
            raise OSError(int(number), os.strerror(int(number)), program)


def _size(*streams: IO[bytes] | None) -> int:
    return sum(os.fstat(stream.fileno()).st_size for stream in streams if stream)


def _guarded(command: Sequence[str], pipe: int, memory: int | None, grace: float) -> list[str]:
    """The command, made not to outlive this process; it says through ``pipe`` if it could not be started.

    Raises ``FileNotFoundError`` without a program.
    """
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    if not _GUARDS:
        return [program, *command[1:]]
    return [
        sys.executable,
        "-I",
        "-S",
        str(_GUARD),
        str(os.getpid()),
        str(pipe),
        str(-1 if memory is None else memory),
        str(grace),
        program,
        *command[1:],
    ]


def end_tree(process: subprocess.Popen[bytes], grace: float = GRACE) -> None:
    """End the child and all below it. Bounded: asks, waits ``grace`` seconds, then kills."""
    import psutil  # 4 MB that only who has had a child needs

    # Taken before the first signal: once a parent is gone its children can no longer be found by it.
    members: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        members = psutil.Process(process.pid).children(recursive=True)
    if process.poll() is None or members or _group_lives(process.pid):
        try:
            _signal(process, members, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
            _wait_gone(members, grace)
        finally:  # also where we are asked to stop once more
            kill_but_cleaners(members)
            _signal(process, members, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            _wait_gone(members, GRACE)


def kill_but_cleaners(members: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Kill all but Python's own cleaners of shared memory and semaphores, which then have their moment: they
    remove what those had that were killed, and end. Returns cleaners that are still there."""
    import psutil

    cleaners = []
    for member in members:
        words: list[str] = []
        with contextlib.suppress(psutil.Error):
            words = member.cmdline()
        if any(CLEANER in word for word in words):
            cleaners.append(member)
            continue
        # psutil compares when the process began: a number that was given anew is never signalled.
        with contextlib.suppress(psutil.Error):
            member.send_signal(signal.SIGKILL)
    _wait_gone(cleaners, CLEANING)
    return [one for one in cleaners if lives(one)]


def _wait_gone(members: list[psutil.Process], seconds: float) -> None:
    until = time.monotonic() + seconds
    while any(map(lives, members)) and time.monotonic() < until:
        time.sleep(POLL / 5)


def lives(member: psutil.Process) -> bool:
    import psutil

    # One that is dead and waits for its parent to notice does no more harm.
    try:
        return member.is_running() and member.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _signal(process: subprocess.Popen[bytes], members: list[psutil.Process], number: int) -> None:
    import psutil

    # The session's group has the child's own id; one that made a group of its own is met by itself. None is
    # asked twice: to some programs that says to drop everything.
    apart = [member for member in members if _group(member) != process.pid]
    with contextlib.suppress(OSError):
        os.killpg(process.pid, number)
    for member in apart:
        with contextlib.suppress(psutil.Error):
            member.send_signal(number)


def _group(member: psutil.Process) -> int | None:
    try:
        return os.getpgid(member.pid)
    except OSError:
        return None


@contextlib.contextmanager
def terminated_as_exit() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into ``SystemExit`` while a child runs, so that it is ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = [signal.SIGTERM, signal.SIGHUP]
    # Someone else's handler stands: it knows better what the program does.
    before = {n: signal.signal(n, leave) for n in numbers if signal.getsignal(n) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
