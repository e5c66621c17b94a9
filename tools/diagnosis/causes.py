"""Why a launch failed, by what its log holds: a known message, the kind of an exception, a record of errors.

``cause_of`` puts them in order: what is known by its words first, then what an exception is about, then what
is left where a log names no exception, and what runs wrong though nothing fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from memory.signatures import CLASSES, Match, Signature
from memory.vocabulary import Contract, Outcome
from tools.diagnosis.kinds import AFTERMATH, DEFECT, ExceptionKind, kind_by_name, kind_of
from tools.logs import Reading, Traceback, alone, undress
from tools.logs.reading import telling
from tools.logs.tracebacks import MESSAGE, MILD


class Cause(Contract):
    """Why. ``certain``: a known message names it; else the exception's kind makes it likely, or it is a
    ``guess`` by the place alone where it failed, and counts as not known."""

    kind: str
    means: str
    outcome: Outcome
    line: int
    text: str
    signature: str | None
    certain: bool
    guess: bool = False
    noticed: bool = False
    """Whether nothing failed, and this is wrong all the same."""
    advice: str
    cases: tuple[str, ...] = ()
    """Public cases, by address."""
    sources: tuple[str, ...] = ()
    """Releases whose source prints it."""


_ALONE = Signature(
    id="exception 0",
    pattern=(
        r"(?m)(?:^|[\])|] |^E +)(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception)|Exception)"
        r"(?:: \S|\(['\"])"
    ),
    outcome=Outcome.CRASHED,
    kind="exception",
    advice="",
    sources=(),
    fatal=False,
)
"""An exception on a line of its own: all that is left where a log holds no traceback."""
_RECORD = Signature(
    id="record 0",
    pattern=(
        r"(?m)(?:^|[\[\]) ])(?:ERROR|CRITICAL|FATAL)[\]: ]|^Error: \S|\] ?\[E\] |^E\d{4} \d\d:"
        r"|^ *what\(\): +\S|with exception \w+(?:Error|Exception)\b"
    ),
    outcome=Outcome.CRASHED,
    kind="record",
    advice="",
    sources=(),
    fatal=False,
)
"""A record of an error: what is left where not even an exception is named."""
_SAID = "Error: "
"""Before what a record says, where it is taken for an exception without a name."""
_LOST = "Exception"
"""What an exception is called whose end is not in the log: what its code is for may still say its kind."""
ALSO = (_ALONE, _RECORD)
"""What to look for in a log beside signatures (:func:`tools.logs.read_log`)."""


def stopped_at(reading: Reading) -> int | None:
    """Where a log says that the server was ended from outside; None where something else failed."""
    if reading.first is not None:
        return None
    ends = [match.line for match in reading.matches if match.signature.stops]
    ends += [one.end for one in reading.tracebacks if one.error == "KeyboardInterrupt"]
    return min(ends, default=None)


def cause_of(reading: Reading) -> Cause | None:
    """Why it failed; None where nothing that is known says it."""
    match, chain = reading.cause, reading.chain
    named = match is not None and (
        not chain or any(one.line <= match.line <= one.end + MESSAGE for one in chain)
    )
    # That code broke is the least that can be said: where it did, or what it passes on, may say more.
    wraps = match is not None and match.signature.wraps
    vague = wraps or (match is not None and match.signature.kind == DEFECT)
    if match is not None and (wraps or match.signature.kind == "fault"):
        begin = chain[0].line if chain else match.line
        said = [one for one in reading.matches if one.signature.explains and one.line < begin]
        if said:
            return _by_signature(said[-1], certain=False)
    following = {one.line for one in reading.matches if one.signature.after}
    own = tuple(one for one in chain if one.end not in following) or chain
    first, kind = _kind(own) if not named or vague else (None, None)
    if match is not None and wraps and not chain:  # what it passes on stands behind it in the same line
        first, kind = _kind((_record(match),))
        named = False
    if named and kind is not None and not (kind.outranks or (wraps and kind.kind != DEFECT)):
        kind = None
    # That code broke is the least that can be said after a line that says what failed.
    broke = kind is not None and kind.kind == DEFECT and not named
    if match is not None and (kind is None or broke or kind.kind == match.signature.kind):
        return _by_signature(match, certain=named)
    if match is None and kind is None and not any(one.error for one in chain):
        also = tuple(one for one in reading.also if one.line not in following)
        if reading.follows:  # then only exceptions say more, those of C++ too
            also = tuple(one for one in also if one.signature is _ALONE or _thrown(one))
        found = _alone(also, [one.line for one in own])
        first, kind = next(found, (None, None))
        if kind is None:
            first, kind = _kind(tuple(replace(one, error=_LOST) for one in own if one.frames))
    if kind is not None and kind.kind == AFTERMATH:
        # What failed is a process whose own words stand somewhere else.
        if (told := next(telling(reading.matches), None)) is not None:
            return _by_signature(told, certain=False)
        by_name = ((one, other) for one in own if (other := kind_by_name(one)) is not None)
        first, kind = next(_alone(reading.also), next(by_name, (None, None)))
    if kind is None or first is None:
        return _ended(reading) or _silent(reading)
    return Cause(
        kind=kind.kind,
        means=CLASSES[kind.kind],
        outcome=kind.outcome,
        line=first.end,
        text=_text(first),
        signature=None,
        certain=False,
        guess=kind.guess,
        advice=kind.advice,
    )


def _text(told: Traceback) -> str:
    if told.error == _LOST and not told.message:
        return ""
    return f"{told.error}: {told.message}".removeprefix(_SAID).strip(": ")


def _ended(reading: Reading) -> Cause | None:
    """What the end of a process makes likely, where it was not asked to end and nothing says more."""
    found = next((match for match in reading.matches if match.signature.ends), None)
    stopped = stopped_at(reading)
    if found is None or (stopped is not None and stopped < found.line):
        return None
    return _by_signature(found, certain=False)


_SILENT = frozenset({"fallback", "numbers", "missing_code"})
"""Classes of what is wrong although nothing fails."""
_WAITS = 10
"""Times that something says it waits which make a hang likely."""


def _silent(reading: Reading) -> Cause | None:
    """What a log that holds no failure says all the same; else None."""
    if reading.first is not None or reading.follows:
        return None
    if reading.refused is not None:
        return Cause(
            kind="options",
            means="a request asks for what the server refuses",
            outcome=Outcome.OK,
            line=reading.refused.end,
            text=_text(reading.refused),
            signature=None,
            certain=False,
            noticed=True,
            advice="It answered so, and went on: change the request as the message says.",
        )
    mild = [match for match in reading.matches if not match.signature.fatal and not match.signature.after]
    waits = sum(match.signature.kind == "hang" for match in mild) >= _WAITS
    told = (one for one in mild if one.signature.kind in _SILENT or (waits and one.signature.kind == "hang"))
    found = next(told, None)
    if found is None:
        return None
    return _by_signature(found, certain=False).model_copy(update={"noticed": True})


def _alone(
    matches: tuple[Match, ...], heads: Sequence[int] = ()
) -> Iterator[tuple[Traceback, ExceptionKind]]:
    """Exceptions that stand on a line of their own, and of what kind they are; then records of errors.
    ``heads``: where tracebacks begin whose ends are lost, which such a record announces."""
    yield from _exceptions(matches)
    for match in matches:
        said = _record(match) if match.signature is _RECORD else None
        kind = kind_of(said) if said is not None and said.level not in MILD else None
        heads_one = any(0 < head - match.line <= MESSAGE for head in heads)
        if said is not None and kind is not None and (heads_one or kind.kind not in _OF_REQUESTS):
            yield said, kind


def _exceptions(matches: tuple[Match, ...]) -> Iterator[tuple[Traceback, ExceptionKind]]:
    for match in matches:
        one = alone(match.text, match.line) if match.signature is _ALONE else None
        kind = kind_of(one) if one is not None else None
        if one is not None and kind is not None and kind.kind != AFTERMATH:
            yield one, kind


_OF_REQUESTS = frozenset({AFTERMATH, DEFECT, "options", "files"})
"""Classes that a record alone does not speak for: servers refuse requests in the same words, and go on."""


def _thrown(match: Match) -> bool:
    """Whether a line says what a C++ exception says."""
    return match.signature is _RECORD and match.text.lstrip().startswith("what():")


def _record(match: Match) -> Traceback:
    line = undress(match.text)
    return Traceback(match.line, match.line, (), _SAID[:-2], line.text.strip(), line.rank, line.level)


def _kind(chain: tuple[Traceback, ...]) -> tuple[Traceback | None, ExceptionKind | None]:
    """The first of a chain whose kind says more than that something in the code broke."""
    kinds = [(one, kind) for one in chain if (kind := kind_of(one)) is not None]
    telling = (pair for pair in kinds if pair[1].kind not in (DEFECT, AFTERMATH))
    return next(telling, next(iter(kinds), (None, None)))


def _by_signature(match: Match, *, certain: bool) -> Cause:
    signature = match.signature
    cases = tuple(one for one in signature.sources if one.startswith("https://"))
    return Cause(
        kind=signature.kind,
        means=CLASSES[signature.kind],
        outcome=signature.outcome,
        line=match.line,
        text=match.text.strip(),
        signature=signature.id,
        certain=certain,
        advice=signature.advice,
        cases=cases,
        sources=tuple(one for one in signature.sources if one not in cases),
    )
