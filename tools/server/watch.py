"""What goes on in a server: its log as it grows, its phases, and whether anything still goes on at all."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.logs import plain
from tools.server.profile import ServerProfile

if TYPE_CHECKING:
    import psutil

LONGEST_LINE = 4096
"""Characters of a line that are looked at."""
BLOCK = 1 << 20
_TRACEBACK = "Traceback (most recent call last)"
_COMPILERS = re.compile(r"nvcc|cicc|ptxas|fatbinary|cudafe|ninja|cc1plus|c\+\+|g\+\+|gcc|clang|nvlink|\bld\b")
_TAKEN = re.compile(r"(?i)\baddress already in use\b")
_READING = 1 << 20
"""Bytes read since the last look that tell of weights being loaded."""
_WORKING = 0.05
"""Seconds of CPU since the last look that tell of work."""


@dataclass(frozen=True)
class Patience:
    """Seconds. ``longest``: for a start, whatever it does. ``quiet``: without a sign of life: the log grows,
    a compiler runs, weights are read. ``busy``: with nothing but use of the CPU or the GPU, which a loop
    without an end has too. ``failed``: of quiet, where the log holds a traceback already. ``taken``: after
    the log said that a port is somebody else's, and nothing after it: engines may never end for that."""

    longest: float = 3600.0
    quiet: float = 240.0
    busy: float = 900.0
    failed: float = 45.0
    taken: float = 5.0
    poll: float = 0.1


@dataclass(frozen=True)
class Said:
    """What a line of the log says a component really has."""

    component: str
    backend: str
    line: int
    text: str


@dataclass
class LogWatch:
    """Reads what is new in a log. Times are those at which a line was seen, from ``since``."""

    path: Path
    profile: ServerProfile
    since: float
    clock: Callable[[], float] = time.monotonic
    size: int = 0
    failed: bool = False
    """Whether a traceback was seen."""
    taken: bool = False
    """Whether it said that a port is somebody else's."""
    grew: float = 0.0
    """When it last did."""
    said: list[Said] = field(default_factory=list)
    _begun: dict[str, float] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)
    _rest: bytes = b""
    _line: int = 0

    def look(self) -> bool:
        """Whether there was anything new."""
        before = self.size
        with self.path.open("rb") as file:
            file.seek(self.size)
            while block := file.read(BLOCK):
                self.size += len(block)
                *lines, self._rest = (self._rest + block).split(b"\n")
                for line in lines:
                    self._line += 1
                    self._read(plain(line[:LONGEST_LINE].decode("utf-8", "replace")))
                self._rest = self._rest[-BLOCK:]
        if self.size > before:
            self.grew = self.clock()
        return self.size > before

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase, of those that were seen to end."""
        return {
            name: round(self._ended[name] - begun, 3)
            for name, begun in self._begun.items()
            if self._ended.get(name, -1.0) >= begun
        }

    @property
    def phase(self) -> str | None:
        """The phase that began last and has not ended."""
        open_ = [name for name, begun in self._begun.items() if self._ended.get(name, -1.0) < begun]
        return max(open_, key=lambda name: self._begun[name], default=None)

    def _read(self, line: str) -> None:
        now = self.clock() - self.since
        self.failed = self.failed or _TRACEBACK in line
        self.taken = self.taken or _TAKEN.search(line) is not None
        for name, phase in self.profile.phases.items():
            if phase.begins.search(line):
                self._begun.setdefault(name, now)
            if name in self._begun and phase.ends.search(line):
                self._ended[name] = now
        for pattern in self.profile.used:
            if match := pattern.pattern.search(line):
                self.said.append(Said(pattern.component, match["backend"], self._line, line.strip()[:400]))


@dataclass
class Progress:
    """Whether a tree of processes does anything. ``gpu``: whether the GPU is in use; asked seldom, since it
    takes a process to find out."""

    root: int
    patience: Patience
    clock: Callable[[], float] = time.monotonic
    gpu: Callable[[], bool] = lambda: False
    _alive: float = field(init=False)
    _busy: float = field(init=False)
    _asked: float = field(init=False)
    _spent: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._alive = self._busy = self._asked = self.clock()

    def look(self, *, grew: bool, failed: bool) -> str | None:
        """Why it is not worth waiting any longer, or None. ``grew``: the log; ``failed``: see the log."""
        now = self.clock()
        compiling, working = self._tree()
        if grew or compiling:
            self._alive = self._busy = now
        elif working:
            self._busy = now
        quiet = min(self.patience.quiet, self.patience.failed) if failed else self.patience.quiet
        if now - self._busy > quiet / 2 and now - self._asked > quiet / 8 and not failed:
            self._asked = now
            if self.gpu():
                self._busy = now
        if now - self._busy > quiet:
            return f"no sign of life for {now - self._busy:.0f} s"
        if now - self._alive > self.patience.busy:
            return f"nothing in the log for {now - self._alive:.0f} s, though it uses the CPU or the GPU"
        return None

    def _tree(self) -> tuple[bool, bool]:
        """Whether a compiler runs or much is read; whether the CPU is used."""
        import psutil

        compiling = working = False
        spent: dict[int, tuple[float, float]] = {}
        for member in members(self.root):
            try:
                times = member.cpu_times()
                cpu, read = times.user + times.system, _read_bytes(member)
                before = self._spent.get(member.pid, (0.0, 0.0))
                compiling = compiling or _COMPILERS.search(member.name()) is not None
            except psutil.Error:
                continue
            compiling = compiling or read - before[1] > _READING
            working = working or cpu - before[0] > _WORKING
            spent[member.pid] = (cpu, read)
        self._spent = spent
        return compiling, working


def members(root: int) -> list[psutil.Process]:
    """The processes below ``root``."""
    import psutil

    try:
        return psutil.Process(root).children(recursive=True)
    except psutil.Error:
        return []


def _read_bytes(process: psutil.Process) -> float:
    import psutil

    counters = getattr(process, "io_counters", None)
    try:
        return float(getattr(counters(), "read_chars", 0)) if counters is not None else 0.0
    except (psutil.Error, OSError):
        return 0.0
