"""Traces remembered by what they were computed from. A cache: the file may be deleted at any time."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""Errors that another file in its place mends: it is no database, or not one of ours."""


class TraceCache:
    """``key → JSON`` in one SQLite table, each with its hash.

    A damaged file is replaced by an empty one. Where none can be used, nothing is remembered.
    """

    def __init__(self, path: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        """``tell`` is told of a file that was replaced."""
        self.path = path
        self._tell = tell
        self._db: sqlite3.Connection | None = None

    def __enter__(self) -> TraceCache:
        try:
            self._open()
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            self._failed(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        self._db.execute("PRAGMA busy_timeout = 10000")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS traces (key TEXT PRIMARY KEY, trace TEXT NOT NULL)")

    def _failed(self, error: Exception) -> None:
        """Go on with an empty file where that helps, else with none."""
        self._close()
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if isinstance(error, OSError) or code not in _DAMAGED:
            return
        try:
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            self._open()
        except (sqlite3.Error, OSError):
            self._close()
        else:
            self._tell(f"{self.path.name} was damaged; it begins anew")

    def get(self, key: str) -> str | None:
        if self._db is None:
            return None
        try:
            row = self._db.execute("SELECT trace FROM traces WHERE key = ?", (key,)).fetchone()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._failed(error)
            return None
        trace, _, digest = str(row[0]).rpartition("\n") if row else ("", "", "")
        return trace if digest == _digest(key, trace) else None

    def put(self, key: str, trace: str) -> None:
        if self._db is None:
            return
        try:
            kept = (key, f"{trace}\n{_digest(key, trace)}")
            self._db.execute("INSERT OR REPLACE INTO traces VALUES (?, ?)", kept)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._failed(error)

    def get_all(self, key: str) -> list[str] | None:
        """The traces of an answer, in order; None unless all of them are still there."""
        held = self.get(key)
        found = [self.get(one) for one in json.loads(held)] if held is not None else [None]
        whole = [text for text in found if text is not None]
        return whole if len(whole) == len(found) else None

    def put_all(self, key: str, traces: list[str]) -> None:
        """Remember of which ``traces`` (keys) an answer consists."""
        self.put(key, json.dumps(traces))


def _digest(key: str, trace: str) -> str:
    """What tells a trace from one that was damaged, or is another's."""
    return hashlib.sha256(f"{key}\n{trace}".encode()).hexdigest()
