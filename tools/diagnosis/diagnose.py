"""A crash log diagnosed: what was launched, what failed first, why, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from memory.signatures import CLASSES, Match, Signature
from memory.vocabulary import Contract, Outcome
from tools.diagnosis.facts import Facts, facts, patterns
from tools.diagnosis.gate import Gate
from tools.diagnosis.kinds import AFTERMATH, DEFECT, ExceptionKind, kind_by_tests, kind_of
from tools.engines.components import chooses_implementation, component_of
from tools.logs import Frame, Reading, Traceback, alone, in_order, read_log, undress
from tools.logs.reading import telling
from tools.logs.tracebacks import MESSAGE
from tools.sessions.candidates import raised_in

FRAMES = 40
"""Frames of a traceback that are told, the innermost."""


class Failure(Contract):
    """The first traceback. ``line`` and ``end`` are its first and last line in the log, from 1."""

    line: int
    end: int
    error: str
    message: str
    rank: str | None
    frames: tuple[Frame, ...]
    """Outermost first, at most :data:`FRAMES`, the inner ones."""


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


class Diagnosis(Contract):
    """What a log shows. What it does not say is None or empty; ``send`` says what would help then."""

    format: int = 1
    engine: str | None
    packages: dict[str, str]
    gpu: str | None
    arch: str | None
    arguments: dict[str, Any]
    command: str | None
    said: dict[str, int]
    """Where the log says it: line by name."""
    first: Failure | None
    later: int
    """Tracebacks that follow the first."""
    follows: bool
    """Whether there is nothing but what follows a failure whose beginning is not in the log."""
    cause: Cause | None
    stopped: int | None = None
    """The line at which it was ended from outside, where nothing else says that something failed."""
    component: str | None
    backend: str | None
    send: tuple[str, ...] = ()
    newest_first: bool = False
    """Whether the log's newest lines come first; lines are numbered as they stand in it."""


def diagnose(log: BinaryIO) -> Diagnosis:
    """Read ``log``, a file that can be read twice."""
    with in_order(log) as (file, numbers):
        found = _diagnosed(file)
    return found if numbers is None else _as_it_stands(found, numbers)


def _as_it_stands(found: Diagnosis, numbers: Sequence[int]) -> Diagnosis:
    """With the numbers that lines have in the log itself."""

    def moved(line: int) -> int:
        return numbers[min(line, len(numbers)) - 1]

    changed: dict[str, Any] = {
        "newest_first": True,
        "said": {name: moved(line) for name, line in found.said.items()},
    }
    if (first := found.first) is not None:
        where = {"line": moved(first.line), "end": moved(first.end)}
        changed["first"] = first.model_copy(update=where)
    if found.cause is not None:
        changed["cause"] = found.cause.model_copy(update={"line": moved(found.cause.line)})
    if found.stopped is not None:
        changed["stopped"] = moved(found.stopped)
    return found.model_copy(update=changed)


_ALONE = Signature(
    id="exception 0",
    pattern=r"(?m)(?:^|[\])|] |^E +)(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S",
    outcome=Outcome.CRASHED,
    kind="exception",
    advice="",
    sources=(),
    fatal=False,
)
"""An exception on a line of its own: all that is left where a log holds no traceback."""
_RECORD = Signature(
    id="record 0",
    pattern=r"(?m)(?:^|[\]) ])(?:ERROR|CRITICAL|FATAL)[\]: ]|^Error: \S|with exception \w+(?:Error|Exception)\b",
    outcome=Outcome.CRASHED,
    kind="record",
    advice="",
    sources=(),
    fatal=False,
)
"""A record of an error: what is left where not even an exception is named."""
_SAID = "Error: "
"""Before what a record says, where it is taken for an exception without a name."""


def _diagnosed(log: BinaryIO) -> Diagnosis:
    reading = read_log(log, (*patterns(), _ALONE, _RECORD))
    known = facts(log, reading.also, reading.matches)
    cause = _cause(reading)
    stopped = _stopped(reading) if cause is None else None
    component, backend = _about(reading, known.arguments)
    return Diagnosis(
        engine=known.engine,
        packages={name: said.value for name, said in sorted(known.packages.items())},
        gpu=known.gpu.value if known.gpu else None,
        arch=known.arch.value if known.arch else None,
        arguments=_documented(known.arguments),
        command=known.command,
        said=_said(known),
        first=_failure(reading.first) if reading.first is not None else None,
        later=sum(one is not reading.first for one in reading.tracebacks),
        follows=reading.follows and stopped is None,
        cause=cause,
        stopped=stopped,
        component=component,
        backend=backend,
        send=tuple(_send(reading, known, cause, stopped)),
    )


def _stopped(reading: Reading) -> int | None:
    """Where a log says that the server was ended from outside; None where something else failed."""
    if reading.first is not None:
        return None
    ends = [match.line for match in reading.matches if match.signature.stops]
    ends += [one.end for one in reading.tracebacks if one.error == "KeyboardInterrupt"]
    return min(ends, default=None)


def _cause(reading: Reading) -> Cause | None:
    match, chain = reading.cause, reading.chain
    named = match is not None and (
        not chain or any(one.line <= match.line <= one.end + MESSAGE for one in chain)
    )
    # That code broke is the least that can be said: where it did, or what it passes on, may say more.
    wraps = match is not None and match.signature.wraps
    vague = wraps or (match is not None and match.signature.kind == DEFECT)
    following = {one.line for one in reading.matches if one.signature.after}
    own = tuple(one for one in chain if one.end not in following) or chain
    first, kind = _kind(own) if not named or vague else (None, None)
    if named and kind is not None and not (kind.outranks or wraps):
        kind = None
    # That code broke is the least that can be said after a line that says what failed.
    broke = kind is not None and kind.kind == DEFECT and not named
    if match is not None and (kind is None or broke or kind.kind == match.signature.kind):
        return _by_signature(match, certain=named)
    if match is None and kind is None and not reading.follows and not any(one.error for one in chain):
        first, kind = next(_alone(reading.also), (None, None))
    if kind is not None and kind.kind == AFTERMATH:
        # What failed is a process whose own words stand somewhere else.
        if (told := next(telling(reading.matches), None)) is not None:
            return _by_signature(told, certain=False)
        first, kind = next(_alone(reading.also), (None, None))
    if kind is None or first is None:
        return _silent(reading)
    return Cause(
        kind=kind.kind,
        means=CLASSES[kind.kind],
        outcome=kind.outcome,
        line=first.end,
        text=f"{first.error}: {first.message}".removeprefix(_SAID).strip(": "),
        signature=None,
        certain=False,
        guess=kind.guess,
        advice=kind.advice,
    )


_SILENT = frozenset({"fallback", "numbers", "missing_code"})
"""Classes of what is wrong although nothing fails."""
_WAITS = 10
"""Times that something says it waits which make a hang likely."""


def _silent(reading: Reading) -> Cause | None:
    """What a log that holds no failure says all the same; else None."""
    if reading.first is not None or reading.follows:
        return None
    mild = [match for match in reading.matches if not match.signature.fatal and not match.signature.after]
    waits = sum(match.signature.kind == "hang" for match in mild) >= _WAITS
    told = (one for one in mild if one.signature.kind in _SILENT or (waits and one.signature.kind == "hang"))
    found = next(told, None)
    if found is None:
        return None
    return _by_signature(found, certain=False).model_copy(update={"noticed": True})


def by_gate(found: Diagnosis, gate: Gate) -> Diagnosis:
    """With the cause that the tests around the line that raised make likely, where no message names one."""
    cause, first = found.cause, found.first
    told = kind_by_tests(one.text for one in gate.guards) if gate.innermost else None
    if told is None or first is None or not (cause is None or cause.guess):
        return found
    likely = Cause(
        kind=told["class"],
        means=CLASSES[told["class"]],
        outcome=Outcome(told["outcome"]),
        line=first.end,
        text=f"{first.error}: {first.message}".rstrip(": "),
        signature=None,
        certain=False,
        advice=told["advice"],
    )
    return found.model_copy(update={"cause": likely, "send": ()})


def _alone(matches: tuple[Match, ...]) -> Iterator[tuple[Traceback, ExceptionKind]]:
    """Exceptions that stand on a line of their own, and of what kind they are; then records of errors."""
    for match in matches:
        one = alone(match.text, match.line) if match.signature is _ALONE else None
        kind = kind_of(one) if one is not None else None
        if one is not None and kind is not None and kind.kind != AFTERMATH:
            yield one, kind
    for match in matches:
        said = _record(match) if match.signature is _RECORD else None
        kind = kind_of(said) if said is not None else None
        if said is not None and kind is not None and kind.kind not in _OF_REQUESTS:
            yield said, kind


_OF_REQUESTS = frozenset({AFTERMATH, DEFECT, "options", "files"})
"""Classes that a record alone does not speak for: servers refuse requests in the same words, and go on."""


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


def _about(reading: Reading, arguments: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Component and backend that the cause is about, as the launch called them."""
    match = reading.cause
    if match is None:
        return None, None
    component = match.component or raised_in(match, reading.first)
    if component is None:
        return None, match.backend
    return component, _chosen(component, arguments) or match.backend


def _chosen(component: str, arguments: Mapping[str, Any]) -> str | None:
    """The value of the option for a component. One whose name goes on (``fp4_gemm_runner``) counts last."""
    asked = {
        component_of(name): value
        for name, value in arguments.items()
        if isinstance(value, str) and chooses_implementation(name)
    }
    longer = (value for name, value in asked.items() if name.startswith(f"{component}_"))
    return asked.get(component) or next(longer, None)


def _failure(first: Traceback) -> Failure:
    return Failure(
        line=first.line,
        end=first.end,
        error=first.error,
        message=first.message,
        rank=first.rank,
        frames=first.frames[-FRAMES:],
    )


def _said(known: Facts) -> dict[str, int]:
    told = {f"package {name}": said.line for name, said in known.packages.items()}
    for name, said in (("gpu", known.gpu), ("arch", known.arch), ("arguments", known.argued)):
        if said is not None:
            told[name] = said.line
    return told


def _documented(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON knows them."""
    return {name: _plain(value) for name, value in arguments.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    finite = not isinstance(value, float) or value - value == 0
    return value if finite and isinstance(value, str | int | float | bool | None) else repr(value)


def _send(reading: Reading, known: Facts, cause: Cause | None, stopped: int | None) -> list[str]:
    """What would say more. Empty where a known message names the cause and the launch is known."""
    wanted = []
    if stopped is not None:
        return ["what ended it: who was logged in, the scheduler of jobs, the events of the pod"]
    if reading.first is None and cause is None and not reading.follows:
        return ["if it failed all the same, the log from the launch on, standard error included (2>&1)"]
    if reading.first is None and cause is None:
        wanted.append("the log from the launch on, standard error included: the first traceback is not in it")
    elif cause is None or cause.guess:
        wanted.append("the whole log from the launch on: what stands before this traceback may say why")
    if cause is not None and cause.certain:
        return wanted
    if known.engine is None or known.engine not in known.packages:
        wanted.append("the versions: pip freeze, or the name of the image")
    if known.arch is None:
        wanted.append("the GPU: nvidia-smi")
    if not known.arguments:
        wanted.append("the command that launched it")
    if cause is not None and cause.kind in ("fault", "communication"):
        wanted.append("the same again with CUDA_LAUNCH_BLOCKING=1 and NCCL_DEBUG=INFO set")
    return wanted
