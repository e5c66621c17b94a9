"""Writing a transcript, and reading it as typed events.

An event is on disk when :meth:`Log.append` returns. A log has one writer: the lock is the kernel's and
goes with the process. What is written is never changed, except that a torn last line is cut off; secrets are
replaced before anything is written (:mod:`transcripts.redaction.secrets`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pydantic import TypeAdapter, ValidationError

from memory.artifacts import sync_folder
from memory.clock import Clock
from transcripts.chain import LogError, LogWriteError, encode, link
from transcripts.events import GENESIS, Body, Event, Opened
from transcripts.reader import (
    LINE_LIMIT,
    Problem,
    Record,
    check_chain,
    last_lines,
    line_of,
    read_raw,
    records,
    tail_raw,
    torn_bytes,
    transcript_path,
)
from transcripts.redaction.secrets import JSON, redacted

__all__ = [
    "Log",
    "LogError",
    "LogWriteError",
    "Problem",
    "Record",
    "body_of",
    "line_of",
    "lock",
    "read",
    "read_raw",
    "records",
    "tail",
    "tail_raw",
    "transcript_path",
    "verify",
]

_sync = getattr(os, "fdatasync", os.fsync)
_BODY: TypeAdapter[Body] = TypeAdapter(Body)
_PROBLEMS = 100


@dataclass(frozen=True)
class _Started:
    """A write that was begun: the file's size before it and once whole, and the state of the log then."""

    before: int
    whole: int
    state: tuple[int, str]


class Log:
    """The one writer of a transcript. Make it with :meth:`create` or :meth:`open`; close it."""

    def __init__(
        self,
        path: Path,
        handle: int,
        clock: Clock,
        seq: int,
        head: str,
        cut: int = 0,
        redact: Callable[[JSON], JSON] = redacted,
    ) -> None:
        self.path = path
        self.cut = cut
        """Bytes of a torn last line that were cut off when this was opened."""
        self._handle = handle
        self._clock = clock
        self._redact = redact
        self._state = (seq, head)
        self._started: _Started | None = None
        self._broken: str | None = None
        self._synced = True
        self._lock = threading.Lock()

    @classmethod
    def create(
        cls,
        path: Path,
        opened: Opened,
        clock: Clock,
        inherited: Iterable[tuple[str, Body]] = (),
        redact: Callable[[JSON], JSON] = redacted,
    ) -> Log:
        """Start a log with its first event: the file is there with it, or not at all.

        ``inherited``: events of a parent that follow it at once, each with its time. Raises
        :class:`LogError` if the file exists or cannot be written.
        """
        if path.exists():
            raise LogError(f"transcript {path} exists already; choose another id")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".part")
        except OSError as error:
            raise LogWriteError(f"cannot create transcript {path}: {error.strerror or error}") from error
        part = Path(name)
        log = cls(path, handle, clock, 0, GENESIS, redact=redact)
        try:
            fcntl.fcntl(handle, fcntl.F_SETFL, os.O_APPEND)
            _take(handle, path)
            log.append(opened)
            # Nobody sees the file before it has its name: once is often enough.
            log._synced = False
            for at, body in inherited:
                log.append(body, at)
            log._synced = True
            _sync(handle)
            _name(part, path)
            sync_folder(path.parent)
        except OSError as error:
            log.close()
            raise LogWriteError(f"cannot create transcript {path}: {error.strerror or error}") from error
        except BaseException:
            log.close()
            raise
        finally:
            part.unlink(missing_ok=True)
        return log

    @classmethod
    def open(cls, path: Path, clock: Clock, redact: Callable[[JSON], JSON] = redacted) -> Log:
        """Go on with a log after its last whole event. A torn line after it is cut off (see ``cut``).

        Raises :class:`LogError` if it is no transcript, has another writer, or its last event is damaged;
        the chain before that is :func:`verify`'s.
        """
        tail_raw(path)  # says what is wrong with a file that is no transcript, before it is locked
        handle = lock(path)
        try:
            cut = torn_bytes(path)
            if cut:
                os.ftruncate(handle, os.fstat(handle).st_size - cut)
                _sync(handle)
            last = link(last_lines(path, 1)[0])
            if last is None or not last.intact:
                raise LogError(f"{path}: its last event is damaged; nothing can be added to it")
        except BaseException:
            os.close(handle)
            raise
        return cls(path, handle, clock, last.seq + 1, last.hash, cut, redact)

    @property
    def next_seq(self) -> int:
        """The number that the next event will have."""
        with self._lock:
            return self._settled()[0]

    @property
    def head(self) -> str:
        """Hash of the last event."""
        with self._lock:
            return self._settled()[1]

    def append(self, body: Body, at: str | None = None) -> Event:
        """Write one event and return it as a reader will see it. On disk when this returns. ``at``: its time,
        else now.

        Raises :class:`LogError` if it cannot be written; the log then ends with the event before. After an
        interrupt (Ctrl-C) the event is written whole or not at all, and the log can go on.
        """
        data = self._redact(body.model_dump(mode="json"))
        with self._lock:
            if self._broken is not None:
                raise LogWriteError(self._broken)
            seq, prev = self._settled()
            line, digest = encode(seq, at or self._clock.now(), data, prev)
            if len(line) > LINE_LIMIT:
                raise LogWriteError(
                    f"an event of {len(line)} bytes is too large for {self.path} (at most {LINE_LIMIT}); "
                    "keep the whole as an artifact"
                )
            try:
                event = Event.model_validate_json(line)
            except ValidationError as error:
                raise LogError(
                    f"{self.path}: `{body.kind}` cannot be written without a secret that is a word of the "
                    f"format ({_first(error)}); choose another secret, this one protects nothing"
                ) from None
            before = os.fstat(self._handle).st_size
            self._started = _Started(before, before + len(line), (seq + 1, digest))
            self._write(line, before)
            self._settled()
        return event

    def _settled(self) -> tuple[int, str]:
        """The next number and the head, after what became of the last write is told by the file's size.

        Asked before every use, since an interrupt can come between any two steps of a write.
        """
        started = self._started
        if started is not None and self._handle >= 0:
            size = os.fstat(self._handle).st_size
            if size == started.whole:
                self._state = started.state
            elif size > started.before:
                os.ftruncate(self._handle, started.before)
            self._started = None
        return self._state

    def close(self) -> None:
        """Give up the lock. A second call does nothing."""
        with self._lock, suppress(OSError):
            self._settled()
        handle, self._handle = self._handle, -1
        self._broken = f"transcript {self.path} is closed"
        if handle >= 0:
            os.close(handle)

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes, before: int) -> None:
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            # A full disk takes part of a line: take it back, so that the log stays whole and can go on.
            try:
                os.ftruncate(self._handle, before)
            except OSError:
                self._broken = (
                    f"transcript {self.path} could not be repaired after a failed write; start anew: "
                    f"agent resume {self.path.stem}"
                )
            raise LogWriteError(self._cannot(error)) from error
        if not self._synced:
            return
        try:
            _sync(self._handle)
        except OSError as error:
            # Whether it reached the disk is unknown, and asking again would not tell.
            self._broken = (
                f"transcript {self.path} could not be flushed to disk; check the disk, then: "
                f"agent resume {self.path.stem}"
            )
            raise LogWriteError(self._cannot(error)) from error

    def _cannot(self, error: OSError) -> str:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        fix = f"; free some space, then: agent resume {self.path.stem}" if full else ""
        return f"cannot write to transcript {self.path}: {error.strerror or error}{fix}"


def read(path: Path) -> Generator[Event, None, None]:
    """Events one by one, chain and shape checked; stops before a torn last line.

    Raises :class:`LogError` naming the first event that is wrong.
    """
    for record in records(path):
        body = body_of(path, record)
        yield Event(seq=record.seq, at=record.at, data=body, prev=record.prev, hash=record.hash)


def body_of(path: Path, record: Record) -> Body:
    """What a record of the log at ``path`` says. Raises :class:`LogError` where it is no event of ours."""
    try:
        return _BODY.validate_python(record.data, strict=False)
    except ValidationError as error:
        raise LogError(f"{path}: event {record.seq}: {_first(error)}") from None


def tail(path: Path, count: int = 1) -> list[Event]:
    """The last ``count`` whole events, oldest first."""
    try:
        return [Event.model_validate(value) for value in tail_raw(path, count)]
    except ValidationError as error:
        raise LogError(f"{path}: near its end: {_first(error)}") from None


def verify(path: Path) -> list[Problem]:
    """What is wrong with a log, each with its event: the chain, a torn last line, bodies that format 1
    does not know. Empty for an intact log. At most 100 problems are listed.

    Raises :class:`LogError` where the file is no transcript, or one of a newer format.
    """
    problems: list[Problem] = []
    for problem in check_chain(path):
        problems.append(problem)
        if len(problems) >= _PROBLEMS:
            return problems
    if problems:
        return problems
    # Bodies only once the chain holds: they are what was written, so a bad one is the writer's fault.
    for record in records(path):
        try:
            _BODY.validate_python(record.data)
        except ValidationError as error:
            problems.append(Problem(record.seq, _first(error)))
        if len(problems) >= _PROBLEMS:
            break
    return problems


def lock(path: Path) -> int:
    """A handle of the transcript at ``path``, to append with, that holds its lock; closing it gives it up.

    Raises :class:`LogError` if another process has it, or the file cannot be written.
    """
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                _take(handle, path)
                # Whoever had it until now may have put another file in the place of this one.
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
        except OSError as error:
            raise LogWriteError(f"cannot write to transcript {path}: {error.strerror or error}") from error


def _take(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            raise LogWriteError(
                f"transcript {path} is being written by another process; wait for it or stop it"
            ) from None
        raise LogWriteError(f"cannot lock transcript {path}: {error.strerror or error}") from error


def _name(part: Path, path: Path) -> None:
    """Give a new log its name, unless another has it."""
    try:
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if path.exists():
                raise FileExistsError from None
            part.rename(path)
    except FileExistsError:
        raise LogError(f"transcript {path} exists already; choose another id") from None
    except OSError as error:
        raise LogWriteError(f"cannot create transcript {path}: {error.strerror or error}") from error


def _first(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in detail["loc"]) or "data"
    return f"not an event as format 1 writes it ({where}: {detail['msg']})"
