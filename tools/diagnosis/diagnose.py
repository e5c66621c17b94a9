"""A crash log diagnosed: what was launched, what failed first, why, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from memory.signatures import CLASSES
from memory.vocabulary import Contract, Outcome
from tools.diagnosis.causes import ALSO, Cause, cause_of, stopped_at
from tools.diagnosis.facts import Facts, facts, patterns
from tools.diagnosis.gate import Gate
from tools.diagnosis.kinds import kind_by_tests
from tools.engines.components import chooses_implementation, component_of
from tools.logs import Frame, Reading, Traceback, in_order, read_log
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


def _diagnosed(log: BinaryIO) -> Diagnosis:
    reading = read_log(log, (*patterns(), *ALSO))
    known = facts(log, reading.also, reading.matches)
    cause = cause_of(reading)
    stopped = stopped_at(reading) if cause is None else None
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
        follows=reading.follows and stopped is None and cause is None,
        cause=cause,
        stopped=stopped,
        component=component,
        backend=backend,
        send=tuple(_send(reading, known, cause, stopped)),
    )


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
    wanted: list[str] = []
    if cause is not None and cause.outcome is Outcome.OK:
        return wanted
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
