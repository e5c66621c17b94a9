"""A server of an engine: started, waited for, looked after and ended.

::

    with launched(plan, home, tell) as server:
        server.base_url, server.api_key, server.model   # any OpenAI client
        server.failure()                                # None as long as it lives

It listens on 127.0.0.1, on a port of its own for each start, with a key of its own. It is ready when it says
that it is healthy and has given a token.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory.home import Home
from tools import stopping
from tools.environment.child import start_guarded, terminated_as_exit
from tools.errors import ToolError
from tools.locks import holding
from tools.server.asking import Answer, ask
from tools.server.ending import MARK, Ended, end, sweep
from tools.server.failure import Failure, classed, hide, killed_for_memory
from tools.server.memory import Memory
from tools.server.places import Places, identity, places
from tools.server.plan import NAME, Plan
from tools.server.ready import PortTakenError, await_ready
from tools.server.shared import Shared
from tools.server.watch import LogWatch, Patience, members

TRIES = 3
"""Starts, where each time somebody else was quicker to take the port that had been free."""


@dataclass
class Server:
    """One that is ready, and later one that has ended. ``phases``: seconds by phase of the start."""

    plan: Plan
    name: str
    port: int
    api_key: str
    log: Path
    ready_seconds: float
    watch: LogWatch = field(repr=False)
    shared: Shared = field(repr=False)
    gpus: tuple[str, ...] = ()
    ended: Ended | None = None
    memory_left: dict[str, int] = field(default_factory=dict)
    """MiB by GPU that were not given back in time, by nobody else's doing; empty where all is as before."""
    killed_before: int | None = field(default_factory=killed_for_memory)
    """See :func:`tools.server.failure.classed`."""
    _guard: subprocess.Popen[bytes] = field(repr=False, kw_only=True)

    @property
    def engine(self) -> str:
        return self.plan.profile.name

    @property
    def model(self) -> str:
        """The name under which it serves the model."""
        return NAME

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def phases(self) -> dict[str, float]:
        return self.watch.phases

    @property
    def pid(self) -> int:
        """Of the process below which all of the server runs."""
        return self._guard.pid

    def alive(self) -> bool:
        return self._guard.poll() is None

    def ask(self, path: str, body: dict[str, Any] | None = None, *, seconds: float = 60.0) -> Answer:
        """See :func:`tools.server.asking.ask`."""
        return ask(self.port, path, body, key=self.api_key, seconds=seconds)

    def failure(self, stalled: str | None = None) -> Failure | None:
        """Why it ended by itself; None as long as it lives. ``stalled``: why somebody who waited for an
        answer gave up, whether it lives or not."""
        code = self._guard.poll()
        if (code is None and stalled is None) or self.ended is not None:
            return None
        return classed(
            self.log,
            code=code,
            stalled=stalled,
            ready=True,
            timed_out=False,
            secret=self.api_key,
            killed_before=self.killed_before,
        )

    def info(self) -> dict[str, Any]:
        """What it says of itself; empty where it does not say."""
        for path in self.plan.profile.info:
            with contextlib.suppress(OSError, ToolError):
                answer = self.ask(path, seconds=30.0)
                document = answer.document() if answer.status == 200 else None
                if isinstance(document, dict):
                    return document
        return {}


@contextlib.contextmanager
def launched(
    plan: Plan,
    home: Home,
    tell: Callable[[str], None],
    *,
    gpus: Sequence[str] = (),
    patience: Patience | None = None,
    shared: Path | None = None,
    ports: Callable[[], int] | None = None,
) -> Iterator[Server]:
    """Start ``plan``'s server, wait until it is ready, and end all of it on every way out.

    ``gpus``: by UUID; they are locked, and the server sees no other. ``ports``: gives one for each start, by
    default one that is free. Raises :class:`StartError` where it does
    not come up, :class:`ToolError` where it cannot even be tried.
    """
    patience = patience or Patience()
    sweep(home, tell)
    with (
        holding([f"gpu:{uuid}" for uuid in gpus], home, tell, shared),
        terminated_as_exit(),
        stopping.child(),
    ):
        memory = Memory(gpus)
        for attempt in range(TRIES):
            try:
                port = (ports or free_port)()
                if not is_free(port):  # else it would be known only when all is loaded
                    raise PortTakenError
                name = secrets.token_hex(6)
                with (
                    places(home, name) as where,
                    _started(plan, name, where, tell, port, tuple(gpus), patience, memory) as server,
                ):
                    yield server
                return
            except PortTakenError:
                if attempt + 1 == TRIES:
                    raise ToolError(f"{TRIES} ports in a row were taken by others; try again") from None
                tell("somebody else took the port; trying another")


@contextlib.contextmanager
def _started(
    plan: Plan,
    name: str,
    where: Places,
    tell: Callable[[str], None],
    port: int,
    gpus: tuple[str, ...],
    patience: Patience,
    memory: Memory,
) -> Iterator[Server]:
    key, shared = secrets.token_urlsafe(24), Shared()
    variables = dict(plan.variables) | {MARK: name, "TMPDIR": str(where.temporary)}
    if gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if plan.profile.key_variable:
        variables[plan.profile.key_variable] = key
    log = where.log
    try:
        out = log.open("wb")
    except OSError as error:
        raise ToolError(f"cannot write {log} ({error.strerror or error}); free space there") from error
    started = time.monotonic()
    with out:
        command = plan.command(port, key)
        try:
            guard, failed = start_guarded(command, variables, where.work, out, memory=None)
        except OSError as error:
            raise ToolError(f"cannot start {command[0]} ({error.strerror or error})", missing=True) from error
    watch = LogWatch(log, plan.profile, started)
    server = Server(plan, name, port, key, log, 0.0, watch, shared, gpus, _guard=guard)
    try:
        _record(server, where)
        tell(f"{plan.profile.name} starts on port {port}; its log is {log}")
        await_ready(server, failed, patience, tell, memory, lambda: _record(server, where))
        _record(server, where)
        yield server
    finally:
        try:
            os.close(failed)
            shared.look(members(guard.pid))
            server.ended = end(guard, name)
            shared.remove()
            watch.look()
            hide(log, key)
        finally:
            server.memory_left = memory.left()


def _record(server: Server, where: Places) -> None:
    import psutil

    processes = []
    server.shared.look(members(server.pid))
    for process in (psutil.Process(server.pid), *members(server.pid)):
        with contextlib.suppress(psutil.Error):
            processes.append(identity(process))
    document: dict[str, object] = {
        "owner": identity(psutil.Process()),
        "processes": processes,
        "shared": sorted(server.shared.names),
        "port": server.port,
        "gpus": list(server.gpus),
        "engine": server.engine,
        "model": server.plan.settings.model,
    }
    where.record(document)


def free_port() -> int:
    """One that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether nobody has it at this moment."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
