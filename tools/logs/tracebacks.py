"""Python tracebacks in a log, told apart where several processes wrote at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tools.logs.dressing import Line, undress

HEADER = "Traceback (most recent call last):"
LONGEST = 400
"""Lines after which a traceback without an end is given up."""

_FRAME = re.compile(r'\s+File "([^"\n]+)", line (\d+)(?:, in (.+))?$')
_ERROR = re.compile(r"([A-Za-z_][\w.]*)(?:: ?(.*))?$")
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str
    text: str = ""
    """The line of source, where the log shows it."""


@dataclass(frozen=True)
class Traceback:
    """A traceback as it is printed. ``line`` and ``end`` are its first and last line in the log, from 1."""

    line: int
    end: int
    frames: tuple[Frame, ...]
    error: str
    """Name of the exception, as it is printed; empty where the end is lost."""
    message: str
    rank: str | None = None
    level: str | None = None
    chained: bool = False
    """Whether it follows another one, as its cause says or while that was handled."""


@dataclass
class _Open:
    line: int
    rank: str | None
    level: str | None
    chained: bool
    touched: int
    frames: list[Frame] = field(default_factory=list)

    def closed(self, end: int, error: str, message: str) -> Traceback:
        frames = tuple(self.frames)
        return Traceback(self.line, end, frames, error, message, self.rank, self.level, self.chained)


def tracebacks(lines: Iterable[str], first: int = 1) -> Iterator[Traceback]:
    """Every traceback in ``lines``, as it ends; the first of them is line ``first`` of the log.

    A line that names its process belongs to that process's traceback, one that does not to the one that was
    last written to: engines dress the first line of a record alone.
    """
    going: list[_Open] = []
    chained: set[str | None] = set()
    last = first
    for last, raw in enumerate(lines, first):
        line = undress(raw)
        for lost in [one for one in going if last - one.touched > LONGEST]:
            going.remove(lost)
            yield lost.closed(lost.touched, "", "")
        if line.text.rstrip().endswith(HEADER):
            going.append(_Open(last, line.rank, line.level, line.rank in chained, last))
            chained.discard(line.rank)
        elif line.text.startswith(_CHAINED):
            chained.add(line.rank)
        elif (one := _belongs(line, going)) is not None:
            ended = _take(one, line, last)
            if ended is not None:
                going.remove(one)
                yield ended
    for lost in going:
        yield lost.closed(lost.touched, "", "")


def _belongs(line: Line, going: list[_Open]) -> _Open | None:
    """Which of the tracebacks that are going on a line goes on with."""
    fitting = [one for one in going if line.rank is None or one.rank in {line.rank, None}]
    own = [one for one in fitting if one.rank == line.rank]
    return max(own or fitting, key=lambda one: one.touched, default=None)


def _take(one: _Open, line: Line, number: int) -> Traceback | None:
    """Add a line to a traceback; the whole where it ends with that line."""
    text = line.text
    if frame := _FRAME.match(text):
        one.frames.append(Frame(frame[1], int(frame[2]), frame[3] or ""))
        one.touched = number
    elif text[:1].isspace():
        source = text.strip()
        if one.frames and not one.frames[-1].text and source.strip("^~"):
            bare = one.frames[-1]
            one.frames[-1] = Frame(bare.file, bare.line, bare.function, source)
        one.touched = number
    elif one.frames and (error := _ERROR.match(text)) and not (line.logged and line.rank != one.rank):
        return one.closed(number, error[1], (error[2] or "").strip())
    return None
