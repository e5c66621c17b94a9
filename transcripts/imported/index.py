"""``imported.db``: where the events of imported sessions stand in their files, and a full text index of them.

Folded from the files of ``imported/`` and from nothing else: it is deleted and made again at any time, and
made anew where its schema is another program's. A session that is imported again gets a new number; rows of
the old one are taken out, its words stay in the text index as words of nobody until they are most of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memory.database import StoreError, explained, open_to_read, prepare
from memory.home import Home
from transcripts.imported.model import session_of

SCHEMA = 1
_TABLES = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    file TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    id TEXT NOT NULL, format TEXT NOT NULL, parent TEXT, started TEXT, ended TEXT, title TEXT,
    document TEXT NOT NULL
);
CREATE INDEX sessions_id ON sessions (id);
CREATE INDEX sessions_parent ON sessions (parent);
CREATE TABLE events (
    session INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL, name TEXT, status TEXT, segment INTEGER, live INTEGER NOT NULL, ref INTEGER,
    amended TEXT, PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE texts USING fts5(body, content='');
"""
_BATCH_BYTES = 8 << 20
"""Bytes of a file that are folded in one transaction."""
_TEXT = 256 << 10
"""Characters of one event that are searched: half of them its beginning, half its end."""
_STALE = 100
"""Texts of nobody that are always borne with."""
_SEQ_BITS = 32
"""A text's row id is the session's number, then the event's number in so many bits."""


class Index:
    """The index of a home. Reading never changes a file of ``imported/``."""

    def __init__(self, home: Home, tell: Callable[[str], None] = lambda _: None) -> None:
        self.home = home
        self._tell = tell
        self._raw: sqlite3.Connection | None = None

    def __enter__(self) -> Index:
        """Open it, and fold what is not in it yet. Raises :class:`StoreError`."""
        with _explained(self.home.imported_db):
            self._raw = self._open()
            if any(self._standing()):
                self._fold()
        return self

    def __exit__(self, *_: object) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with _explained(self.home.imported_db):
            return self.connection.execute(sql, values).fetchall()

    @property
    def connection(self) -> sqlite3.Connection:
        assert self._raw is not None, "use it with `with`"
        return self._raw

    def _open(self) -> sqlite3.Connection:
        path = self.home.imported_db
        if not path.exists() and not self.home.imported.is_dir():
            raw = sqlite3.connect(":memory:", isolation_level=None)
            raw.executescript(_TABLES)
        else:
            raw = self._current() or self._anew()
        raw.row_factory = sqlite3.Row
        return raw

    def _current(self) -> sqlite3.Connection | None:
        """The database, to read, if there is one and it is of this program."""
        if not self.home.imported_db.exists():
            return None
        raw = open_to_read(self.home.imported_db)
        with suppress(sqlite3.DatabaseError):
            if raw.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
                return raw
        raw.close()
        return None

    def _anew(self) -> sqlite3.Connection:
        """A new database, unless another process has made one meanwhile: its file, which holds nothing at
        first, is not to be deleted for that."""
        self.home.imported.mkdir(parents=True, exist_ok=True)
        with _alone(self.home.imported):
            current = self._current()
            if current is None:
                _delete(self.home.imported_db)
                return self._to_write()
        return current

    def _to_write(self) -> sqlite3.Connection:
        raw = sqlite3.connect(self.home.imported_db, isolation_level=None)
        prepare(raw)
        with _transaction(raw):
            if raw.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in _TABLES.split(";\n"):
                    raw.execute(statement)
                raw.execute(f"PRAGMA user_version = {SCHEMA:d}")
        raw.row_factory = sqlite3.Row
        return raw

    def _standing(self) -> tuple[list[str], list[int]]:
        """Files that are not folded as they are now, by name; numbers of sessions whose file is another."""
        files = _files(self.home.imported)
        rows = self.connection.execute("SELECT number, file, size, mtime_ns FROM sessions").fetchall()
        folded = {
            row["file"]: row["number"]
            for row in rows
            if row["file"] in files
            and (row["size"], row["mtime_ns"]) == (files[row["file"]].st_size, files[row["file"]].st_mtime_ns)
        }
        keep = set(folded.values())
        gone = [row["number"] for row in rows if row["number"] not in keep]
        return [name for name in files if name not in folded], gone

    def _fold(self) -> None:
        self.connection.close()
        with _alone(self.home.imported):
            self._raw = raw = self._to_write()
            if _mostly_stale(raw):
                raw.close()
                _delete(self.home.imported_db)
                self._raw = raw = self._to_write()
            missing, gone = self._standing()
            with _transaction(raw):
                # Also of a fold that was stopped.
                known = "SELECT number FROM sessions"
                stray = f"SELECT DISTINCT session FROM events WHERE session NOT IN ({known})"  # noqa: S608
                for number in [*gone, *(row[0] for row in raw.execute(stray).fetchall())]:
                    raw.execute("DELETE FROM sessions WHERE number = ?", (number,))
                    raw.execute("DELETE FROM events WHERE session = ?", (number,))
            for name in missing:
                with suppress(FileNotFoundError):
                    problem = _fold_file(raw, self.home.imported / name, name)
                    if problem:
                        self._tell(f"warning: {self.home.imported / name}: {problem}")


def _mostly_stale(raw: sqlite3.Connection) -> bool:
    """Whether most words in the text index are those of sessions that were imported again since."""
    (words,) = raw.execute("SELECT count(*) FROM texts_docsize").fetchone()
    (events,) = raw.execute("SELECT count(*) FROM events").fetchone()
    return bool(words > 2 * events + _STALE)


def _fold_file(raw: sqlite3.Connection, path: Path, name: str) -> str | None:
    """Put one file into the index, in transactions of some megabytes; its session comes last and makes it
    count."""
    state = path.stat()
    top = raw.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'sessions'").fetchone()[0] or 0
    stray = raw.execute("SELECT max(session) FROM events").fetchone()[0] or 0
    number = max(top, stray) + 1
    last: dict[str, Any] | None = None
    with path.open("rb") as file:
        offset = 0
        batch = _Batch(raw, number)
        for line in file:
            try:
                last = json.loads(line)
                assert isinstance(last, dict)
                batch.add(last, offset, len(line))
            except (ValueError, KeyError, TypeError, AssertionError):
                return "an event is not as it was written; import the session again"
            offset += len(line)
        batch.flush()
    if last is None or last.get("kind") != "session":
        return "it has no end; import the session again"
    if session_of(last) is None:
        return "its end is not as it was written; import the session again"
    columns = [last.get(key) for key in ("id", "format", "parent", "started", "ended", "title")]
    with _transaction(raw):
        raw.execute(
            "INSERT OR REPLACE INTO sessions VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (number, name, state.st_size, state.st_mtime_ns, *columns, json.dumps(last)),
        )
    return None


class _Batch:
    """Events of one file on their way into the index."""

    def __init__(self, raw: sqlite3.Connection, number: int) -> None:
        self._raw = raw
        self._number = number
        self._events: list[tuple[Any, ...]] = []
        self._texts: list[tuple[int, str]] = []
        self._amended: list[tuple[str, int, int]] = []
        self._size = 0

    def add(self, event: dict[str, Any], offset: int, size: int) -> None:
        kind, seq = event["kind"], event["seq"]
        name = event.get("tool") or event.get("role") or event.get("type")
        ref = event.get("message") if kind == "call" else event.get("call")
        facts = (name, event.get("status"), event.get("segment"), 1, ref, None)
        self._events.append((self._number, seq, kind, offset, size, *facts))
        if kind == "amended":
            change = json.dumps(event["set"])
            self._amended += [(change, self._number, one) for one in event["events"]]
        text = text_of(event)
        if text:
            if len(text) > _TEXT:
                text = f"{text[: _TEXT // 2]}\n{text[-_TEXT // 2 :]}"
            self._texts.append((self._number << _SEQ_BITS | seq, text))
        self._size += size
        if self._size > _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        with _transaction(self._raw):
            self._raw.executemany("INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?,?,?)", self._events)
            self._raw.executemany("INSERT INTO texts (rowid, body) VALUES (?, ?)", self._texts)
            for change, number, seq in self._amended:
                self._raw.execute(
                    "UPDATE events SET amended = json_patch(coalesce(amended, '{}'), ?1), "
                    "live = live AND coalesce(json_extract(?1, '$.live'), 1) WHERE session = ?2 AND seq = ?3",
                    (change, number, seq),
                )
        self._events, self._texts, self._amended, self._size = [], [], [], 0


def text_of(event: dict[str, Any]) -> str:
    """What of an event is searched: what was said, asked for and returned."""
    kind = event["kind"]
    if kind == "message":
        return "\n".join(filter(None, (event.get("text"), event.get("thinking"), event.get("error"))))
    if kind == "call":
        input_ = event.get("input")
        given = event.get("command") or event.get("raw_input") or (_words(input_) if input_ else "")
        return f"{event['tool']}\n{given}"
    if kind == "result":
        return str(event.get("returned") or event.get("shown") or "")
    return ""


def _words(value: Any) -> str:
    """The values of what a tool was given, one a line."""
    if isinstance(value, dict):
        return "\n".join(map(_words, value.values()))
    if isinstance(value, list):
        return "\n".join(map(_words, value))
    return str(value)


def _files(folder: Path) -> dict[str, os.stat_result]:
    found = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.endswith(".jsonl") and not entry.name.startswith(".") and entry.is_file():
                    found[entry.name] = entry.stat()
    return dict(sorted(found.items()))


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors as :class:`StoreError`; of a damaged index what brings it back."""
    try:
        with explained(path, "read"):
            yield
    except StoreError as error:
        if not error.damaged:
            raise
        raise StoreError(
            f"{path} is damaged; delete it, and the next command makes it anew from {path.with_suffix('')}", 3
        ) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time folds."""
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _transaction(raw: sqlite3.Connection) -> Iterator[None]:
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        raw.execute("ROLLBACK")
        raise
    raw.execute("COMMIT")


__all__ = ["SCHEMA", "Index", "StoreError", "text_of"]
