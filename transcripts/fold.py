"""From events to rows: the database after a log is a function of that log.

:func:`fold` reads what came after the last folded event, :class:`Folding` takes events as they are
written, :func:`catch_up` folds every transcript that has grown. All three make the same rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from memory.store import Store, StoreError, Writing
from memory.tables import FoldedRow
from memory.vocabulary import Finding
from transcripts.chain import LogError
from transcripts.events import Body, Event
from transcripts.reader import Record, records

_BODY: TypeAdapter[Body] = TypeAdapter(Body)
_WITH_ROWS = {"opened", "understood", "hypothesis", "concluded"}
"""Kinds that make rows by their fields. A finding is checked by itself: one that is none is refused alone."""
_BATCH = 500
"""Events folded in one transaction: short enough that another process can write in between."""


@dataclass(frozen=True)
class Folded:
    """What folding a transcript did. ``refused``: findings that the store does not keep, and why."""

    transcript: str
    events: int
    refused: tuple[str, ...] = ()


class FoldError(Exception):
    """A log and the rows that were folded from it do not belong together. One line."""


def fold(store: Store, path: Path) -> Folded:
    """Fold the events of the log at ``path`` that the store has not seen.

    Raises :class:`LogError` for a damaged log (what stands before the damage is folded),
    :class:`FoldError` if the log is not the one that was folded before, :class:`StoreError`.
    """
    name = path.stem
    if not path.is_file():
        raise LogError(f"no transcript {path}")
    count = 0
    refused: list[str] = []
    source, start = _from_last(store.folded(name), path, store.path)
    with closing(source):
        for batch in _batches(source):
            said = _fold_batch(store, path, batch, start)
            if said is None:
                # Another process folds the same log and is ahead: go on from where it got to.
                more = fold(store, path)
                return Folded(name, count + more.events, (*refused, *more.refused))
            refused += said
            count += len(batch)
            start = batch[-1].seq + 1
    return Folded(name, count, tuple(refused))


class Folding:
    """Keeps the rows up to date while a log is written: give it every event, in order."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self._refused: list[str] = []

    def __call__(self, event: Event) -> None:
        """Fold ``event`` (on disk already) and whatever before it was not folded yet."""
        self._refused += fold(self._store, self._path).refused

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(self._refused)


def catch_up(store: Store, transcripts: Path) -> list[str]:
    """Fold every transcript in a folder that has grown since. Returns one line for each that could not
    be: a damaged log must not stand between a person and what the others say."""
    problems = []
    for path in behind(store, transcripts):
        try:
            problems += [f"{path.name}: {reason}" for reason in fold(store, path).refused]
        except (LogError, FoldError) as error:
            problems.append(str(error))
    return problems


def behind(store: Store, transcripts: Path) -> list[Path]:
    """Transcripts whose size is not what was folded, by name."""
    found = []
    for path in sorted(transcripts.glob("*.jsonl")):
        at = store.folded(path.stem)
        if at is None or path.stat().st_size != at.offset:
            found.append(path)
    return found


def rebuild(store: Store, transcripts: Path) -> list[str]:
    """Make every row again from the transcripts. Returns problems as :func:`catch_up` does."""
    store.clear()
    return catch_up(store, transcripts)


def _from_last(at: FoldedRow | None, path: Path, database: Path) -> tuple[Generator[Record, None, None], int]:
    """The records after the last folded one, and the number of the first of them."""
    if at is None:
        return records(path), 0
    if path.stat().st_size < at.offset or not _still_there(path, at.offset, at.last_hash):
        raise FoldError(
            f"{path} is not the log that was folded before (it was replaced or cut); "
            f"move {database} away: rows are made again from the transcripts"
        )
    return records(path, offset=at.offset, seq=at.last_seq + 1, prev=at.last_hash), at.last_seq + 1


def _batches(source: Iterator[Record]) -> Iterator[list[Record]]:
    """Records in lists; at damage first what stands before it, then the error."""
    batch: list[Record] = []
    try:
        for record in source:
            batch.append(record)
            if len(batch) == _BATCH:
                yield batch
                batch = []
    except LogError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _fold_batch(store: Store, path: Path, batch: list[Record], start: int) -> list[str] | None:
    """Fold events that begin with number ``start``, in one transaction. Returns why findings were refused;
    None, and nothing done, where the store is not at ``start`` any more."""
    good = 0
    try:
        with store.write() as writing:
            at = writing.folded(path.stem)
            if (at.last_seq + 1 if at is not None else 0) != start:
                return None
            refused: list[str] = []
            for record in batch:
                refused += _fold_one(writing, path, record)
                good += 1
            last = batch[-1]
            writing.folded_to(path.stem, last.seq, last.hash, last.end)
            return refused
    except LogError:
        # What stands before the event that is none is kept, as it is before damage of the chain.
        if good:
            _fold_batch(store, path, batch[:good], start)
        raise


def _fold_one(writing: Writing, path: Path, record: Record) -> list[str]:
    """The rows of one event. Returns why a finding was refused, if one was.

    A chain holds whatever its writer put into it: what makes rows is checked to be an event, and written at
    once, so that it is this event that is named where it cannot be.
    """
    kind = record.data.get("kind")
    try:
        if kind in _WITH_ROWS:
            _BODY.validate_python(record.data)
        refused = _rows_of(writing, path.stem, record, kind)
        if kind in _WITH_ROWS:
            writing.session.flush()
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in detail["loc"][1:])
        raise LogError(
            f"{path}: event {record.seq}: not an event as format 1 writes it ({where}: {detail['msg']})"
        ) from None
    except (OverflowError, UnicodeEncodeError) as error:
        raise LogError(f"{path}: event {record.seq}: cannot be kept ({error})") from None
    return refused


def _rows_of(writing: Writing, name: str, record: Record, kind: object) -> list[str]:
    data: dict[str, Any] = record.data
    fields: dict[str, Any] = {}
    refused: list[str] = []
    match kind:
        case "opened":
            opened = {key: data[key] for key in ("question", "program", "driver", "parent")}
            writing.open_investigation(name, record.at, id=data["investigation"], **opened)
            return []
        case "understood":
            target = data["target"]
            fields = {key: target[key] for key in ("model", "quantisation", "arch", "gpu", "engine")}
            fields |= {"environment": data["environment"], "packages": data["packages"]}
        case "hypothesis":
            writing.put_hypothesis(name, record.seq, data)
        case "found":
            try:
                finding = Finding.model_validate(data["finding"])
                writing.add_finding(finding, name, record.seq, record.at)
            except ValidationError as error:
                refused = [f"event {record.seq}: not a finding ({error.error_count()} fields are wrong)"]
            except StoreError as error:
                refused = [f"event {record.seq}: {error}"]
        case "concluded":
            fields = {key: data[key] for key in ("exit_reason", "exit_code", "summary")}
            fields["concluded_at"] = record.at
        case _:
            pass  # calls, results and notes have no rows of their own
    writing.update_investigation(name, record.at, record.seq + 1, **fields)
    return refused


def _still_there(path: Path, offset: int, digest: str) -> bool:
    """Whether the line that ends at ``offset`` is the one with hash ``digest``."""
    with path.open("rb") as file:
        file.seek(max(0, offset - 256))
        return f'"hash":"{digest}"'.encode() in file.read(min(256, offset))


__all__ = ["FoldError", "Folded", "Folding", "LogError", "behind", "catch_up", "fold", "rebuild"]
