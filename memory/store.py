"""The local database: what transcripts say, as rows.

The log is written first; this is folded from it and can be made again. The store knows nothing of
events: :mod:`transcripts.fold` maps them to the methods of :class:`memory.writing.Writing`. Rows do not
depend on the order in which transcripts are folded.

The same claim (evidence included) is one row with several sightings; which of several claims stands is
decided by :mod:`memory.trust` and said by the view ``v_findings``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from memory.content import content_hashes
from memory.database import Folded, StoreError, damage, explained, keep_before, open_to_read, prepare
from memory.home import Home
from memory.migrations import NEWEST, check_version, migrate, version_of
from memory.writing import Writing

__all__ = ["Store", "StoreError", "Writing"]


class Store:
    """``findings.db`` of a home, made or migrated as needed. Close it, or use it with ``with``.

    Raises :class:`StoreError` for a database that is damaged, of a newer program, or cannot be written.
    """

    def __init__(self, home: Home, *, aside: bool = False) -> None:
        """``aside``: an empty database without a place, for rows that are to :meth:`replace` others."""
        self.home = home
        self.path = home.findings_db
        with explained(self.path):
            if not aside:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if self.path.exists():
                    # Before anything is changed, and be it the mode of its journal.
                    with closing(open_to_read(self.path)) as reading:
                        version = version_of(reading)
                        check_version(version, self.path)
                        if 0 < version < NEWEST:
                            keep_before(reading, self.path, version)
            # Without a name SQLite keeps what does not fit into memory in a file that nobody else sees.
            self._raw = sqlite3.connect("" if aside else self.path, isolation_level=None)
            try:
                if not aside:
                    prepare(self._raw)
                migrate(self._raw, self.path)
            except BaseException:
                self._raw.close()
                raise

    def close(self) -> None:
        self._raw.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """One short transaction (``BEGIN IMMEDIATE``): all of it or nothing."""
        with explained(self.path):
            # Taking the write lock at once waits for it; taking it in the middle fails instead.
            self._raw.execute("BEGIN IMMEDIATE")
            try:
                yield Writing(self._raw)
                self._raw.execute("COMMIT")
            except BaseException:
                if self._raw.in_transaction:  # of some errors SQLite takes all back by itself
                    self._raw.execute("ROLLBACK")
                raise

    def folded(self, transcript: str) -> Folded | None:
        """How far a transcript has been folded. Waits for no writer."""
        with explained(self.path):
            sql = "SELECT last_seq, last_hash, offset FROM folded WHERE transcript = ?"
            row = self._raw.execute(sql, (transcript,)).fetchone()
        return None if row is None else Folded.of(self.path, *row)

    def all_folded(self) -> dict[str, Folded]:
        """Transcript → how far it has been folded."""
        with explained(self.path):
            rows = self._raw.execute("SELECT transcript, last_seq, last_hash, offset FROM folded").fetchall()
        return {name: Folded.of(self.path, *rest) for name, *rest in rows}

    def content(self) -> dict[str, str]:
        """Table → hash of its rows (:mod:`memory.content`)."""
        with explained(self.path):
            return content_hashes(self._raw)

    def check(self) -> None:
        """Read the whole file. Raises :class:`StoreError` (``damaged``) unless it is sound and ours."""
        with explained(self.path), Store(self.home, aside=True) as fresh:
            (said,) = self._raw.execute("PRAGMA integrity_check(1)").fetchone()
            if said != "ok":
                raise damage(self.path, said)
            schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
            if self._raw.execute(schema).fetchall() != fresh._raw.execute(schema).fetchall():
                raise damage(self.path, "its tables are not those of this program")

    def replace(self, other: Store) -> None:
        """Take the rows of ``other`` in place of those here, in one step: no reader sees what is between."""

        def said(status: int, _remaining: int, _total: int) -> None:
            # It would be tried again for ever; the connection itself has waited already.
            if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreError(f"{self.path} is being written by another process; try again", 4)

        with explained(self.path):
            other._raw.backup(self._raw, progress=said, sleep=0)
