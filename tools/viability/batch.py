"""Many cells on several cores, each cell's result as it comes.

The workers are forked, so that they share what the parent has parsed, and die with it: on every way out the
parent ends and joins them, and where it is killed outright the kernel ends them. A worker that dies takes
one cell with it, never the batch. Ctrl-C is the parent's to answer: the workers do not hear it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Generic, TypeVar

from tools import stopping
from tools.viability.analysis import with_stack

Result = TypeVar("Result")
Pipe = Connection
Group = tuple[str, str]
PARALLEL_FROM = 12
"""Cells below which a second process costs more than it brings."""
MOST_WORKERS = 4
WORTH_IT = 4
"""Architectures that must be left of a component for a second worker to begin it too."""
TELL_EVERY = 3.0
"""Seconds between two words of progress."""
LOOK_EVERY = 0.5
"""Seconds between two looks whether all of it is to end."""
JOIN_SECONDS = 5.0
PR_SET_PDEATHSIG = 1


def follow(
    groups: Sequence[Group],
    one: Callable[[int], Result],
    lost: Callable[[int, str], Result],
    tell: Callable[[str], None],
) -> Iterator[tuple[int, Result]]:
    """``(index, one(index))`` for every index of ``groups``, in the order in which they are done.

    ``groups``: the component and the architecture of each cell; see :class:`Shares`. ``one`` must not raise;
    ``lost(index, why)`` is the result of a cell whose worker died. Close the iterator (or exhaust it) to end
    the workers.
    """
    progress = _Progress(len(groups), tell)
    if sys.platform != "linux":
        for index in range(len(groups)):
            yield index, with_stack(partial(one, index))
            progress.one_more()
        return
    left = Shares(groups)
    several = min(os.cpu_count() or 1, MOST_WORKERS, len(set(groups)))
    count = several if len(groups) >= PARALLEL_FROM else 1
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_Worker(one)) for _ in range(count)]
        for worker in workers:
            worker.give(left.take(None))
        while busy := [worker for worker in workers if worker.doing is not None]:
            stopping.check()
            ready = wait([worker.pipe for worker in busy], timeout=LOOK_EVERY)
            for worker in [worker for worker in busy if worker.pipe in ready]:
                index = worker.doing
                assert index is not None
                try:
                    result = worker.pipe.recv()
                except (EOFError, OSError):
                    result = lost(index, worker.end())
                    workers.remove(worker)
                    worker = stack.enter_context(_Worker(one))
                    workers.append(worker)
                worker.give(left.take(groups[index]))
                yield index, result
                progress.one_more()
            progress.say()


class Shares:
    """The cells that nobody has begun yet, by group: a component on an architecture."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._left: dict[Group, list[int]] = {}
        for index, group in enumerate(groups):
            self._left.setdefault(group, []).append(index)
        self._begun: set[Group] = set()

    def take(self, last: Group | None) -> int | None:
        """The next cell for a worker whose ``last`` was of this group; None if there is none for it.

        A group is never divided: to judge one cell the others of its group are run as well, so a second
        worker would do it all again. Within one component most of the work is shared, so its other
        architectures come first, then components that nobody has begun; large groups before small ones. Of
        what somebody else is at, a worker takes a part only where much is left: it starts from nothing.
        """
        own = self._left.get(last) if last is not None else None
        if own:
            return own.pop(0)
        fresh = [group for group in self._left if group not in self._begun]
        if not fresh:
            return None
        begun = {component for component, _ in self._begun}
        mine = last[0] if last is not None else None
        ahead = Counter(component for component, _ in fresh)
        fresh = [one for one in fresh if one[0] == mine or one[0] not in begun or ahead[one[0]] >= WORTH_IT]
        if not fresh:
            return None
        group = max(
            fresh, key=lambda group: (group[0] == mine, group[0] not in begun, len(self._left[group]))
        )
        self._begun.add(group)
        return self._left[group].pop(0)


class _Worker(Generic[Result]):
    """One forked process that works on one cell after the other."""

    def __init__(self, one: Callable[[int], Result]) -> None:
        self._one = one
        self.doing: int | None = None

    def __enter__(self) -> _Worker[Result]:
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()
        self.pipe: Pipe = ours
        self._process: ForkProcess = fork.Process(
            target=_work, args=(theirs, ours, os.getpid(), self._one), name="cells", daemon=True
        )
        try:
            with _interrupt_later(), warnings.catch_warnings():
                # The child uses nothing that another thread of ours could hold: files, pipes and memory.
                warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
                self._process.start()
            theirs.close()
        except BaseException:
            self.end()
            raise
        return self

    def give(self, index: int | None) -> None:
        self.doing = index
        if index is not None:
            with contextlib.suppress(OSError):  # a dead worker is noticed where its result is awaited
                self.pipe.send(index)

    def end(self) -> str:
        """End the process; how it ended if it had done so by itself."""
        code = None
        if self._process.pid is not None:
            self._process.kill()
            self._process.join(JOIN_SECONDS)
            code = self._process.exitcode
        self.pipe.close()
        return f"its process ended with {signal.Signals(-code).name if code and code < 0 else code}"

    def __exit__(self, *_: object) -> None:
        if not self.pipe.closed:
            self.end()


@contextlib.contextmanager
def _interrupt_later() -> Iterator[None]:
    """Hold Ctrl-C back: a forked child is deaf to it before it can hear it, and we hear it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Pipe, parents: Pipe, parent: int, one: Callable[[int], Result]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parents.close()
    if os.getppid() != parent:
        return

    # What was parsed stays: looking through it for garbage again and again costs a fifth of the time. What a
    # run leaves behind is looked through when it is over.
    gc.freeze()
    gc.disable()

    def cells() -> None:
        with contextlib.suppress(EOFError, OSError):  # the parent is gone
            while True:
                pipe.send(one(pipe.recv()))

    with_stack(cells)


@dataclass
class _Progress:
    total: int
    tell: Callable[[str], None]
    done: int = 0
    said: float = field(default_factory=time.monotonic)

    def one_more(self) -> None:
        self.done += 1
        self.say()

    def say(self) -> None:
        now = time.monotonic()
        if now - self.said >= TELL_EVERY and self.done < self.total:
            self.said = now
            slow = "" if self.done else " (the first of each component takes longest)"
            self.tell(f"followed {self.done} of {self.total} cells{slow}")
