"""A log read once: what failed first, told from what followed.

When one process of an engine fails, the others are ended, time out and are torn down, and each says so at
length: the last traceback is seldom the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

from memory.signatures import Match, Scanner, Signature, signatures
from memory.terms import Outcome
from tools.logs.dressing import undress
from tools.logs.prose import is_notice, speaks
from tools.logs.tracebacks import ANY_HEADER, MESSAGE, Traceback, tracebacks

WINDOW = 1 << 18
"""Bytes that are read at a traceback."""
MOST = 50
"""Tracebacks of a log that are kept."""

_FOLLOWING = frozenset(
    {"KeyboardInterrupt", "SystemExit", "EOFError", "CancelledError", "ExceptionGroup", "BaseExceptionGroup"}
)
"""Exceptions of a process that was ended, or that read from one that was; and those that only hold others."""
_ENDED = frozenset({"KeyboardInterrupt", "SystemExit"})
_MILD = frozenset({"DEBUG", "WARNING"})
"""Levels at which engines tell of exceptions that they go on from."""
_TRACEBACK = Signature(
    id="traceback",
    pattern=re.escape(ANY_HEADER),
    outcome=Outcome.CRASHED,
    kind="traceback",
    advice="",
    sources=(),
    fatal=False,
)


_READY = Signature(
    id="ready",
    pattern=r'Application startup complete|[Ll]istening on \S|HTTP/[\d.]+" 200\b',
    outcome=Outcome.OK,
    kind="ready",
    advice="",
    sources=(),
    fatal=False,
)
"""A server that serves, whichever it is."""
_REFUSED = Signature(
    id="refused",
    pattern=r'HTTP/[\d.]+" 4\d\d\b',
    outcome=Outcome.OK,
    kind="refused",
    advice="",
    sources=(),
    fatal=False,
)
"""An answer that says that the request is to blame."""
_SERVES = re.compile(
    r"/(?:entrypoints|renderers|openai|serving)/|/(?:serving|api_server|http_server)\w*\.py$"
)
"""Files of what answers requests."""
ANSWERED = 5
"""Lines around a traceback in which the answer stands to the request that raised it."""


@dataclass(frozen=True)
class Reading:
    """What a log shows. ``first`` and ``cause`` are None where nothing in it says what failed."""

    tracebacks: tuple[Traceback, ...]
    """In the order in which they begin, at most :data:`MOST`."""
    matches: tuple[Match, ...]
    """Lines that a signature fits, in their order."""
    first: Traceback | None
    """The first that is neither a warning's nor follows from something else."""
    chain: tuple[Traceback, ...]
    """``first``, and what was raised from it or while it was handled."""
    cause: Match | None
    """The signature of ``first`` or its chain; else the first line that says that something failed."""
    follows: bool
    """Whether there is nothing but what follows a failure: its beginning is not in this log."""
    also: tuple[Match, ...] = ()
    """Lines that one of the further patterns fits."""
    refused: Traceback | None = None
    """The first of a request that was answered with a refusal; its server went on."""


@cache
def _scanner(also: tuple[Signature, ...]) -> Scanner:
    return Scanner((*signatures(), _TRACEBACK, _READY, _REFUSED, *also))


def read_log(log: BinaryIO, also: tuple[Signature, ...] = ()) -> Reading:
    """Read a log of any length in little memory. ``log`` is a file that can be read twice (``seek``).

    ``also``: further patterns that are looked for in the same pass.
    """
    found = list(_scanner(also).scan(log))
    begun = [match for match in found if match.signature is _TRACEBACK]
    ready = min((match.line for match in found if match.signature is _READY), default=0)
    seen = tuple(_tracebacks(log, begun))
    refused = _refused(seen, found)
    ignored = [one for one in seen if one.ignored]
    ignored = [] if _is_all(ignored, log) else ignored
    ignored += refused
    ignored += _of_its_end([one for one in seen if one not in ignored], found)
    seen = tuple(one for one in seen if one not in ignored)
    told = [
        match
        for match in found
        if match.signature.outcome is Outcome.NOT_RUN
        or not (
            is_notice(match)
            or match.signature in (_READY, _REFUSED)
            or _within(match, ignored, 0)
            or (match.signature.ends and _went_on(match, ready))
            or (not _within(match, seen) and speaks(match, log))
        )
    ]
    more = tuple(match for match in told if match.signature in also)
    matches = tuple(
        match for match in told if match.signature is not _TRACEBACK and match.signature not in also
    )
    first = _first(seen, matches)
    chain = tuple(_chain(first, seen))
    cause = _cause(chain, matches)
    # Some of what follows a failure follows a plain end too.
    after = any(match.signature.after and match.signature.fatal for match in matches) or bool(seen)
    follows = after and first is None and cause is None
    return Reading(seen, matches, first, chain, cause, follows, more, next(iter(refused), None))


def _refused(seen: tuple[Traceback, ...], matches: Sequence[Match]) -> list[Traceback]:
    """The tracebacks of what answers requests beside which such an answer stands, with what they were raised
    from; but for those that a signature says more of: some servers answer so when they fail."""
    answers = [match.line for match in matches if match.signature is _REFUSED]
    known = [match for match in telling(matches) if match.signature.kind != "options"]
    found: list[Traceback] = []
    for at, one in enumerate(seen):
        chain = [other for other in seen[seen.index(_head(one, seen)) : at + 1] if other.rank == one.rank]
        near = range(chain[0].line - ANSWERED, one.end + ANSWERED + 1)
        if (
            any(answer in near for answer in answers)
            and any(_SERVES.search(frame.file) for frame in one.frames)
            and not any(_within(match, chain, 0) for match in known)
        ):
            found += [other for other in chain if other not in found]
    return found


def _of_its_end(seen: Sequence[Traceback], matches: Sequence[Match]) -> list[Traceback]:
    """What a server that served said while it was being ended, where nothing had failed before."""
    served = (match.line for match in matches if match.signature is _READY)
    ended = (match.line for match in matches if match.signature.stops)
    ready, stop = next(served, 0), next(ended, 0)
    again = any(
        match.signature is _READY and match.line > stop and "HTTP/" not in match.text for match in matches
    )
    before = any(one.line < stop for one in seen)
    return [] if not 0 < ready < stop or before or again or any(telling(matches)) else list(seen)


def _went_on(match: Match, ready: int) -> bool:
    """Whether what ended is not the server: one became ready after it, or had all that it needs; or it is
    told of as no failure."""
    began = ready > 0 and match.signature.outcome is Outcome.IMPORT_FAILED
    return began or match.line < ready or undress(match.text).level in _MILD


def _is_all(seen: Sequence[Traceback], log: BinaryIO) -> bool:
    """Whether a log holds nothing but these."""
    log.seek(0)
    text = log.read(WINDOW)
    lines = enumerate(text.decode("utf-8", "replace").split("\n"), start=1)
    spans = [range(one.line - 1, one.end + 1) for one in seen]
    return len(text) < WINDOW and not any(
        line.strip() and not any(number in span for span in spans) for number, line in lines
    )


def _within(match: Match, seen: Iterable[Traceback], after: int = MESSAGE) -> bool:
    return any(one.line <= match.line <= one.end + after for one in seen)


def _tracebacks(log: BinaryIO, begun: list[Match]) -> Iterator[Traceback]:
    """The tracebacks of a log, read where they begin, and at its own beginning, where one may be cut off.

    Those that overlap are read together.
    """
    read_to = -1
    found: list[Traceback] = []
    for offset, line in ((0, 1), *((match.offset, match.line) for match in begun)):
        if offset <= read_to or len(found) >= MOST:
            continue
        log.seek(offset)
        window = log.read(WINDOW)
        # What begins near the end of the window is read again, whole.
        read_to = offset + (len(window) if len(window) < WINDOW else WINDOW // 2)
        lines = window.decode("utf-8", "replace").split("\n")
        limit = line + window[: read_to - offset].count(b"\n")
        found += [one for one in tracebacks(lines, line) if one.line <= limit]
    yield from sorted(found, key=lambda one: one.line)[:MOST]


def _first(seen: tuple[Traceback, ...], matches: tuple[Match, ...]) -> Traceback | None:
    after = {match.line for match in matches if match.signature.after}
    causes = [
        one
        for one in _unless_from(seen, after)
        if one.error.rpartition(".")[2] not in _FOLLOWING and one.level not in _MILD
    ]
    # One without an end may be torn by what other processes wrote; one without anything tells nothing, and
    # behind what follows a failure of its process it goes on with that.
    torn = (
        one
        for one in causes
        if one.frames
        and not any(other.rank == one.rank and other.end in after for other in seen[: seen.index(one)])
    )
    told = next((one for one in causes if one.error), next(torn, None))
    if told is None:
        # That the other end is gone may be all that a log holds of a failure.
        lost = {one.line for one in matches if one.signature.after and one.signature.kind != "aftermath"}
        told = next((one for one in seen if one.end in lost and one.level not in _MILD), None)
    return _head(told, seen) if told is not None else None


def _unless_from(seen: tuple[Traceback, ...], after: set[int]) -> Iterator[Traceback]:
    """Those that neither end at one of these lines nor were raised from one that does."""
    gone: set[str | None] = set()
    for one in seen:
        if one.end in after or (one.chained and one.rank in gone):
            gone.add(one.rank)
        else:
            gone.discard(one.rank)
            yield one


def _head(told: Traceback, seen: tuple[Traceback, ...]) -> Traceback:
    """The beginning of the chain that a traceback ends, where it says why it was raised."""
    head = told
    for one in reversed(seen[: seen.index(told)]):
        if not head.chained or one.error in _ENDED:
            break
        if one.rank == head.rank:
            head = one
    return head


def _chain(first: Traceback | None, seen: tuple[Traceback, ...]) -> Iterator[Traceback]:
    if first is None:
        return
    yield first
    for one in seen[seen.index(first) + 1 :]:
        # Engines dress the first line of a record alone: what goes on with it bears no rank.
        if one.rank in {first.rank, None}:
            if not one.chained:
                return
            yield one


def _cause(chain: tuple[Traceback, ...], matches: tuple[Match, ...]) -> Match | None:
    """The signature that names what failed."""
    said = list(telling(matches))
    for one in chain:
        own = [match for match in said if one.line <= match.line <= one.end + MESSAGE]
        if own:
            # The exception itself says more than a line of source that is quoted above it.
            named = min(own, key=lambda match: match.line != one.end)
            passed = (match for match in own if match.line > named.line and not match.signature.wraps)
            return next(passed, named) if named.signature.wraps else named
    before = (match for match in said if not chain or match.line < chain[0].line)
    return next(before, None)


def telling(matches: Iterable[Match]) -> Iterator[Match]:
    """Those that say that something failed, and are no warnings."""
    for match in matches:
        signature = match.signature
        if signature.fatal and not signature.after and undress(match.text).level not in _MILD:
            yield match
