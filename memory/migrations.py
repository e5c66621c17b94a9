"""The schema of ``findings.db``: numbered steps, forward only, keyed on ``PRAGMA user_version``.

A step that was released is never edited; a change is a new step. One after which the same transcripts make
other rows ends with ``FORGET``: they are then made again when the database is next opened. The views named
``v_…`` are promised: their columns are only added to. The file as it was before a step is kept beside it
(:func:`memory.database.keep_before`).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from memory.database import StoreError, damage

_FIRST = (
    """CREATE TABLE folded (
        transcript TEXT NOT NULL PRIMARY KEY,
        last_seq INTEGER NOT NULL,
        last_hash TEXT NOT NULL,
        offset INTEGER NOT NULL
    )""",
    """CREATE TABLE investigations (
        transcript TEXT NOT NULL PRIMARY KEY,
        id TEXT NOT NULL,
        question TEXT NOT NULL,
        program TEXT NOT NULL,
        driver TEXT NOT NULL,
        parent TEXT,
        opened_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        events INTEGER NOT NULL,
        model TEXT,
        quantisation TEXT,
        arch TEXT,
        gpu TEXT,
        engine TEXT,
        environment TEXT,
        packages TEXT,
        concluded_at TEXT,
        exit_reason TEXT,
        exit_code INTEGER,
        summary TEXT
    )""",
    "CREATE INDEX investigations_opened ON investigations (opened_at)",
    """CREATE TABLE hypotheses (
        transcript TEXT NOT NULL,
        id TEXT NOT NULL,
        component TEXT NOT NULL,
        backend TEXT NOT NULL,
        arch TEXT NOT NULL,
        state TEXT NOT NULL,
        because TEXT NOT NULL,
        "row" TEXT,
        opened_event INTEGER NOT NULL,
        event INTEGER NOT NULL,
        PRIMARY KEY (transcript, id)
    )""",
    """CREATE TABLE findings (
        id TEXT NOT NULL PRIMARY KEY,
        scope TEXT NOT NULL,
        says TEXT NOT NULL,
        component TEXT NOT NULL,
        backend TEXT NOT NULL,
        arch TEXT NOT NULL,
        engine TEXT NOT NULL,
        packages TEXT NOT NULL,
        scenario TEXT NOT NULL,
        level TEXT NOT NULL,
        verdict TEXT,
        outcome TEXT,
        because TEXT,
        runs_instead TEXT,
        sentence TEXT NOT NULL,
        claim TEXT NOT NULL,
        status TEXT NOT NULL,
        replaced_by TEXT,
        transcript TEXT NOT NULL,
        event INTEGER NOT NULL,
        recorded_at TEXT NOT NULL,
        seen_at TEXT NOT NULL
    )""",
    "CREATE INDEX findings_scope ON findings (scope)",
    "CREATE INDEX findings_subject ON findings (component, backend, arch)",
    "CREATE INDEX findings_seen ON findings (seen_at)",
    """CREATE TABLE sightings (
        finding TEXT NOT NULL,
        transcript TEXT NOT NULL,
        event INTEGER NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (finding, transcript, event)
    )""",
    """CREATE TABLE evidence (
        finding TEXT NOT NULL,
        number INTEGER NOT NULL,
        kind TEXT NOT NULL,
        package TEXT,
        version TEXT,
        file TEXT,
        line INTEGER,
        end_line INTEGER,
        idiom TEXT,
        transcript TEXT,
        head TEXT,
        event INTEGER,
        sha256 TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (finding, number)
    )""",
    "CREATE INDEX evidence_file ON evidence (package, version, file)",
    """CREATE VIEW v_findings AS SELECT
        f.id, f.component, f.backend, f.arch, f.engine, f.packages, f.scenario, f.level, f.verdict,
        f.outcome, f.because, f.runs_instead, f.sentence, f.status, f.replaced_by, f.transcript, f.event,
        f.recorded_at, f.seen_at, f.claim,
        (SELECT count(*) FROM sightings s WHERE s.finding = f.id) AS sightings
    FROM findings f""",
    """CREATE VIEW v_evidence AS SELECT
        finding, number, kind, package, version, file, line, end_line, idiom, transcript, head, event,
        sha256, text
    FROM evidence""",
    """CREATE VIEW v_investigations AS SELECT
        i.id, i.transcript, i.question, i.program, i.driver, i.parent, i.opened_at, i.updated_at, i.events,
        i.model, i.quantisation, i.arch, i.gpu, i.engine, i.environment, i.packages, i.concluded_at,
        i.exit_reason, i.exit_code, i.summary,
        (SELECT count(DISTINCT s.finding) FROM sightings s WHERE s.transcript = i.transcript) AS findings,
        (SELECT count(*) FROM hypotheses h WHERE h.transcript = i.transcript) AS hypotheses
    FROM investigations i""",
    """CREATE VIEW v_hypotheses AS SELECT
        h.transcript, i.id AS investigation, h.id, h.component, h.backend, h.arch, h.state, h.because,
        h."row", h.opened_event, h.event
    FROM hypotheses h LEFT JOIN investigations i ON i.transcript = h.transcript""",
    "CREATE VIEW v_folded AS SELECT transcript, last_seq, last_hash, offset FROM folded",
)

FORGET = tuple(
    f"DELETE FROM {table}"  # noqa: S608 - ours
    for table in ("folded", "investigations", "hypotheses", "findings", "sightings", "evidence")
)

_STANDING_IN_VIEW = (
    "DROP VIEW v_findings",
    "ALTER TABLE findings DROP COLUMN status",
    "ALTER TABLE findings DROP COLUMN replaced_by",
    "DROP INDEX findings_scope",
    "CREATE INDEX findings_order ON findings (scope, seen_at, recorded_at, transcript, event, id)",
    # Which finding of a scope stands is looked up, not written down: one more changes no row of the others.
    """CREATE VIEW v_findings AS SELECT
        f.id, f.component, f.backend, f.arch, f.engine, f.packages, f.scenario, f.level, f.verdict,
        f.outcome, f.because, f.runs_instead, f.sentence,
        CASE WHEN n.id = f.id THEN 'current' WHEN n.says = f.says THEN 'superseded' ELSE 'contradicted' END
            AS status,
        CASE WHEN n.id = f.id THEN NULL ELSE n.id END AS replaced_by,
        f.transcript, f.event, f.recorded_at, f.seen_at, f.claim,
        (SELECT count(*) FROM sightings s WHERE s.finding = f.id) AS sightings
    FROM findings f JOIN findings n ON n.id = (
        SELECT c.id FROM findings c WHERE c.scope = f.scope
        ORDER BY c.seen_at DESC, c.recorded_at DESC, c.transcript DESC, c.event DESC LIMIT 1
    )""",
    # A transcript that is resumed is concluded no longer.
    *FORGET,
)

_REASONS = (
    "DROP VIEW v_findings",
    "DROP VIEW v_evidence",
    "DROP TABLE findings",
    "DROP TABLE sightings",
    "DROP TABLE evidence",
    """CREATE TABLE findings (
        id TEXT NOT NULL PRIMARY KEY,
        subject TEXT NOT NULL,
        says TEXT NOT NULL,
        account TEXT NOT NULL,
        origin TEXT NOT NULL,
        component TEXT NOT NULL,
        backend TEXT NOT NULL,
        arch TEXT NOT NULL,
        engine TEXT NOT NULL,
        packages TEXT NOT NULL,
        scenario TEXT NOT NULL,
        level TEXT NOT NULL,
        verdict TEXT,
        outcome TEXT,
        because TEXT,
        runs_instead TEXT,
        model TEXT,
        quantisation TEXT,
        gpu TEXT,
        gpu_count INTEGER,
        driver TEXT,
        url TEXT,
        date TEXT,
        sentence TEXT NOT NULL,
        claim TEXT NOT NULL,
        transcript TEXT NOT NULL,
        event INTEGER NOT NULL,
        recorded_at TEXT NOT NULL,
        seen_at TEXT NOT NULL
    )""",
    "CREATE INDEX findings_subject ON findings (subject)",
    "CREATE INDEX findings_seen ON findings (seen_at, transcript, event)",
    "CREATE INDEX findings_component ON findings (component, seen_at, transcript, event)",
    "CREATE INDEX findings_backend ON findings (backend, seen_at, transcript, event)",
    "CREATE INDEX findings_arch ON findings (arch, seen_at, transcript, event)",
    "CREATE INDEX findings_cell ON findings (component, backend, arch, seen_at, transcript, event)",
    """CREATE TABLE positions (
        subject TEXT NOT NULL,
        level TEXT NOT NULL,
        origin TEXT NOT NULL,
        says TEXT NOT NULL,
        account TEXT NOT NULL,
        sign INTEGER NOT NULL,
        latest TEXT NOT NULL,
        last_at TEXT NOT NULL,
        last_transcript TEXT NOT NULL,
        last_event INTEGER NOT NULL,
        times INTEGER NOT NULL,
        status TEXT NOT NULL,
        instead TEXT,
        PRIMARY KEY (subject, level, origin, says, account)
    ) WITHOUT ROWID""",
    """CREATE TABLE sightings (
        finding TEXT NOT NULL,
        transcript TEXT NOT NULL,
        event INTEGER NOT NULL,
        at TEXT NOT NULL,
        origin TEXT NOT NULL,
        PRIMARY KEY (finding, transcript, event)
    ) WITHOUT ROWID""",
    "CREATE INDEX sightings_transcript ON sightings (transcript)",
    """CREATE TABLE evidence (
        finding TEXT NOT NULL,
        number INTEGER NOT NULL,
        kind TEXT NOT NULL,
        package TEXT,
        version TEXT,
        file TEXT,
        line INTEGER,
        end_line INTEGER,
        idiom TEXT,
        transcript TEXT,
        head TEXT,
        event INTEGER,
        sha256 TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (finding, number)
    ) WITHOUT ROWID""",
    "CREATE INDEX evidence_file ON evidence (package, version, file)",
    """CREATE TABLE measurements (
        finding TEXT NOT NULL,
        number INTEGER NOT NULL,
        metric TEXT NOT NULL,
        value REAL NOT NULL,
        unit TEXT NOT NULL,
        event INTEGER NOT NULL,
        json_pointer TEXT NOT NULL,
        PRIMARY KEY (finding, number)
    ) WITHOUT ROWID""",
    # What was run or read to find out, one row a call; ``outcome`` is null where it has not returned.
    """CREATE TABLE experiments (
        transcript TEXT NOT NULL,
        "call" TEXT NOT NULL,
        tool TEXT NOT NULL,
        rung TEXT,
        hypothesis TEXT,
        environment TEXT,
        level TEXT,
        verdict TEXT,
        outcome TEXT,
        status TEXT,
        seconds REAL,
        gpu_seconds REAL,
        fingerprint TEXT,
        asked_event INTEGER NOT NULL,
        asked_at TEXT NOT NULL,
        event INTEGER,
        PRIMARY KEY (transcript, "call")
    ) WITHOUT ROWID""",
    "CREATE INDEX experiments_hypothesis ON experiments (transcript, hypothesis)",
    # Its row ids are those of findings. The words themselves are not kept twice.
    "CREATE VIRTUAL TABLE words USING fts5(sentence, evidence, content='')",
    """CREATE VIEW v_findings AS SELECT
        f.id, f.component, f.backend, f.arch, f.engine, f.packages, f.scenario, f.level, f.verdict,
        f.outcome, f.because, f.runs_instead, f.sentence,
        CASE WHEN p.latest = f.id THEN p.status ELSE 'superseded' END AS status,
        CASE WHEN p.latest = f.id THEN p.instead ELSE p.latest END AS replaced_by,
        f.transcript, f.event, f.recorded_at, f.seen_at, f.claim,
        (SELECT count(*) FROM sightings s WHERE s.finding = f.id) AS sightings,
        f.origin, f.model, f.quantisation, f.gpu, f.gpu_count, f.driver, f.url, f.date
    FROM findings f JOIN positions p ON p.subject = f.subject AND p.level = f.level
        AND p.origin = f.origin AND p.says = f.says AND p.account = f.account""",
    """CREATE VIEW v_evidence AS SELECT
        finding, number, kind, package, version, file, line, end_line, idiom, transcript, head, event,
        sha256, text
    FROM evidence""",
    """CREATE VIEW v_measurements AS SELECT finding, number, metric, value, unit, event, json_pointer
    FROM measurements""",
    """CREATE VIEW v_sightings AS SELECT finding, transcript, event, at, origin FROM sightings""",
    """CREATE VIEW v_experiments AS SELECT
        e.transcript, e."call", e.tool, e.rung, e.hypothesis, h.component, h.backend, h.arch, e.environment,
        e.level, e.verdict, e.outcome, e.status, e.seconds, e.gpu_seconds, e.fingerprint, e.asked_event,
        e.asked_at, e.event
    FROM experiments e LEFT JOIN hypotheses h ON h.transcript = e.transcript AND h.id = e.hypothesis""",
    *FORGET[:3],
)

_EMPTY = (*FORGET, "DELETE FROM positions", "DELETE FROM measurements", "DELETE FROM experiments")

# A sentence names the line that decides, which is the first of its evidence.
_DECIDING = (*_EMPTY, "INSERT INTO words (words) VALUES ('delete-all')")

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _STANDING_IN_VIEW, _REASONS, _DECIDING)
"""Step ``n`` (from 1) takes a database from ``user_version`` n-1 to n."""

NEWEST = len(MIGRATIONS)
_NO_SCHEMA = 10_000
"""No program numbers its schema so high: the number itself is damaged."""


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_version(version: int, path: Path) -> None:
    """Raises :class:`StoreError` for a database of a newer program, and for what is none of ours."""
    if not 0 <= version < _NO_SCHEMA:
        raise damage(path, f"its schema is numbered {version}")
    if version > NEWEST:
        raise StoreError(
            f"{path} has schema {version}; this program knows up to {NEWEST}: upgrade assay-agent, "
            "or set ASSAY_HOME to another folder",
            3,
        )


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a database to the newest schema; does nothing if it is there. Each step is all or nothing.

    ``connection`` must be in autocommit (``isolation_level=None``). Raises :class:`StoreError` for a
    database of a newer program, or of another one.
    """
    check_version(version_of(connection), path)
    while version_of(connection) < NEWEST:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again: another process may have taken this step while we waited for the lock.
            version = version_of(connection)
            if version == 0 and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise damage(path, "it is another program's database")
            if version < NEWEST:
                for statement in MIGRATIONS[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1:d}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
