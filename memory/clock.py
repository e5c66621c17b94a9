"""Time and identifiers, injected: with a fixed clock and a seed a run writes the same bytes again."""

from __future__ import annotations

import hashlib
import random
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> str:
        """UTC, ISO 8601 with milliseconds and ``Z``: ``2026-03-07T12:00:00.000Z``."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""


class SystemClock:
    def now(self) -> str:
        return iso(datetime.now(UTC))

    def monotonic(self) -> float:
        return time.monotonic()


class FixedClock:
    """A clock for reproducible runs: every ``now`` is ``step_ms`` milliseconds after the one before."""

    def __init__(self, start: str = "2026-01-01T00:00:00.000Z", step_ms: int = 1) -> None:
        self._at = datetime.fromisoformat(start)
        if self._at.tzinfo is None:
            raise ValueError(f"{start!r} has no time zone; expected e.g. 2026-01-01T00:00:00.000Z")
        self._start = self._at
        self._step = timedelta(milliseconds=step_ms)

    def now(self) -> str:
        at, self._at = self._at, self._at + self._step
        return iso(at)

    def monotonic(self) -> float:
        """Seconds since ``start`` on the same count; asking does not advance it."""
        return (self._at - self._start).total_seconds()


class Ids:
    """Identifiers. With a seed the sequence is reproducible, without one it is random."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = None if seed is None else random.Random(seed)  # noqa: S311 - repeatable, not secret

    def hexadecimal(self, digits: int) -> str:
        """``digits`` hexadecimal digits."""
        if self._random is None:
            return secrets.token_hex((digits + 1) // 2)[:digits]
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"

    def investigation(self, clock: Clock) -> str:
        """Short, and sortable by day: ``20261129-3f9a1c``. Takes one ``now`` of the clock."""
        return f"{clock.now()[:10].replace('-', '')}-{self.hexadecimal(6)}"


def iso(at: datetime) -> str:
    """The one way a moment is written here."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hypothesis_id(component: str, backend: str, arch: str) -> str:
    """The same hypothesis has the same id in every run: 8 hexadecimal digits of its subject."""
    return hashlib.sha256("\0".join((component, backend, arch)).encode()).hexdigest()[:8]
