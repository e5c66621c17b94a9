"""What can be written into the database within one transaction. The rows do not depend on the order in which
transcripts are folded: each is a function of the events that were."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from memory.canonical import canonical, finding_id
from memory.database import Folded, StoreError
from memory.rows import evidence_rows, finding_row, measurement_rows, words_of
from memory.subjects import account_of, says_of, subject_of
from memory.trust import OWN, Position, Seen, Stands, sign_of, standing
from memory.vocabulary import Claim, Finding, FindingStatus, Level


class Writing:
    """What can be written within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def folded_to(self, transcript: str, at: str, folded: Folded) -> None:
        """Note that a transcript is folded to an event, which was written at ``at``."""
        self._replace("folded", {"transcript": transcript, **folded._asdict()})
        self.update_investigation(transcript, updated_at=at, events=folded.last_seq + 1)

    def folded(self, transcript: str) -> Folded | None:
        chosen = "SELECT last_seq, last_hash, offset FROM folded WHERE transcript = ?"
        row = self.connection.execute(chosen, (transcript,)).fetchone()
        return None if row is None else Folded(*row)

    def driver(self, transcript: str) -> str | None:
        """Who decides in a transcript that was opened."""
        chosen = "SELECT driver FROM investigations WHERE transcript = ?"
        row = self.connection.execute(chosen, (transcript,)).fetchone()
        return None if row is None else str(row[0])

    def open_investigation(self, transcript: str, at: str, **fields: Any) -> None:
        """``fields``: id, question, program, driver, parent."""
        row = {"transcript": transcript, "opened_at": at, "updated_at": at, "events": 1, **fields}
        self._replace("investigations", row)

    def update_investigation(self, transcript: str, **fields: Any) -> None:
        """Set columns of an investigation; packages as a mapping."""
        values = {
            name: canonical(value) if isinstance(value, Mapping) else value for name, value in fields.items()
        }
        if not self._update("investigations", values, {"transcript": transcript}):
            raise StoreError(f"transcript {transcript} has no opened investigation")

    def put_hypothesis(self, transcript: str, event: int, body: Mapping[str, Any]) -> None:
        """The newest state of a hypothesis: id, component, backend, arch, state, because, row."""
        row = body.get("row")
        plain = {key: body[key] for key in ("id", "component", "backend", "arch", "state", "because")}
        values = {
            "transcript": transcript,
            "opened_event": event,
            "event": event,
            "row": None if row is None else canonical(row),
            **plain,
        }
        row_kept = 'coalesce(excluded."row", hypotheses."row")'
        instead = {"opened_event": "hypotheses.opened_event", "row": row_kept}
        self.connection.execute(_put("hypotheses", values, ("transcript", "id"), instead), values)

    def begin_experiment(self, transcript: str, event: int, at: str, called: Mapping[str, Any]) -> None:
        """A call that tests a hypothesis or runs something, from its ``called``."""
        plain = {key: called.get(key) for key in ("call", "tool", "rung", "hypothesis")}
        environment = called["input"].get("environment")
        where = environment if isinstance(environment, str) else None
        row = {"transcript": transcript, "asked_event": event, "asked_at": at, "environment": where, **plain}
        self._replace("experiments", row)

    def end_experiment(self, transcript: str, event: int, at: str, returned: Mapping[str, Any]) -> None:
        """What came of it, from its ``returned``; nothing where the call was no experiment."""
        key = {"transcript": transcript, "call": returned["call"]}
        chosen = 'SELECT asked_at FROM experiments WHERE transcript = :transcript AND "call" = :call'
        asked = self.connection.execute(chosen, key).fetchone()
        if asked is None:
            return
        values = {"event": event, "status": returned["status"], **_came_of(returned.get("output"))}
        values.setdefault("seconds", _seconds(asked[0], at))
        self._update("experiments", values, key)

    def know_environment(self, transcript: str, environment: str, fingerprint: str) -> None:
        """In which packages a transcript's experiments were made, of those that do not say it themselves."""
        key = {"transcript": transcript, "environment": environment, "fingerprint": None}
        self._update("experiments", {"fingerprint": fingerprint}, key)

    def add_finding(self, finding: Finding, transcript: str, event: int, at: str, origin: str = OWN) -> None:
        """Keep a finding that event ``event`` of ``transcript`` recorded at ``at``.

        Raises :class:`StoreError` for one without evidence, or whose id is not that of its claim.
        """
        claim = finding.claim
        document = claim.model_dump(mode="json")
        if finding.id != finding_id(document):
            raise StoreError(f"finding {finding.id} is not the id of its claim ({finding_id(document)})")
        _require_evidence(finding.id, claim)
        run = self.connection.execute
        run(_SIGHTING, (finding.id, transcript, event, at, origin))
        # The words of evidence are no part of a claim's id: those that stand are the first that were
        # recorded, in whatever order the transcripts are folded.
        known = run(_KNOWN, (at, transcript, event, finding.id)).fetchone()
        if known is None or known[0]:
            recorded = {"transcript": transcript, "event": event, "recorded_at": at, "seen_at": at}
            values = {**finding_row(finding, document), **recorded, "origin": origin}
            # ``own`` stands behind ``imported`` in the alphabet, and before it in what it is worth.
            latest = {name: f"max(excluded.{name}, findings.{name})" for name in ("seen_at", "origin")}
            run(_put("findings", values, ("id",), latest), values)
            self._put_words(finding.id, document, None if known is None else known[1:])
            self._put_parts(finding.id, claim, new=known is None)
        else:
            run(_SEEN, (at, origin, finding.id))
        self._put_position(finding.id, document, origin, Seen(at, transcript, event))

    def _put_parts(self, finding: str, claim: Claim, *, new: bool) -> None:
        """The rows of evidence and of numbers, in place of those that are there."""
        for table, rows in (
            ("evidence", evidence_rows(finding, claim)),
            ("measurements", measurement_rows(finding, claim)),
        ):
            if not new:
                self.connection.execute(f"DELETE FROM {table} WHERE finding = ?", (finding,))  # noqa: S608
            self._replace(table, *rows)

    def _put_words(self, finding: str, document: Mapping[str, Any], old: Any) -> None:
        """The words that it is found by; ``old``: claim and sentence that were there under its id."""
        run = self.connection.execute
        chosen = "SELECT rowid, sentence FROM findings WHERE id = ?"
        number, sentence = run(chosen, (finding,)).fetchone()
        if old is not None:
            # An index that keeps no words must be told what it is to forget.
            words = words_of(json.loads(old[0]))
            forget = "INSERT INTO words (words, rowid, sentence, evidence) VALUES ('delete', ?, ?, ?)"
            run(forget, (number, old[1], words))
        put = "INSERT INTO words (rowid, sentence, evidence) VALUES (?, ?, ?)"
        run(put, (number, sentence, words_of(document)))

    def _put_position(self, finding: str, claim: Mapping[str, Any], origin: str, seen: Seen) -> None:
        """Count a sighting for what it says, and settle anew how all that is said of the subject stands."""
        subject = subject_of(claim)
        key = (claim["level"], origin, says_of(claim), account_of(claim))
        found = self.connection.execute(_POSITIONS, (subject,))
        names = [column[0] for column in found.description]
        there = [dict(zip(names, row, strict=True)) for row in found]
        positions = {(row["level"], row["origin"], row["says"], row["account"]): row for row in there}
        row = positions.get(key)
        mine = Position(*key, sign=sign_of(claim), latest=finding, last=seen, times=1)
        if row is not None:
            old = _position(row)
            times = old.times + 1
            mine = Position(*key, old.sign, *max((seen, finding), (old.last, old.latest))[::-1], times)
        others = [_position(one) for name, one in positions.items() if name != key]
        all_of_them = [mine, *others]
        was = [
            Stands(FindingStatus(one["status"]), one["instead"]) for n, one in positions.items() if n != key
        ]
        now = standing(all_of_them)
        changed = [
            _position_row(subject, one, stands)
            for one, stands, before in zip(others, now[1:], was, strict=True)
            if stands != before
        ]
        self._replace("positions", _position_row(subject, mine, now[0]), *changed)

    def _replace(self, table: str, *rows: Mapping[str, Any]) -> None:
        """Put rows that have the same columns in, each in place of the one with its key."""
        if rows:
            self.connection.executemany(_insert("INSERT OR REPLACE", table, rows[0]), rows)

    def _update(self, table: str, values: Mapping[str, Any], where: Mapping[str, Any]) -> int:
        """Set columns of the rows that have the values ``where``. Returns how many they are."""
        changed = ", ".join(f'"{name}" = ?' for name in values)
        meant = " AND ".join(f'"{name}" IS ?' for name in where)
        sql = f"UPDATE {table} SET {changed} WHERE {meant}"  # noqa: S608 - names are ours
        return self.connection.execute(sql, (*values.values(), *where.values())).rowcount


def _position(row: Mapping[Any, Any]) -> Position:
    return Position(
        level=row["level"],
        origin=row["origin"],
        says=row["says"],
        account=row["account"],
        sign=row["sign"],
        latest=row["latest"],
        last=Seen(row["last_at"], row["last_transcript"], row["last_event"]),
        times=row["times"],
    )


def _position_row(subject: str, position: Position, stands: Stands) -> dict[str, Any]:
    at, transcript, event = position.last
    plain = ("level", "origin", "says", "account", "sign", "latest", "times")
    return {
        "subject": subject,
        "last_at": at,
        "last_transcript": transcript,
        "last_event": event,
        "status": stands.status.value,
        "instead": stands.instead,
        **{name: getattr(position, name) for name in plain},
    }


def _require_evidence(name: str, claim: Claim) -> None:
    if not claim.source_evidence and not claim.event_evidence:
        raise StoreError(f"finding {name} has no evidence; nothing is kept without")
    if claim.level is Level.STATIC and not claim.source_evidence:
        raise StoreError(f"finding {name} is of level static and cites no source")
    if claim.level not in {Level.REPORT, Level.STATIC} and not claim.event_evidence:
        raise StoreError(f"finding {name} is of level {claim.level.value} and cites no event")
    if claim.report is not None and claim.level is not Level.REPORT:
        raise StoreError(f"finding {name} is somebody's account and of level {claim.level.value}, not report")


def _came_of(output: Any) -> dict[str, Any]:
    """What a result says of itself, as far as it does."""
    if not isinstance(output, dict):
        return {}
    row = output.get("row")
    said = {name: output.get(name) for name in ("level", "outcome", "fingerprint")}
    if isinstance(row, dict):
        said |= {"level": Level.STATIC.value, "verdict": row.get("verdict")}
    found: dict[str, Any] = {name: value for name, value in said.items() if isinstance(value, str)}
    for name in ("seconds", "gpu_seconds"):
        value = output.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
            found[name] = float(value)
    return found


def _seconds(asked: str, answered: str) -> float | None:
    try:
        return (datetime.fromisoformat(answered) - datetime.fromisoformat(asked)).total_seconds()
    except (ValueError, TypeError):
        return None


def _insert(how: str, table: str, columns: Iterable[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    given = ", ".join(f":{name}" for name in columns)
    return f"{how} INTO {table} ({names}) VALUES ({given})"


def _put(table: str, columns: Iterable[str], keys: Collection[str], instead: Mapping[str, str]) -> str:
    """Insert a row, or change the one with its key, which keeps its number. ``instead``: column → what it is
    set to then; the others are set to the new values."""
    new = {name: f'excluded."{name}"' for name in columns if name not in keys}
    changed = ", ".join(f'"{name}" = {value}' for name, value in {**new, **instead}.items())
    return f"{_insert('INSERT', table, columns)} ON CONFLICT DO UPDATE SET {changed}"


_SIGHTING = (
    "INSERT INTO sightings (finding, transcript, event, at, origin) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET at = excluded.at, origin = excluded.origin"
)
_KNOWN = (
    "SELECT (?, ?, ?) < (recorded_at, transcript, event) AS earlier, claim, sentence"
    " FROM findings WHERE id = ?"
)
_SEEN = "UPDATE findings SET seen_at = max(seen_at, ?), origin = max(origin, ?) WHERE id = ?"
_POSITIONS = "SELECT * FROM positions WHERE subject = ?"
