"""The file ``findings.db``: how it is opened, and what its errors mean. Nothing heavy is imported.

It can be made again from the transcripts at any time; so an error says which of three things helps: making it
again (``damaged``), another home, or trying again.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

BUSY_MS = 5000
"""How long a connection waits for another's write."""

REBUILD = "agent findings rebuild"

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT}
_NOT_OURS = (
    "no such table",
    "no such column",
    "no column named",
    "malformed",
)
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SPACE = {errno.ENOSPC, errno.EDQUOT}


class StoreError(Exception):
    """The database cannot be used or refuses a row. One line: what happened and what to do.

    ``exit_code`` is the program's where this ends it. ``damaged``: it is the file that is wrong.
    """

    def __init__(self, message: str, exit_code: int = 2, *, damaged: bool = False) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.damaged = damaged


class Folded(NamedTuple):
    """How far a transcript has been folded: its last event, and the byte after that event's line."""

    last_seq: int
    last_hash: str
    offset: int

    @classmethod
    def of(cls, path: Path, last_seq: object, last_hash: object, offset: object) -> Folded:
        """From a row of the database at ``path``."""
        if isinstance(last_seq, int) and isinstance(last_hash, str) and isinstance(offset, int):
            return cls(last_seq, last_hash, offset)
        raise damage(path, "a row makes no sense")


@contextmanager
def explained(path: Path, doing: str = "write to") -> Iterator[None]:
    """Errors of SQLite and of the file system as :class:`StoreError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise explain(path, error, doing) from error
    except UnicodeDecodeError as error:  # SQLite quotes a name that is damaged
        raise damage(path, "a name in it is no text") from error


def explain(path: Path, error: sqlite3.Error | OSError, doing: str = "write to") -> StoreError:
    """``doing``: what was tried, ``read`` or ``write to``."""
    cause = str(error)
    if isinstance(error, OSError):
        cause = error.strerror or cause
        code = sqlite3.SQLITE_FULL if error.errno in _SPACE else sqlite3.SQLITE_CANTOPEN
    else:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if path.is_dir():
            return damage(path, "it is a folder")
    if "decode to UTF-8" in cause:  # what follows is the text itself
        return damage(path, "a text in it cannot be decoded")
    if code in _DAMAGED or (code == sqlite3.SQLITE_ERROR and any(words in cause for words in _NOT_OURS)):
        return damage(path, cause)
    if code in _FORBIDDEN:
        fix = f"set ASSAY_HOME to a folder that can be {'read' if doing == 'read' else 'written'}"
        return StoreError(f"cannot {doing} {path} ({cause}); {fix}", 3)
    if code in _LOCKED:
        return StoreError(f"{path} is being written by another process ({cause}); try again", 4)
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"cannot {doing} {path} ({cause}); free some space and try again", 4)
    return StoreError(f"cannot {doing} {path} ({cause}); check the disk, then try again", 4)


def damage(path: Path, how: str) -> StoreError:
    """The error of a file that is no database, or not as this program left it."""
    return StoreError(
        f"{path} is damaged ({how}); its rows can be made again from the transcripts: {REBUILD}",
        3,
        damaged=True,
    )


def prepare(connection: sqlite3.Connection) -> None:
    """What every connection that writes needs."""
    # The wait comes first: switching to WAL takes a lock that another process may hold.
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS:d}")
    connection.execute("PRAGMA journal_mode = WAL")
    # A transaction lost with the power is folded from the log again.
    connection.execute("PRAGMA synchronous = NORMAL")


def open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, in a home that cannot be written too."""
    connection = _opened(f"{path.absolute().as_uri()}?mode=ro")
    if _was_left_halfway(connection):
        # Its writer was killed: what it had begun is taken back by the first who may write.
        with closing(_opened(f"{path.absolute().as_uri()}?mode=rw")) as writing:
            _reads(writing)
    if os.access(path.parent, os.W_OK) or _reads(connection):
        return connection
    # In a folder that cannot be written there may be no place for WAL's shared memory.
    connection.close()
    wal = path.with_name(f"{path.name}-wal")
    if not wal.exists() or wal.stat().st_size == 0:
        return _opened(f"{path.absolute().as_uri()}?mode=ro&immutable=1")
    # A writer was stopped, and what it wrote last is not in the file itself: read a copy with both.
    import tempfile  # seldom needed, and not quick to import

    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        for file in (path, wal):
            shutil.copyfile(file, Path(folder) / file.name)
        memory = _opened(":memory:")
        with closing(_opened(str(Path(folder) / path.name))) as copy:
            copy.backup(memory)
    return memory


def keep_before(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Keep a database as it is before its schema changes, as ``NAME.schema-N``; returns that path.

    It is complete under that name or not there; one that is there already is left as it is.
    """
    kept = path.with_name(f"{path.name}.schema-{version}")
    if not kept.exists():
        part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
        try:
            with closing(sqlite3.connect(part)) as copy:
                connection.backup(copy)
            part.replace(kept)
        finally:
            part.unlink(missing_ok=True)
    return kept


def put_aside(path: Path) -> Path:
    """Move a database away with what belongs to it, to ``NAME.damaged-N``; returns that path."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    # The file first: what is left of it alone is nothing to a new database of that name.
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.rename(aside.with_name(aside.name + suffix))
    return aside


def _opened(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, uri=name.startswith("file:"), isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS:d}")
    return connection


def _was_left_halfway(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK
    return False


def _reads(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError:
        return False
    return True
