"""Waiting for a server that starts: healthy, and a token given; or why it is not worth waiting any longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tools import stopping
from tools.environment.child import check_started
from tools.errors import ToolError
from tools.server.failure import PORT_IN_USE, Failure, classed
from tools.server.memory import Memory
from tools.server.watch import Patience, Progress, members

if TYPE_CHECKING:
    from tools.server.start import Server

LOOK = 0.5
"""Seconds between looks at what the server shares, while it starts."""
HEALTH_SECONDS = 10.0
TOKEN_SECONDS = 3600.0
"""For the first token, which may compile kernels: whether anything goes on is looked at meanwhile."""
_PROMPT = "1 2 3"


class StartError(Exception):
    """The server never was ready. ``failure`` says why; ``log`` is what it wrote."""

    def __init__(self, failure: Failure, log: Path, phases: dict[str, float], seconds: float) -> None:
        super().__init__(f"{failure.outcome}: {failure.because}")
        self.failure = failure
        self.log = log
        self.phases = phases
        self.seconds = seconds


class PortTakenError(Exception):
    """Somebody else has the port that it was given."""


def await_ready(
    server: Server,
    failed: int,
    patience: Patience,
    tell: Callable[[str], None],
    memory: Memory,
    record: Callable[[], None],
) -> None:
    """Wait until ``server`` has given a token. ``failed``: where its guard says that nothing was started;
    ``record`` is called where there is more to it than before.

    Raises :class:`StartError`, :class:`PortTakenError` and :class:`ToolError`.
    """
    progress = Progress(server.pid, patience, gpu=memory.in_use)
    token: _Token | None = None
    asked, looked, phase = 0.0, 0.0, None
    while True:
        if time.monotonic() - looked > LOOK:
            looked = time.monotonic()
            if server.shared.look(members(server.pid)):
                record()
        grew = server.watch.look()
        if server.watch.phase not in (phase, None):
            phase = server.watch.phase
            tell(f"{time.monotonic() - server.watch.since:.0f} s: {phase}")
        if not server.alive():
            _died(server, failed)
        if token is not None and (why := token.ended()) is not None:
            if why == "":
                break
            token = None
            tell(f"healthy, but gave no token yet: {why}")
            asked = time.monotonic() + 1.0
        if token is None and time.monotonic() >= asked:
            asked = time.monotonic() + 3 * patience.poll
            if _healthy(server):
                token = _Token(server)
        if server.watch.taken and time.monotonic() - server.watch.grew > patience.taken:
            raise PortTakenError
        stalled = progress.look(grew=grew, failed=server.watch.failed)
        late = time.monotonic() - server.watch.since > patience.longest
        if stalled or late:
            stalled = stalled or f"not ready after {patience.longest:.0f} s"
            stalled = f"healthy, but without a token: {stalled}" if token is not None else stalled
            raise _failed(server, None, stalled, timed_out=late)
        stopping.pause(patience.poll)
    server.ready_seconds = round(time.monotonic() - server.watch.since, 3)
    server.watch.look()


def _died(server: Server, failed: int) -> None:
    """Raises what its end means."""
    try:
        check_started(failed, server.plan.command(0, None)[0])
    except OSError as error:
        python = server.plan.python
        raise ToolError(f"cannot start {python} ({error.strerror or error})", missing=True) from None
    server.watch.look()
    failed_start = _failed(server, server._guard.returncode, None, timed_out=False)
    if failed_start.failure.signature == PORT_IN_USE:
        raise PortTakenError
    raise failed_start


def _failed(server: Server, code: int | None, stalled: str | None, *, timed_out: bool) -> StartError:
    failure = classed(
        server.log,
        code=code,
        stalled=stalled,
        ready=False,
        timed_out=timed_out,
        secret=server.api_key,
        killed_before=server.killed_before,
    )
    seconds = round(time.monotonic() - server.watch.since, 3)
    return StartError(failure, server.log, server.phases, seconds)


def _healthy(server: Server) -> bool:
    """Whether it says so. Raises :class:`PortTakenError` where it is somebody else who does."""
    try:
        healthy = server.ask(server.plan.profile.health, seconds=HEALTH_SECONDS).status == 200
    except (OSError, ToolError):
        return False
    if healthy and not listens(server):
        raise PortTakenError
    return healthy


def listens(server: Server) -> bool:
    """Whether a process of the server's is it that listens; also where that cannot be told."""
    import psutil

    for process in members(server.pid):
        try:
            there = process.net_connections(kind="tcp")
        except psutil.AccessDenied:
            return True
        except psutil.Error:
            continue
        if any(one.status == psutil.CONN_LISTEN and one.laddr.port == server.port for one in there):
            return True
    return False


class _Token:
    """One token is asked for, in a thread of its own: the answer may take as long as kernels are compiled."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._why: str | None = None
        threading.Thread(target=self._ask, daemon=True).start()

    def ended(self) -> str | None:
        """None while it is waited for, "" when it is there, else why there is none."""
        return self._why

    def _ask(self) -> None:
        body = {"model": self._server.model, "prompt": _PROMPT, "max_tokens": 1, "temperature": 0}
        try:
            answer = self._server.ask("/v1/completions", body, seconds=TOKEN_SECONDS)
        except (OSError, ToolError) as error:
            self._why = str(error) or type(error).__name__
            return
        document = answer.document()
        choices = document.get("choices") if isinstance(document, dict) else None
        given = isinstance(choices, list) and bool(choices)
        self._why = "" if answer.status == 200 and given else f"status {answer.status}"
