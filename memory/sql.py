"""One read-only question in SQL over the promised views, whatever it is. Nothing heavy is imported.

The views and their columns are in ``docs/concepts.md``. Whoever asks may be anybody: nothing is written or
attached, nothing is asked of the machine but time and memory, and of these there is only so much.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any, NamedTuple

from memory.database import StoreError, explained, open_to_read
from memory.home import Home
from memory.migrations import NEWEST, check_version, version_of

SECONDS = 10.0
MOST_ROWS = 10_000
LENGTH = 8 << 20
"""Bytes of a value, and of a row."""
HEAP = 512 << 20
_STEPS = 20_000
"""Instructions of SQLite between two looks at the clock."""

_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
_NAMES = {
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_FUNCTION: "that function",
}


class Answered(NamedTuple):
    """``more``: there are more rows than were asked for."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool


def ask(home: Home, sql: str, *, most: int = MOST_ROWS, seconds: float = SECONDS) -> Answered:
    """The answer to one ``SELECT``. Raises :class:`StoreError` for anything else, and what takes too long."""
    path = home.findings_db
    if not path.exists():
        raise StoreError("there are no findings yet; see: agent investigate --help", 3)
    with explained(path, "read"), closing(open_to_read(path)) as connection:
        version = version_of(connection)
        check_version(version, path)
        if version < NEWEST:
            raise StoreError(f"{path} is of an older program; bring it up to date: agent findings list", 3)
        # The index of words declares itself when it is first asked, which is more than reading.
        connection.execute("SELECT 1 FROM words LIMIT 0")
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA hard_heap_limit = {HEAP:d}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LENGTH)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        refused: list[str] = []
        until = time.monotonic() + seconds
        connection.set_authorizer(lambda *asked: _allowed(refused, *asked))
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        try:
            return _answer(connection, sql, most)
        except (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError) as error:
            late = time.monotonic() > until
            if not late and str(error) == "interrupted":
                raise KeyboardInterrupt from None  # Ctrl-C came while SQLite looked at the clock
            raise _explained(error, refused, late, seconds) from None


def _answer(connection: sqlite3.Connection, sql: str, most: int) -> Answered:
    found = connection.execute(sql)
    if found.description is None:
        raise StoreError("that asks for nothing; expected one SELECT over v_findings and the other views")
    rows = found.fetchmany(most + 1)
    return Answered(tuple(str(column[0]) for column in found.description), rows[:most], len(rows) > most)


def _allowed(
    refused: list[str], action: int, first: str | None, second: str | None, _database: Any, _inner: Any
) -> int:
    if action in _READS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first == "data_version" and second is None:
        return sqlite3.SQLITE_OK  # an index of words asks it for itself
    # A table-valued pragma is declared first, which SQLite asks about as an update of its schema.
    itself = first in {"sqlite_master", "sqlite_schema"}
    refused.append("that" if itself else _NAMES.get(action, "anything but reading"))
    return sqlite3.SQLITE_DENY


def _explained(error: Exception, refused: list[str], late: bool, seconds: float) -> StoreError:
    if refused:
        return StoreError(f"{refused[0]} is not allowed here; expected one SELECT over the views")
    if late and "interrupted" in str(error):
        return StoreError(f"no answer within {seconds:g} s; ask for less", 4)
    if isinstance(error, MemoryError):
        return StoreError(f"the answer needs more than {HEAP >> 20} MB; ask for less", 4)
    return StoreError(f"that cannot be asked ({error}); expected one SELECT over v_findings, v_evidence, …")
