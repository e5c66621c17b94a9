"""Traces remembered by what they were computed from. A cache: the file may be deleted at any time."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from types import TracebackType


class TraceCache:
    """``key → JSON`` in one SQLite table. A file that cannot be used is left alone: nothing is remembered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None

    def __enter__(self) -> TraceCache:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            self._db.execute("PRAGMA busy_timeout = 10000")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS traces (key TEXT PRIMARY KEY, trace TEXT NOT NULL)")
        except (sqlite3.Error, OSError):
            self._close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def get(self, key: str) -> str | None:
        if self._db is None:
            return None
        try:
            row = self._db.execute("SELECT trace FROM traces WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error:
            return None
        return str(row[0]) if row else None

    def put(self, key: str, trace: str) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("INSERT OR REPLACE INTO traces VALUES (?, ?)", (key, trace))

    def get_all(self, key: str) -> list[str] | None:
        """The traces of an answer, in order; None unless all of them are still there."""
        held = self.get(key)
        found = [self.get(one) for one in json.loads(held)] if held is not None else [None]
        whole = [text for text in found if text is not None]
        return whole if len(whole) == len(found) else None

    def put_all(self, key: str, traces: list[str]) -> None:
        """Remember of which ``traces`` (keys) an answer consists."""
        self.put(key, json.dumps(traces))
