"""A request to stop, for work that Ctrl-C does not reach: Python raises it in the main thread alone.

Whoever starts work in another thread runs it :func:`under` a :class:`Stop`. What waits there (for a child,
for a lock) waits with :func:`pause` or looks with :func:`check`, and then raises :class:`Stopped`. In the
main thread, where nobody has set a ``Stop``, both do nothing of their own: Ctrl-C is a
``KeyboardInterrupt`` there as always.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(BaseException):
    """This thread was asked to stop. Like ``KeyboardInterrupt`` no ``Exception``: not caught in passing."""


class Stop:
    """Asked once, seen by all who work under it. ``children`` counts the child processes that they have."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self.children = 0

    def ask(self) -> None:
        self._asked.set()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it was asked within ``seconds``."""
        return self._asked.wait(seconds)

    def count(self, difference: int) -> None:
        with self._lock:
            self.children += difference


class Either(Stop):
    """Asked where one of two is: all that goes on, or this alone."""

    def __init__(self, all_of_it: Stop | None, this: Stop) -> None:
        super().__init__()
        self._above = [this] if all_of_it is None else [this, all_of_it]

    @property
    def asked(self) -> bool:
        return any(one.asked for one in self._above)

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self.asked and (left := until - time.monotonic()) > 0:
            self._above[0].wait(min(left, _LOOK))
        return self.asked

    def count(self, difference: int) -> None:
        for one in self._above:
            one.count(difference)


_LOOK = 0.05
"""Seconds after which one who waits for either looks at the other."""
_CURRENT: ContextVar[Stop | None] = ContextVar("stop", default=None)


@contextmanager
def under(stop: Stop) -> Iterator[None]:
    """What runs in here, in this thread, is told to stop by ``stop``."""
    token = _CURRENT.set(stop)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> Stop | None:
    """What this thread works under, if anything."""
    return _CURRENT.get()


def under_stop() -> bool:
    """Whether somebody can ask this thread to stop."""
    return _CURRENT.get() is not None


def check() -> None:
    """Raise :class:`Stopped` if this thread was asked to stop."""
    stop = _CURRENT.get()
    if stop is not None and stop.asked:
        raise Stopped


def pause(seconds: float) -> None:
    """Sleep; raises :class:`Stopped` as soon as this thread is asked to stop."""
    stop = _CURRENT.get()
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Stopped


@contextmanager
def child() -> Iterator[None]:
    """A child process lives in here: whoever asks this thread to stop waits until it is ended too."""
    stop = _CURRENT.get()
    if stop is not None:
        stop.count(+1)
    try:
        yield
    finally:
        if stop is not None:
            stop.count(-1)
