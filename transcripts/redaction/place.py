"""Where logs lie that are written anew, and what else lies there: other logs, artifacts, the database."""

from __future__ import annotations

import fcntl
import mmap
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memory.database import StoreError, explained, prepare
from memory.home import Home
from memory.store import Store
from transcripts.catch_up import rebuild
from transcripts.chain import LogError, LogWriteError
from transcripts.redaction.secrets import spellings
from transcripts.standing import logs as logs_in


@dataclass(frozen=True)
class Place:
    transcripts: Path
    artifacts: Path
    home: Home | None
    """None outside of a home: then there is no database."""
    others: Path | None = None
    """Where other logs with the same artifacts lie."""

    @classmethod
    def of(cls, home: Home, paths: Collection[Path]) -> Place:
        """The home, or the folder of logs that lie elsewhere, with artifacts beside them or the home's.

        Raises :class:`LogError` for a log that is not there.
        """
        for path in paths:
            if not path.is_file():
                raise LogError(f"no transcript {path}")
        folder = next((path.parent for path in paths), home.transcripts).resolve()
        if folder == home.transcripts.resolve():
            return cls(folder, home.artifacts, home)
        beside = folder / "artifacts"
        if beside.is_dir():
            return cls(folder, beside, None)
        return cls(folder, home.artifacts, None, home.transcripts)

    def logs(self) -> list[Path]:
        return [self.transcripts / path.name for path in logs_in(self.transcripts).values()]

    def logs_that_name(self) -> list[Path]:
        """All that may name an artifact."""
        others = logs_in(self.others).values() if self.others is not None else ()
        return [*self.logs(), *others]

    def take(self) -> int:
        """Keep other redactions away until the handle is closed."""
        try:
            handle = os.open(self.transcripts, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LogWriteError(f"cannot read {self.transcripts}: {error.strerror or error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise LogWriteError(
                f"another process redacts in {self.transcripts}; try again when it is done"
            ) from error
        return handle

    def files_with(self, secrets: Collection[str]) -> Iterator[Path]:
        """Files in which one of ``secrets`` stands; environments hold none that came from a log."""
        wanted = [one.encode("utf-8", "surrogatepass") for secret in secrets for one in spellings(secret)]
        if not wanted:
            return
        files = [*sorted(self.transcripts.glob("*.jsonl")), *sorted(self.transcripts.glob(".*"))]
        files += sorted(self.artifacts.rglob("*"))
        if self.home is not None:
            files += sorted(self.home.imported.glob("*.jsonl"))
            for database in (self.home.findings_db, self.home.imported_db):
                files += sorted(self.home.root.glob(f"{database.name}*"))
        yield from (path for path in files if _holds(path, wanted))

    def rows_again(self, tell: Callable[[str], None]) -> None:
        """The database as the logs say it now, and nothing of what it said before in its files."""
        if self.home is None or not self.home.findings_db.exists():
            return
        path = self.home.findings_db
        with Store(self.home) as store:
            for problem in rebuild(store, self.home.transcripts, tell):
                tell(f"warning: {problem}")
        with explained(path), closing(sqlite3.connect(path, isolation_level=None)) as raw:
            prepare(raw)
            # The rows are new already; free pages and the log of writes must not keep the old ones.
            raw.execute("PRAGMA secure_delete = ON")
            raw.execute("VACUUM")
            (busy, *_) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError(
                f"{path} is being read by another process and may still hold what was redacted; "
                "redact again when that has ended",
                4,
            )


def _holds(path: Path, wanted: list[bytes]) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(one) >= 0 for one in wanted)
    except (OSError, ValueError):  # gone by now; a folder; empty
        return False
