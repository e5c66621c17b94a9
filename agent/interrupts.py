"""Ctrl-C, a closed terminal and a polite kill, held back while an event is being written.

Python raises ``KeyboardInterrupt`` between any two instructions, also between writing a line and counting
it: the next event would carry the same number. While an investigation runs, a request to stop waits until
the event in hand is on disk and folded.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask the program to end."""


class Interrupts:
    """As a context: requests to stop become ``KeyboardInterrupt``, but never inside :meth:`held`.

    Without the context, or outside the main thread, where Python lets nobody handle signals, everything
    stays as it was. A child that was forked with these handlers ends at once and says nothing: what
    becomes of the investigation is for its parent to say.
    """

    def __init__(self) -> None:
        self._holding = 0
        self._asked = False
        self._before: dict[int, Any] = {}
        self._owner = os.getpid()

    def __enter__(self) -> Interrupts:
        for number in STOPPING:
            # What was told to ignore a signal (nohup) goes on ignoring it.
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            try:
                self._before[number] = signal.signal(number, self._stop)
            except ValueError:
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing stops what is done in here; a request that came meanwhile is raised at its end."""
        self.hold()
        try:
            yield
        finally:
            self._holding -= 1
        self._raise()

    def hold(self) -> None:
        """Keep requests back until :meth:`release`: what is begun here is only later ready to be ended."""
        self._holding += 1

    def release(self) -> None:
        """Raise a request that was kept back, and keep none back from now on."""
        self._holding = 0
        self._raise()

    def _raise(self) -> None:
        if self._asked and not self._holding:
            self._asked = False
            raise KeyboardInterrupt

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            os._exit(128 + number)
        if self._holding:
            self._asked = True
        else:
            raise KeyboardInterrupt
