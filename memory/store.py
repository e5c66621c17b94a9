"""The local database: what transcripts say, as rows.

The log is written first; this is folded from it and can be made again. The store knows nothing of
events: :mod:`transcripts.fold` maps them to the methods of :class:`Writing`. Rows do not depend on the
order in which transcripts are folded.

**Which finding is current.** The same claim (evidence included) is one row with several sightings.
Claims about the same component, backend, architecture, engine, scenario, level and package tuple form a
scope. In a scope the one seen last is ``current``; an older one that says the same (verdict, outcome,
reason, what runs instead, conditions) is ``superseded``; one that says something else ``contradicted``.
Other versions or another level are another scope: both stand. The view ``v_findings`` says it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, delete, func, literal, select, text, tuple_, update
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.pool import StaticPool
from sqlmodel import SQLModel

from memory.canonical import canonical, finding_id, sha256_of
from memory.content import content_hashes
from memory.database import (
    Folded,
    StoreError,
    damage,
    explained,
    open_to_read,
    prepare,
)
from memory.home import Home
from memory.migrations import check_version, migrate, version_of
from memory.sentences import render
from memory.tables import (
    EvidenceRow,
    FindingRow,
    FoldedRow,
    HypothesisRow,
    InvestigationRow,
    SightingRow,
    table_of,
)
from memory.vocabulary import Claim, Finding, Level

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
                        check_version(version_of(reading), self.path)
            # Without a name SQLite keeps what does not fit into memory in a file that nobody else sees.
            self._raw = sqlite3.connect("" if aside else self.path, isolation_level=None)
            try:
                if not aside:
                    prepare(self._raw)
                migrate(self._raw, self.path)
                self._engine = _engine(self._raw)
            except BaseException:
                self._raw.close()
                raise

    def close(self) -> None:
        self._engine.dispose()
        self._raw.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """One short transaction (``BEGIN IMMEDIATE``): all of it or nothing."""
        with explained(self.path), self._engine.begin() as connection:
            # Taking the write lock at once waits for it; taking it in the middle fails instead.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield Writing(connection)

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


class Writing:
    """What can be written within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def folded_to(self, transcript: str, at: str, folded: Folded) -> None:
        """Note that a transcript is folded to an event, which was written at ``at``."""
        self.connection.execute(_FOLDED, {"transcript": transcript, **folded._asdict()})
        self.update_investigation(transcript, updated_at=at, events=folded.last_seq + 1)

    def folded(self, transcript: str) -> Folded | None:
        rows = table_of(FoldedRow).c
        chosen = select(rows.last_seq, rows.last_hash, rows.offset).where(rows.transcript == transcript)
        row = self.connection.execute(chosen).one_or_none()
        return None if row is None else Folded(*row)

    def open_investigation(self, transcript: str, at: str, **fields: Any) -> None:
        """``fields``: id, question, program, driver, parent."""
        row = {"transcript": transcript, "opened_at": at, "updated_at": at, "events": 1, **fields}
        self.connection.execute(_INVESTIGATION, row)

    def update_investigation(self, transcript: str, **fields: Any) -> None:
        """Set columns of an investigation; packages as a mapping."""
        table = table_of(InvestigationRow)
        values = {
            name: canonical(value) if isinstance(value, Mapping) else value for name, value in fields.items()
        }
        changed = update(table).where(table.c.transcript == transcript).values(values)
        if not self.connection.execute(changed).rowcount:
            raise StoreError(f"transcript {transcript} has no opened investigation")

    def put_hypothesis(self, transcript: str, event: int, body: Mapping[str, Any]) -> None:
        """The newest state of a hypothesis: id, component, backend, arch, state, because, row."""
        row = body.get("row")
        plain = {key: body[key] for key in ("id", "component", "backend", "arch", "state", "because")}
        self.connection.execute(
            _HYPOTHESIS,
            {
                "transcript": transcript,
                "opened_event": event,
                "event": event,
                "row": None if row is None else canonical(row),
                **plain,
            },
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
        sighting = {"finding": finding.id, "transcript": transcript, "event": event, "at": at}
        self.connection.execute(_SIGHTING, sighting)
        table, evidence = table_of(FindingRow), table_of(EvidenceRow)
        rows, known = table.c, table.c.id == finding.id
        # The words of evidence are no part of a claim's id: those that stand are the first that were
        # recorded, in whatever order the transcripts are folded.
        place = tuple_(literal(at), literal(transcript), literal(event))
        earlier = place < tuple_(rows.recorded_at, rows.transcript, rows.event)
        first = self.connection.execute(select(earlier).where(known)).scalar_one_or_none()
        if first is None or first:
            recorded = {"transcript": transcript, "event": event, "recorded_at": at, "seen_at": at}
            self.connection.execute(_FINDING, {**_finding_row(finding, document), **recorded})
            self.connection.execute(delete(evidence).where(evidence.c.finding == finding.id))
            self.connection.execute(insert(evidence), _evidence_rows(finding.id, claim))
        else:
            self.connection.execute(update(table).where(known).values(seen_at=func.max(rows.seen_at, at)))


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


def _finding_row(finding: Finding, document: dict[str, Any]) -> dict[str, Any]:
    """All columns but where and when it was recorded."""
    plain = (
        "component",
        "backend",
        "arch",
        "engine",
        "level",
        "verdict",
        "outcome",
        "because",
        "runs_instead",
    )
    return {
        "id": finding.id,
        "scope": scope_of(document),
        "says": says_of(document),
        "packages": canonical(document["packages"]),
        "scenario": canonical(document["scenario"]),
        "sentence": render(finding.claim),
        "claim": canonical(document),
        **{key: document[key] for key in plain},
    }


def _evidence_rows(finding: str, claim: Claim) -> list[dict[str, Any]]:
    empty = dict.fromkeys(table_of(EvidenceRow).c.keys())
    source = [{"kind": "source", **item.model_dump()} for item in claim.source_evidence]
    events = []
    for item in claim.event_evidence:
        fields = item.model_dump()
        events.append({"kind": "event", "text": fields.pop("excerpt"), **fields})
    return [
        {**empty, "finding": finding, "number": number, **fields}
        for number, fields in enumerate([*source, *events])
    ]


def _put(rows: type[SQLModel], *kept: str, **instead: Any) -> Insert:
    """Insert a row, or set the columns of the one with its key, but those ``kept``; some by ``instead``."""
    table = table_of(rows)
    inserted = insert(table)
    keys = [column.name for column in table.primary_key]
    rest = [column.name for column in table.c if column.name not in (*keys, *kept)]
    given = {name: inserted.excluded[name] for name in rest}
    return inserted.on_conflict_do_update(index_elements=keys, set_={**given, **instead})


_FOLDED = _put(FoldedRow)
_INVESTIGATION = _put(InvestigationRow)
_SIGHTING = _put(SightingRow)
_FINDING = _put(FindingRow, seen_at=text("max(excluded.seen_at, findings.seen_at)"))
_HYPOTHESIS = _put(HypothesisRow, "opened_event", row=text('coalesce(excluded."row", hypotheses."row")'))


def _engine(raw: sqlite3.Connection) -> Engine:
    """SQLAlchemy over the one connection; transactions are begun by :meth:`Store.write`."""
    return create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
