"""From events to rows: the database after a log is a function of that log.

:func:`fold` reads what came after the last folded event, in transactions short enough that other processes
can write in between; any number of them may fold the same log. :mod:`transcripts.catch_up` does it for all
the transcripts of a home.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from memory.database import Folded
from memory.store import Store, StoreError, Writing
from memory.trust import IMPORTED, OWN
from memory.vocabulary import Effect, Finding
from transcripts.chain import LogError
from transcripts.events import IMPORT, Body, Called, Returned
from transcripts.reader import Record, records
from transcripts.standing import is_folded

__all__ = ["FoldError", "LogError", "Told", "fold"]

_BODY: TypeAdapter[Body] = TypeAdapter(Body)
_WITH_ROWS = {"opened", "resumed", "understood", "hypothesis", "called", "returned", "concluded"}
"""Kinds that make rows by their fields. A finding is checked by itself: one that is none is refused alone."""
_RUNS = {Effect.EXECUTES_FOREIGN_CODE.value, Effect.USES_GPU.value}
"""Effects of calls that are experiments, whether they test a hypothesis or not."""
_BATCH = 500
"""Events that are read before they are folded."""
_SECONDS = 0.01
"""After which a transaction comes to its end, however much is left to fold."""


@dataclass(frozen=True)
class Told:
    """What folding a transcript did. ``refused``: findings that the store does not keep, and why."""

    transcript: str
    events: int
    refused: tuple[str, ...] = ()


class FoldError(Exception):
    """A log and the rows that were folded from it do not belong together. One line."""


class _Step(NamedTuple):
    """An event as far as it makes rows: its fields, a finding, why that is none, or nothing."""

    folded: Folded
    at: str
    body: dict[str, Any] | Finding | str | None


def fold(store: Store, path: Path) -> Told:
    """Fold the events of the log at ``path`` that the store has not seen.

    Raises :class:`LogError` for a damaged log (what stands before the damage is folded),
    :class:`FoldError` if the log is not the one that was folded before, :class:`StoreError`.
    """
    _check_name(path)
    events = 0
    refused: list[str] = []
    done = False
    while not done:
        at = store.folded(path.stem)
        with closing(_after(at, path)) as source:
            done = True
            for batch in _batches(_steps(path, source)):
                written = _write(store, path, batch, at, refused)
                events += written
                if written < len(batch):
                    # Another process folds the same log and was faster: go on from where it got to.
                    done = False
                    break
                at = batch[-1].folded
    return Told(path.stem, events, tuple(refused))


def _check_name(path: Path) -> None:
    if not path.is_file():
        raise LogError(f"no transcript {path}")
    try:
        path.stem.encode()
    except UnicodeEncodeError:
        raise LogError(f"{path}: its name is no text; rename it") from None


def _after(at: Folded | None, path: Path) -> Generator[Record, None, None]:
    """The records after the last folded one."""
    if at is None:
        return records(path)
    try:
        same = is_folded(path, at)
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror or error}") from error
    if not same:
        raise FoldError(f"{path} is not the log that was folded before: it was replaced or cut")
    return records(path, offset=at.offset, seq=at.last_seq + 1, prev=at.last_hash)


def _batches(steps: Iterator[_Step]) -> Iterator[list[_Step]]:
    """Steps in lists; at damage first what stands before it, then the error."""
    batch: list[_Step] = []
    try:
        for step in steps:
            batch.append(step)
            if len(batch) == _BATCH:
                yield batch
                batch = []
    except LogError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _steps(path: Path, source: Iterable[Record]) -> Iterator[_Step]:
    """What is to be written of each event.

    A chain holds whatever its writer put into it: what makes rows is checked to be an event, so that it is
    this event that is named where it is none.
    """
    for record in source:
        kind = record.data.get("kind")
        body: dict[str, Any] | Finding | str | None = None
        try:
            record.at.encode()
            if kind == "found":
                body = _finding(record)
            elif kind in _WITH_ROWS and _may_have_rows(record.data):
                _BODY.validate_python(record.data)
                body = record.data
        except ValidationError as error:
            detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in detail["loc"][1:])
            raise LogError(
                f"{path}: event {record.seq}: not an event as format 1 writes it ({where}: {detail['msg']})"
            ) from None
        except UnicodeEncodeError as error:
            raise LogError(f"{path}: event {record.seq}: cannot be kept ({error})") from None
        yield _Step(Folded(record.seq, record.hash, record.end), record.at, body)


def _may_have_rows(data: dict[str, Any]) -> bool:
    """Whether an event makes rows at all: of calls only those do that are experiments."""
    if data["kind"] == "called":
        return data.get("rung") is not None or data.get("effect") in _RUNS
    return True


def makes_rows(data: Body, experiments: set[str]) -> bool:
    """Whether an event is to be folded as soon as it is written. ``experiments``: calls before it that are
    any; kept up to date. What it passes over is folded with what follows."""
    if isinstance(data, Called):
        if data.rung is None and data.effect.value not in _RUNS:
            return False
        experiments.add(data.call)
        return True
    if isinstance(data, Returned):
        return data.call in experiments
    return data.kind == "found" or data.kind in _WITH_ROWS


def _finding(record: Record) -> Finding | str:
    try:
        return Finding.model_validate(record.data.get("finding"))
    except ValidationError as error:
        return f"event {record.seq}: not a finding ({error.error_count()} fields are wrong)"


def _write(store: Store, path: Path, steps: Sequence[_Step], at: Folded | None, refused: list[str]) -> int:
    """Fold all ``steps``, which follow ``at``, in as many transactions as it takes. Returns how many were
    written: fewer where the store is not at ``at`` any more."""
    written = 0
    while written < len(steps):
        count = _transaction(store, path, steps[written:], at, refused)
        if not count:
            break
        written += count
        at = steps[written - 1].folded
    return written


def _transaction(
    store: Store, path: Path, steps: Sequence[_Step], at: Folded | None, refused: list[str]
) -> int:
    """Fold the first of ``steps``, at least one and as many as there is time for. Returns how many."""
    count = 0
    said: list[str] = []
    try:
        with store.write() as writing:
            if writing.folded(path.stem) != at:
                return 0
            until = time.monotonic() + _SECONDS
            for step in steps:
                said += _rows_of(writing, path.stem, step)
                count += 1
                if time.monotonic() > until:
                    break
            last = steps[count - 1]
            writing.folded_to(path.stem, last.at, last.folded)
    except (OverflowError, UnicodeEncodeError) as error:
        # What stands before the event that is none is kept, as it is before damage of the chain.
        if count:
            return _transaction(store, path, steps[:count], at, refused)
        raise LogError(f"{path}: event {steps[0].folded.last_seq}: cannot be kept ({error})") from None
    refused += said
    return count


def _rows_of(writing: Writing, name: str, step: _Step) -> list[str]:
    """The rows of one event. Returns why a finding was refused, if one was."""
    seq, data = step.folded.last_seq, step.body
    if data is None:
        return []  # messages and notes have no rows of their own, nor have calls that are no experiments
    if isinstance(data, str):
        return [data]
    if isinstance(data, Finding):
        try:
            origin = IMPORTED if writing.driver(name) == IMPORT else OWN
            writing.add_finding(data, name, seq, step.at, origin)
        except StoreError as error:
            if error.damaged:
                raise
            return [f"event {seq}: {error}"]
        return []
    match data["kind"]:
        case "opened":
            opened = {key: data[key] for key in ("question", "program", "driver", "parent")}
            writing.open_investigation(name, step.at, id=data["investigation"], **opened)
        case "resumed":
            # It goes on: how it ended is not known any more.
            ended = dict.fromkeys(("concluded_at", "exit_reason", "exit_code", "summary"))
            writing.update_investigation(name, driver=data["driver"], **ended)
        case "understood":
            target = data["target"]
            fields = {key: target[key] for key in ("model", "quantisation", "arch", "gpu", "engine")}
            place = {"environment": data["environment"], "packages": data["packages"]}
            writing.update_investigation(name, **fields, **place)
        case "hypothesis":
            writing.put_hypothesis(name, seq, data)
        case "called":
            writing.begin_experiment(name, seq, step.at, data)
        case "returned":
            writing.end_experiment(name, seq, step.at, data)
        case "concluded":
            fields = {key: data[key] for key in ("exit_reason", "exit_code", "summary")}
            writing.update_investigation(name, concluded_at=step.at, **fields)
            environment = (data.get("answer") or {}).get("environment") or {}
            if environment.get("fingerprint"):
                writing.know_environment(name, environment["name"], environment["fingerprint"])
    return []
