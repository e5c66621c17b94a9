"""The local database: what transcripts say, as rows.

The log is written first; this is folded from it and can be made again. The store knows nothing of
events: :mod:`transcripts.fold` maps them to the methods of :class:`Writing`. Rows do not depend on the
order in which transcripts are folded.

**Which finding is current.** The same claim (evidence included) is one row with several sightings.
Claims about the same component, backend, architecture, engine, scenario, level and package tuple form a
scope. In a scope the one seen last is ``current``; an older one that says the same (verdict, outcome,
reason, what runs instead, conditions) is ``superseded``; one that says something else ``contradicted``.
Other versions or another level are another scope: both stand.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, col, create_engine, delete, select

from memory.canonical import canonical, finding_id, sha256_of
from memory.home import Home
from memory.migrations import BUSY_MS, StoreError, migrate
from memory.sentences import render
from memory.tables import (
    EvidenceRow,
    FindingRow,
    FoldedRow,
    HypothesisRow,
    InvestigationRow,
    SightingRow,
)
from memory.vocabulary import Claim, Finding, FindingStatus, Level

__all__ = ["Store", "StoreError", "Writing"]


class Store:
    """Opens ``findings.db`` of a home, made or migrated as needed. Close it, or use it with ``with``.

    Raises :class:`StoreError` for a database that is damaged, of a newer program, or cannot be written.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.path = home.findings_db
        with _explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
                _prepare(connection)
                migrate(connection, str(self.path))
        self._engine = _engine(self.path)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """One short transaction (``BEGIN IMMEDIATE``): all of it or nothing."""
        with _explained(self.path), Session(self._engine) as session, session.begin():
            yield Writing(session)

    def folded(self, transcript: str) -> FoldedRow | None:
        """How far a transcript has been folded."""
        # Not through a session: its transactions take the write lock, which only a writer should wait for.
        with _explained(self.path), closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS:d}")
            sql = "SELECT transcript, last_seq, last_hash, offset FROM folded WHERE transcript = ?"
            row = connection.execute(sql, (transcript,)).fetchone()
        names = ("transcript", "last_seq", "last_hash", "offset")
        return None if row is None else FoldedRow(**dict(zip(names, row, strict=True)))

    def clear(self) -> None:
        """Forget every row; folding the transcripts makes them again."""
        with self.write() as writing:
            for table in (
                FoldedRow, InvestigationRow, HypothesisRow, FindingRow, SightingRow, EvidenceRow,
            ):  # fmt: skip
                writing.session.exec(delete(table))


class Writing:
    """What can be written within one transaction."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def folded_to(self, transcript: str, last_seq: int, last_hash: str, offset: int) -> None:
        self.session.merge(
            FoldedRow(transcript=transcript, last_seq=last_seq, last_hash=last_hash, offset=offset)
        )

    def folded(self, transcript: str) -> FoldedRow | None:
        return self.session.get(FoldedRow, transcript)

    def open_investigation(self, transcript: str, at: str, **fields: Any) -> None:
        """``fields``: id, question, program, driver, parent."""
        self.session.merge(
            InvestigationRow(transcript=transcript, opened_at=at, updated_at=at, events=1, **fields)
        )

    def update_investigation(self, transcript: str, at: str, events: int, **fields: Any) -> None:
        """Note ``events`` so far and the columns given in ``fields``; packages as a mapping."""
        row = self.session.get(InvestigationRow, transcript)
        if row is None:
            raise StoreError(f"transcript {transcript} has no opened investigation")
        row.updated_at, row.events = at, events
        for name, value in fields.items():
            setattr(row, name, canonical(value) if isinstance(value, Mapping) else value)
        self.session.add(row)

    def put_hypothesis(self, transcript: str, event: int, body: Mapping[str, Any]) -> None:
        """The newest state of a hypothesis: id, component, backend, arch, state, because, row."""
        known = self.session.get(HypothesisRow, (transcript, body["id"]))
        row = body.get("row")
        kept = canonical(row) if row is not None else known.row if known is not None else None
        self.session.merge(
            HypothesisRow(
                transcript=transcript,
                opened_event=known.opened_event if known is not None else event,
                event=event,
                row=kept,
                **{key: body[key] for key in ("id", "component", "backend", "arch", "state", "because")},
            )
        )

    def add_finding(self, finding: Finding, transcript: str, event: int, at: str) -> None:
        """Keep a finding that event ``event`` of ``transcript`` recorded at ``at``.

        Raises :class:`StoreError` for one without evidence, or whose id is not that of its claim.
        """
        claim = finding.claim
        document = claim.model_dump(mode="json")
        if finding.id != finding_id(document):
            raise StoreError(f"finding {finding.id} is not the id of its claim ({finding_id(document)})")
        _require_evidence(finding.id, claim)
        sighting = SightingRow(finding=finding.id, transcript=transcript, event=event, at=at)
        self.session.merge(sighting)
        row = self.session.get(FindingRow, finding.id)
        if row is None:
            row = _finding_row(finding, document, sighting)
            self.session.add_all([row, *_evidence_rows(finding.id, claim)])
        else:
            if (at, transcript, event) < (row.recorded_at, row.transcript, row.event):
                # The words of evidence are no part of a claim's id: those that stand are the first that were
                # recorded, in whatever order the transcripts are folded.
                self.session.exec(delete(EvidenceRow).where(col(EvidenceRow.finding) == finding.id))
                self.session.add_all(_evidence_rows(finding.id, claim))
                row.claim, row.recorded_at = canonical(document), at
                row.transcript, row.event = transcript, event
            row.seen_at = max(row.seen_at, at)
            self.session.add(row)
        self.session.flush()
        self._settle(row.scope)

    def _settle(self, scope: str) -> None:
        """Which finding of a scope is current: a function of its rows alone, whatever their order was."""
        rows = self.session.exec(select(FindingRow).where(col(FindingRow.scope) == scope)).all()
        ordered = sorted(rows, key=lambda row: (row.seen_at, row.recorded_at, row.transcript, row.event))
        newest = ordered[-1]
        for row in ordered:
            if row is newest:
                row.status, row.replaced_by = FindingStatus.CURRENT.value, None
            else:
                same = row.says == newest.says
                row.status = (FindingStatus.SUPERSEDED if same else FindingStatus.CONTRADICTED).value
                row.replaced_by = newest.id
            self.session.add(row)


def scope_of(claim: Mapping[str, Any]) -> str:
    """Hash of what a claim (its JSON form) is about."""
    about = ("component", "backend", "arch", "engine", "packages", "scenario", "level")
    return sha256_of({key: claim[key] for key in about})[:16]


def says_of(claim: Mapping[str, Any]) -> str:
    """Hash of what a claim (its JSON form) says of its scope."""
    said = ("verdict", "outcome", "because", "runs_instead", "conditions")
    return sha256_of({key: claim[key] for key in said})[:16]


def _require_evidence(name: str, claim: Claim) -> None:
    if not claim.source_evidence and not claim.event_evidence:
        raise StoreError(f"finding {name} has no evidence; nothing is kept without")
    if claim.level is Level.STATIC and not claim.source_evidence:
        raise StoreError(f"finding {name} is of level static and cites no source")
    if claim.level not in {Level.REPORT, Level.STATIC} and not claim.event_evidence:
        raise StoreError(f"finding {name} is of level {claim.level.value} and cites no event")


def _finding_row(finding: Finding, document: dict[str, Any], sighting: SightingRow) -> FindingRow:
    plain = ("component", "backend", "arch", "engine", "level", "verdict", "outcome", "because")
    return FindingRow(
        id=finding.id,
        scope=scope_of(document),
        says=says_of(document),
        packages=canonical(document["packages"]),
        scenario=canonical(document["scenario"]),
        runs_instead=document["runs_instead"],
        sentence=render(finding.claim),
        claim=canonical(document),
        status=FindingStatus.CURRENT.value,
        transcript=sighting.transcript,
        event=sighting.event,
        recorded_at=sighting.at,
        seen_at=sighting.at,
        **{key: document[key] for key in plain},
    )


def _evidence_rows(finding: str, claim: Claim) -> list[EvidenceRow]:
    source = [{"kind": "source", **item.model_dump()} for item in claim.source_evidence]
    events = []
    for item in claim.event_evidence:
        fields = item.model_dump()
        events.append({"kind": "event", "text": fields.pop("excerpt"), **fields})
    return [
        EvidenceRow(finding=finding, number=number, **fields)
        for number, fields in enumerate([*source, *events])
    ]


def _prepare(connection: sqlite3.Connection) -> None:
    # The wait comes first: switching to WAL takes a lock that another process may hold.
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS:d}")
    connection.execute("PRAGMA journal_mode = WAL")
    # A transaction lost with the power is folded from the log again.
    connection.execute("PRAGMA synchronous = NORMAL")


def _engine(path: Path) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)), connect_args={"isolation_level": None}, pool_size=1
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        _prepare(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # Taking the write lock at once waits for it; taking it in the middle fails instead.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors of SQLite and the file system as one line that says what to do."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError) as error:
        raise StoreError(explain(path, error)) from error


def explain(path: Path, error: Exception) -> str:
    cause = str(getattr(error, "orig", None) or error)
    if isinstance(error, OSError):
        cause = error.strerror or cause
    if "not a database" in cause or "malformed" in cause:
        return (
            f"{path} is damaged ({cause}); move it away: its rows are made again from the transcripts "
            "when it is next opened"
        )
    if "readonly" in cause or "unable to open" in cause or isinstance(error, PermissionError):
        return f"cannot write to {path} ({cause}); set ASSAY_HOME to a folder that can be written"
    if "locked" in cause:
        return f"{path} is being written by another process ({cause}); try again"
    if "full" in cause:
        return f"cannot write to {path} ({cause}); free some space and try again"
    return f"cannot use {path}: {cause}"
