"""Calls of one decision side by side, a bounded number of them; their results in the order of the request.

The calling thread decides what starts when and gives the results; each call has a thread of its own that
ends with it. Asked to stop, the calls that have not begun do not begin, and those that run are asked to
end: their child processes are ended by the threads that wait for them. How long that is waited for is
bounded, and the threads hold nothing up: one that is stuck in Python ends with the program.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from tools.stopping import Stop, Stopped, check, under, under_stop

MOST = 8
"""Calls that run at the same time."""
SOON = 1.0
"""Seconds that a call which was asked to stop is waited for."""
LATE = 15.0
"""The same where it has child processes to end: more than asking them and then ending them takes."""

T = TypeVar("T")


@dataclass(frozen=True)
class Job(Generic[T]):
    """One call. Of two that need the same resource the second starts when the first has ended."""

    run: Callable[[], T]
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Raised:
    error: BaseException


def side_by_side(jobs: Sequence[Job[T]], most: int = MOST) -> Generator[T]:
    """What each job returns, in order, each as soon as it and those before it have ended.

    What a job raises is raised in its place, when no other runs any more. At ``KeyboardInterrupt`` whatever
    has ended is given first, also behind one that has not, and then it goes on its way; the same where this
    thread is asked to stop. Close the generator
    (or exhaust it) to be sure that nothing runs any more.
    """
    crew = _Crew(jobs, most)
    given = -1
    try:
        for index in range(len(jobs)):
            while index not in crew.ended:
                crew.start_what_may()
                crew.wait()
            crew.start_what_may()
            outcome = crew.ended[index]
            if isinstance(outcome, _Raised):
                raise outcome.error
            given = index
            yield outcome
    except (KeyboardInterrupt, Stopped):
        crew.stop()
        for index in sorted(index for index in crew.ended if index > given):
            outcome = crew.ended[index]
            if not isinstance(outcome, _Raised):
                yield outcome
        raise
    finally:
        crew.stop()


class _Crew(Generic[T]):
    """The threads. ``ended``: what came of each job that has ended, by its index."""

    def __init__(self, jobs: Sequence[Job[T]], most: int) -> None:
        self.ended: dict[int, T | _Raised] = {}
        self._jobs = jobs
        self._most = most
        self._threads: dict[int, threading.Thread] = {}
        self._first = 0
        """All jobs before this one have ended; so have those whose thread is forgotten."""
        self._news: SimpleQueue[int] = SimpleQueue()
        self._stop = Stop()

    def start_what_may(self) -> None:
        """Start jobs in their order, as many as may run, each only if none before it needs what it needs."""
        self._forget_ended()
        needed: set[str] = set()
        for index in range(self._first, len(self._jobs)):
            if len(self._threads) >= self._most or isinstance(self.ended.get(index), _Raised):
                return  # what is raised ends them all: none behind it begins
            if index in self.ended:
                continue
            resources = self._jobs[index].resources
            if index not in self._threads and needed.isdisjoint(resources):
                self._start(index)
            needed |= resources

    def _forget_ended(self) -> None:
        for index in self._threads.keys() & self.ended.keys():
            with suppress(RuntimeError):  # one that was never started
                self._threads.pop(index).join(SOON)
        while self._first in self.ended and not isinstance(self.ended[self._first], _Raised):
            self._first += 1

    def _start(self, index: int) -> None:
        # Daemons: the interpreter does not wait for them at its end.
        thread = threading.Thread(target=self._work, args=(index,), name=f"call {index}", daemon=True)
        self._threads[index] = thread
        try:
            thread.start()
        except RuntimeError:  # no more threads are to be had
            self._work(index)

    def _work(self, index: int) -> None:
        outcome: T | _Raised
        try:
            with under(self._stop):
                check()
                outcome = self._jobs[index].run()
        except BaseException as error:  # noqa: BLE001 - raised again where the result is expected
            outcome = _Raised(error)
        self.ended[index] = outcome
        self._news.put(index)

    def wait(self) -> None:
        """Until another job has ended. Raises :class:`Stopped` where this thread is asked to stop."""
        while under_stop():
            check()
            with suppress(Empty):
                self._news.get(timeout=0.05)
                return
        self._news.get()

    def stop(self) -> None:
        """Ask all that run to end, and wait; once more Ctrl-C, and only for those with child processes."""
        if self._stop.asked:
            return
        try:
            self._stop.ask()
            self._join(SOON)
        except KeyboardInterrupt:
            self._join(0.0)
            raise

    def _join(self, soon: float) -> None:
        # Not by Thread.join, which takes a thread for ended when a signal comes while it waits (Python 3.11).
        begun = time.monotonic()
        while self._threads.keys() - self.ended.keys():
            if time.monotonic() - begun > (LATE if self._stop.children else soon):
                return
            with suppress(Empty):
                self._news.get(timeout=0.02)
        self._forget_ended()
