"""The database of another home, read from a copy: its findings, and what they cite out of its transcripts.

Nothing of it is trusted, its schema least of all: tables are read by name, as tables and no views, with a
limit on time and size, and each claim is read as a claim or not at all.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import ValidationError

from memory.migrations import NEWEST
from memory.vocabulary import Capsule, Claim, Finding
from tools.errors import ToolError
from tools.findings.capsule import of_folder
from tools.findings.share import Given

SIZE_LIMIT = 8 << 30
SECONDS = 600.0
CLAIM_LIMIT = 1 << 20
"""Characters of a claim as JSON."""


def read_database(path: Path) -> Iterator[Given]:
    """The findings of a database with their capsules; of what is none its id and why.

    Raises :class:`ToolError` for what is no database of this program, damaged, or of a newer one.
    """
    rows = list(_rows(path))
    claims: list[Claim] = []
    found: list[Finding | tuple[str, str]] = []
    for name, claim, transcript, event in rows:
        try:
            read = Claim.model_validate_json(claim)
            finding = Finding(id=name, claim=read, transcript=transcript, event=event)
        except (ValidationError, ValueError, RecursionError):
            found.append((name[:40], "its claim is none"))
            continue
        claims.append(read)
        found.append(finding)
    transcripts = path.absolute().parent / "transcripts"
    capsules = of_folder(transcripts, claims)
    # What a whole home does not have of the events that its findings cite was never there.
    nothing = Capsule() if transcripts.is_dir() else None
    for one in found:
        if isinstance(one, tuple):
            yield one
        else:
            # Its lines are looked up here; what it says of events only its own transcripts can show.
            yield one, (capsules.of(one) or nothing) if one.claim.event_evidence else None


def _rows(path: Path) -> Iterator[tuple[str, str, str, int]]:
    until = time.monotonic() + SECONDS
    with _copied(path) as copy:
        try:
            with closing(_opened(copy, until)) as connection:
                _check(connection, path)
                kinds = "SELECT type FROM sqlite_master WHERE name = 'findings'"
                if [kind for (kind,) in connection.execute(kinds)] != ["table"]:
                    raise ToolError(f"{path} has no table of findings; expected findings.db of another home")
                chosen = "SELECT id, claim, transcript, event FROM findings ORDER BY recorded_at, id"
                for name, claim, transcript, event in connection.execute(chosen):
                    texts = all(isinstance(one, str) for one in (name, claim, transcript))
                    if not texts or not isinstance(event, int) or event < 0 or len(claim) > CLAIM_LIMIT:
                        raise ToolError(f"{path} is damaged: a row of its findings makes no sense")
                    yield name, claim, transcript, event
        except sqlite3.Error as error:
            if str(error) == "interrupted" and time.monotonic() < until:
                raise KeyboardInterrupt from None  # Ctrl-C came while SQLite looked at the clock
            raise ToolError(f"{path} cannot be read as a database ({error}); bring another copy") from error
        except UnicodeDecodeError as error:
            raise ToolError(f"{path} is damaged: a text in it cannot be decoded") from error


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """A copy of a database, with what was written last and is not in the file itself."""
    try:
        if not path.is_file():
            raise ToolError(f"there is no database {path}; expected findings.db of another home")
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            for file in (path, path.with_name(f"{path.name}-wal")):
                if file.exists():
                    if file.stat().st_size > SIZE_LIMIT:
                        raise ToolError(f"{file} is larger than {SIZE_LIMIT >> 30} GiB, which is too much")
                    shutil.copyfile(file, Path(folder) / f"other.db{file.name.removeprefix(path.name)}")
            yield Path(folder) / "other.db"
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror or error}") from error


def _opened(path: Path, until: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.set_progress_handler(lambda: time.monotonic() > until, 100_000)
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > NEWEST:
        raise ToolError(f"{path} is of a newer program (schema {version}); upgrade this one")
    if version < 1:
        raise ToolError(f"{path} is another program's database; expected findings.db of another home")
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise ToolError(f"{path} is damaged ({said}); make it again there: agent findings rebuild")
