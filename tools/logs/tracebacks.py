"""Python tracebacks in a log, told apart where several processes wrote at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tools.logs import drawn
from tools.logs.dressing import Line, undress

HEADER = "Traceback (most recent call last):"
ANY_HEADER = HEADER[:-1]
"""What stands in the header of one that another program drew, too."""
LONGEST = 400
"""Lines after which a traceback without an end is given up."""

MILD = frozenset({"DEBUG", "INFO", "WARNING"})
"""Levels of records that tell of no failure."""
MESSAGE = 10
"""Lines of an exception's message that are kept."""
APART = 5
"""Lines between what announces a traceback and its head: others may have written there."""
AFTER = 20
"""Lines after which the message of an exception is over, whoever wrote them."""

_FRAME = re.compile(r'\s*File "([^"\n]+)"(?=, (?:line \d|in ))(?:, line (\d{1,9}))?(?:, in (.+))?$')
_PASSES_ON = re.compile(r" raised:\s*$")
"""At the end of a message (torch's) that goes on with what another exception said."""
_ENDED = ("Killed", "Aborted", "Terminated", "Hangup")
"""What a shell says of a process that a signal ended, and no exception is called."""
_TORN = re.compile(r'\s*File "[^"\n]+$')
"""A frame that a narrow terminal broke into two lines."""
_ERROR = re.compile(
    r"((?:[A-Za-z_][\w/<>]*\.)*(?:_?[A-Z][\w/<>]*|\w*(?:[Ee]rror|[Tt]imeout|[Ee]xception)))(?::(?!:) ?(.*))?$"
)
_ERROR_NAME = re.compile(
    r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Failure|Iteration|Group)(?::|$)"
)
_REPR = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))\((['\"])(.*?)(?:\2,?\))?$")
"""An exception as Python writes it down, where a logger was given it in place of its message."""
_GROUP = re.compile(r"\+ Exception Group $")
_DIGITS = re.compile(r"\d+")
_IGNORED = re.compile(r"Exception ignored (?:in|on|from|while)\b")
"""Before a traceback that its program goes on from, whatever it says."""
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    """0 where the log does not show it."""
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
    """Its lines that are set in, too."""
    rank: str | None = None
    level: str | None = None
    chained: bool = False
    """Whether it follows another one, as its cause says or while that was handled."""
    ignored: bool = False
    """Whether its program said that it went on, as while it tidied up."""


@dataclass
class _Open:
    line: int
    rank: str | None
    outer: str | None
    level: str | None
    chained: bool
    touched: int
    before: re.Pattern[str] | None = None
    """What stood before the header, which the lines that follow may repeat."""
    headed: bool = True
    flat: bool = False
    """Whether its lines have lost what sets them in."""
    logged: bool = False
    """Whether each of its lines is dressed as a record."""
    drawn: str | None = None
    """Of one that another program drew the exception that its header names, or an empty text."""
    ignored: bool = False
    frames: list[Frame] = field(default_factory=list)
    error: str = ""
    message: list[str] = field(default_factory=list)
    end: int = 0
    """The line of its exception, once that is there."""
    open: bool = False
    """Whether the message of its exception begins on the next line."""
    torn: str = ""
    """The beginning of a frame that goes on on the next line."""

    def bare(self, text: str) -> str:
        match = self.before.match(text) if self.before is not None else None
        return text[match.end() :] if match else text

    def closed(self) -> Traceback:
        return Traceback(
            line=self.line,
            end=self.end or self.touched,
            frames=tuple(self.frames),
            error=self.error,
            message="\n".join(self.message),
            rank=self.rank,
            level=self.level,
            chained=self.chained,
            ignored=self.ignored,
        )

    @property
    def told(self) -> bool:
        """Whether there is enough of it: what begins in the middle must end, or be told of as an error."""
        failed = self.level is not None and self.level not in MILD and len(self.frames) > 1
        return self.headed or bool(self.end) or failed


def is_frame(text: str) -> bool:
    """Whether a line that was undressed is a frame of a traceback."""
    return bool(_FRAME.match(text))


def alone(text: str, number: int) -> Traceback | None:
    """A line that is an exception and nothing else, as a traceback without frames; None for another line, and
    where its level says that nothing failed."""
    line = undress(text)
    text = line.text.removeprefix("E ").strip()
    found = _ERROR.match(text)
    given = found or _REPR.match(text)
    if given is None or line.level in MILD:
        return None
    message = (given[2] if found else given[3]) or ""
    return Traceback(number, number, (), given[1], message.strip(), line.rank, line.level)


def tracebacks(lines: Iterable[str], first: int = 1) -> Iterator[Traceback]:
    """Every traceback in ``lines``, as it ends; the first of them is line ``first`` of the log.

    A line that names its process belongs to that process's traceback, one that does not to the one that was
    last written to: engines dress the first line of a record alone. A log that begins in the middle of a
    traceback has that one without its head.
    """
    going: list[_Open] = []
    chained: set[str | None] = set()
    ignored: dict[str | None, int] = {}
    begun = first > 1
    for last, raw in enumerate(lines, first):
        line = undress(raw)
        picture = drawn.head(line.text)
        head = picture is not None or line.text.endswith(HEADER)
        begun = begun or head
        for lost in [one for one in going if last - one.touched > (AFTER if one.end else LONGEST)]:
            going.remove(lost)
            if lost.told:
                yield lost.closed()
        one = _belongs(line, going)
        if one is not None and one.end:
            if not head and _goes_on(one, line, last):
                continue
            going.remove(one)
            yield one.closed()
            one = _belongs(line, going)
        if head:
            going.append(_opened(line, last, picture, chained=line.rank in chained))
            chained.discard(line.rank)
            going[-1].ignored = last - ignored.pop(line.rank, -AFTER) <= APART
        elif _IGNORED.match(line.text):
            ignored[line.rank] = last
        elif line.text.startswith(_CHAINED):
            chained.add(line.rank)
        elif one is not None:
            _take(one, line, last)
        elif not begun and _FRAME.match(line.text):
            begun = True
            going.append(_Open(last, line.rank, line.outer, line.level, False, last, headed=False))
            _take(going[-1], line, last)
        elif not begun and drawn.begins(line.text):
            begun = True
            going.append(_Open(last, line.rank, line.outer, line.level, False, last, headed=False, drawn=""))
            _take(going[-1], line, last)
    yield from (one.closed() for one in going if one.told)


def _opened(line: Line, number: int, picture: str | None, *, chained: bool) -> _Open:
    if picture is not None:
        return _Open(number, line.rank, line.outer, line.level, chained, number, drawn=picture)
    before = line.text[: -len(HEADER)]
    pattern = None
    if before:
        whole = _DIGITS.sub(r"\\d+", re.escape(_GROUP.sub("| ", before)))
        pattern = re.compile(f"{whole}|{re.escape(before[: len(before) - len(before.lstrip())])}")
    return _Open(number, line.rank, line.outer, line.level, chained, number, pattern)


def _belongs(line: Line, going: list[_Open]) -> _Open | None:
    """Which of the tracebacks that are going on a line goes on with."""
    fitting = [one for one in going if line.rank in {None, one.rank, one.outer} or one.rank is None]
    own = [one for one in fitting if one.rank == line.rank]
    return max(own or fitting, key=lambda one: one.touched, default=None)


def _take(one: _Open, line: Line, number: int) -> None:
    """Add a line to a traceback that has not ended."""
    if one.drawn is not None:
        _take_drawn(one, line, number)
        return
    text = one.torn + one.bare(line.text)
    one.torn = ""
    last = one.frames[-1] if one.frames else None
    if frame := _FRAME.match(text):
        one.flat = one.flat or not text[0].isspace()
        one.logged = line.logged
        one.frames.append(Frame(frame[1], int(frame[2] or 0), frame[3] or ""))
        one.touched = number
    elif _TORN.match(text):
        one.torn, one.touched = text, number
    elif text[:1].isspace() or (one.flat and last and not last.text and not _ERROR_NAME.match(text)):
        source = text.strip()
        if last and not last.text and source.strip("^~"):
            one.frames[-1] = Frame(last.file, last.line, last.function, source)
        one.touched = number
    elif (
        (last or (number == one.line + 1 and _ERROR_NAME.match(text)))
        and (error := _ERROR.match(text))
        and error[0] not in _ENDED
        and not _of_another(one, line)
    ):
        one.error, one.message = error[1], [(error[2] or "").strip()]
        one.open = error[2] is not None and (not error[2] or _PASSES_ON.search(error[2]) is not None)
        one.end = one.touched = number


def _take_drawn(one: _Open, line: Line, number: int) -> None:
    """The same of one that another program drew."""
    if place := drawn.place(line.text):
        one.frames.append(Frame(place.file, place.line, place.function))
        one.touched = number
    elif (mark := drawn.marked(line.text)) and one.frames:
        last = one.frames[-1]
        one.frames[-1] = Frame(last.file, mark[0], last.function, mark[1])
        one.touched = number
    elif (error := _ERROR.match(line.text)) and error[1].rpartition(".")[2].startswith(
        one.drawn or error[1][0]
    ):
        one.error, one.message = error[1], [(error[2] or "").strip()]
        one.open = error[2] is not None and (not error[2] or _PASSES_ON.search(error[2]) is not None)
        one.end = one.touched = number
    elif line.text:
        one.touched = number


def _of_another(one: _Open, line: Line) -> bool:
    """Whether a line is a record of another process among lines that are none."""
    return line.logged and not one.logged and line.rank != one.rank


def _goes_on(one: _Open, line: Line, number: int) -> bool:
    """Whether a line goes on with the message of an exception: it is set in, or the message has not begun."""
    text = one.bare(line.text)
    if not text.strip(" +-") or number != one.touched + 1 or len(one.message) >= MESSAGE:
        return False
    if not (text[:1].isspace() or one.open) or _FRAME.match(text) or (line.logged and not one.logged):
        return False
    one.open = False
    one.message = [*filter(None, one.message), text.strip()]
    one.touched = number
    return True
