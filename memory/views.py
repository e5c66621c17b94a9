"""Reading what is known, fast: plain ``sqlite3`` over the promised views, nothing heavy imported.

Rows are mappings with the columns of the view; columns that hold JSON (``packages``, ``scenario``,
``claim``, ``row``) are given as text. A database that is not there yet reads as empty.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from memory.database import Folded, StoreError, damage, explained, open_to_read
from memory.home import Home
from memory.migrations import NEWEST, check_version, version_of
from memory.search import CURRENT, LEVEL_WORTH, MOST_RANKED, STATUS_WORTH, filters, query, worth
from memory.trust import LADDER

Row = Mapping[str, Any]

_NEWEST_FIRST = "ORDER BY seen_at DESC, transcript DESC, event DESC"


class Views:
    """Read-only access to ``findings.db``. Raises :class:`StoreError` with one line where that fails."""

    def __init__(self, home: Home) -> None:
        self._path = home.findings_db

    def findings(
        self,
        *,
        text: str = "",
        statuses: Iterable[str] = (CURRENT,),
        disputed: bool = False,
        packages: Mapping[str, str] | None = None,
        limit: int | None = None,
        **equal: str | None,
    ) -> list[Row]:
        """Findings, newest first. ``equal``: component, backend, arch, engine, level, verdict, outcome or
        origin.

        Every word of ``text`` must begin a word of the sentence, the scenario or the evidence; ``packages``
        maps distribution names to versions (``""``: any); no ``statuses`` means all; ``disputed`` adds those
        that are contradicted while nothing has decided.
        """
        where, values = filters(statuses, disputed, packages, equal)
        if text:
            asked = query(text, {})
            if asked is None:
                return []
            where.append(
                "id IN (SELECT f.id FROM words JOIN findings f ON f.rowid = words.rowid WHERE words MATCH ?)"
            )
            values.append(asked)
        rest = f"{_where(where)} {_NEWEST_FIRST}{_limit(limit)}"
        return self._all("v_findings", rest, values, newest=bool(text))

    def search(
        self,
        text: str,
        *,
        statuses: Iterable[str] = (),
        packages: Mapping[str, str] | None = None,
        limit: int = 50,
        **equal: str | None,
    ) -> list[Row]:
        """Findings by words, the best first: relevance × status × level. The filters are those of
        :meth:`findings`. Of very many the newest :data:`MOST_RANKED` are ranked."""
        asked = query(text, {name: value for name, value in equal.items() if value})
        if asked is None:
            return []
        where, values = filters(statuses, False, packages, equal)
        # Ranked by what ranking needs; the rest of a row is looked up for those that are shown.
        hits = (
            "SELECT rowid AS number, -bm25(words, 4.0, 1.0) AS relevance FROM words WHERE words MATCH ?"  # noqa: S608
            f" ORDER BY rowid DESC LIMIT {MOST_RANKED:d}"
        )
        score = f"relevance * {worth('status', STATUS_WORTH)} * {worth('level', LEVEL_WORTH)}"
        ranked = (
            f"SELECT id AS hit, {score} AS score FROM ({hits})"  # noqa: S608 - ours
            " JOIN (SELECT rowid AS place, id AS name FROM findings) ON place = number"
            f" JOIN v_findings ON id = name {_where(where)}"
            f" ORDER BY score DESC, seen_at DESC, id{_limit(limit)}"
        )
        chosen = f"(SELECT v.*, score FROM ({ranked}) JOIN v_findings v ON v.id = hit)"  # noqa: S608
        order = "ORDER BY score DESC, seen_at DESC, id"
        return self._all("v_findings", order, [asked, *values], chosen, newest=True)

    def matrix(self, *, packages: Mapping[str, str] | None = None, **equal: str | None) -> list[Row]:
        """Of each component, backend and architecture the finding with the best evidence that stands: of the
        highest rung, ours before others', the newest. ``cell``: how many findings it has in all."""
        where, values = filters((CURRENT,), True, packages, equal)
        rungs = " ".join(f"WHEN '{level}' THEN {rank}" for rank, level in enumerate(LADDER))
        best = (
            "SELECT id AS best, row_number() OVER (PARTITION BY component, backend, arch ORDER BY"  # noqa: S608
            f" CASE level {rungs} END DESC, origin DESC, seen_at DESC, id) AS place,"
            f" count(*) OVER (PARTITION BY component, backend, arch) AS cell FROM v_findings {_where(where)}"
        )
        cells = f"({best}) JOIN v_findings v ON v.id = best"
        chosen = f"(SELECT v.*, cell FROM {cells} WHERE place = 1)"  # noqa: S608
        order = "ORDER BY component, backend, arch"
        return self._all("v_findings", order, values, chosen, newest=True)

    def finding(self, prefix: str) -> Row:
        """The one finding whose id begins with ``prefix``."""
        return self._one("v_findings", "id", prefix, "finding", "agent findings list")

    def evidence(self, finding: str) -> list[Row]:
        """What a finding (its whole id) rests on, in the order in which it was given."""
        return self._all("v_evidence", "WHERE finding = ? ORDER BY number", [finding])

    def cited(self, findings: Iterable[str]) -> dict[str, list[Row]]:
        """The cited lines of each of many findings, in order."""
        given = "finding IN (SELECT value FROM json_each(?))"
        rest = f"WHERE kind = 'source' AND {given} ORDER BY finding, number"
        found: dict[str, list[Row]] = {}
        for row in self._all("v_evidence", rest, [json.dumps(list(findings))]):
            found.setdefault(row["finding"], []).append(row)
        return found

    def cells(self) -> list[Row]:
        """Component and backend of all that was ever asked or found."""
        known = "SELECT component, backend FROM hypotheses UNION SELECT component, backend FROM findings"
        return self._all("v_findings", "ORDER BY component, backend", (), f"({known})")

    def measurements(self, finding: str) -> list[Row]:
        """The numbers of a finding, and where each stands."""
        return self._all("v_measurements", "WHERE finding = ? ORDER BY number", [finding], newest=True)

    def sightings(self, finding: str) -> list[Row]:
        """The events that recorded a finding, in order."""
        return self._all(
            "v_sightings", "WHERE finding = ? ORDER BY at, transcript, event", [finding], newest=True
        )

    def all_sightings(self) -> list[tuple[str, int]]:
        """Transcript and event of every one."""
        rows = self._all("v_sightings", newest=True)
        return [(row["transcript"], row["event"]) for row in rows]

    def rivals(self, finding: str) -> list[Row]:
        """Others of the same subject that stand for what they say, the newest first."""
        same = (
            "id IN (SELECT latest FROM positions WHERE subject = (SELECT subject FROM findings WHERE id = ?))"
        )
        return self._all(
            "v_findings", f"WHERE {same} AND id <> ? {_NEWEST_FIRST}", [finding, finding], newest=True
        )

    def experiments(self, transcript: str, hypothesis: str | None = None) -> list[Row]:
        """What was run or read to find out, in order; for one hypothesis where it is named."""
        about, values = ("AND hypothesis = ?", [hypothesis]) if hypothesis else ("", [])
        rest = f"WHERE transcript = ? {about} ORDER BY asked_event"
        return self._all("v_experiments", rest, [transcript, *values], newest=True)

    def predictions(self) -> list[Row]:
        """What was read and what then ran of the same subject, counted: ``idiom`` of the line that decided,
        ``driver``, ``verdict``, ``level`` and ``outcome`` of what ran, ``count``."""
        first = "SELECT idiom FROM evidence e WHERE e.finding = s.id AND e.kind = 'source' ORDER BY number"
        pairs = (
            f"(SELECT ({first} LIMIT 1) AS idiom, i.driver AS driver, s.verdict AS verdict, r.level AS level,"  # noqa: S608
            " r.outcome AS outcome, count(*) AS count"
            " FROM findings s JOIN findings r ON r.subject = s.subject"
            " JOIN investigations i ON i.transcript = s.transcript"
            " WHERE s.level = 'static' AND r.level NOT IN ('static', 'report') AND r.origin = 'own'"
            " AND s.origin = 'own' GROUP BY 1, 2, 3, 4, 5)"
        )
        order = "ORDER BY idiom, driver, level, verdict, outcome"
        return self._all("v_findings", order, (), pairs, newest=True)

    def investigations(self, *, limit: int | None = None) -> list[Row]:
        """Investigations, newest first."""
        return self._all("v_investigations", f"ORDER BY opened_at DESC, transcript DESC{_limit(limit)}")

    def investigation(self, prefix: str) -> Row:
        """The one investigation whose id begins with ``prefix``."""
        return self._one("v_investigations", "id", prefix, "investigation", "agent transcripts list")

    def hypotheses(self, transcript: str) -> list[Row]:
        """The board of one transcript, in the order in which hypotheses were opened."""
        return self._all("v_hypotheses", "WHERE transcript = ? ORDER BY opened_event", [transcript])

    def folded(self) -> dict[str, Folded]:
        """Transcript → how far it has been folded. Nothing is, in a database of an older program."""
        rows = self._all("v_folded", newest=True)
        return {row["transcript"]: Folded(*(row[name] for name in Folded._fields)) for row in rows}

    def parsed(self, row: Row, column: str) -> dict[str, Any]:
        """A column that holds JSON, as an object; empty where there is none."""
        try:
            value = json.loads(row[column] or "{}")
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise damage(self._path, f"{column} of {row.get('id')} is not JSON")
        return value

    def _one(self, view: str, column: str, prefix: str, what: str, listed: str) -> Row:
        rest = f"WHERE {column} LIKE ? ESCAPE '\\' ORDER BY {column}"
        rows = self._all(view, rest, [_like(prefix).removeprefix("%")]) if prefix else []
        exact = [row for row in rows if row[column] == prefix]
        if len(exact) == 1 or len(rows) == 1:
            return (exact or rows)[0]
        if not rows:
            raise StoreError(f"no {what} {prefix!r}; see: {listed}")
        names = ", ".join(str(row[column]) for row in rows[:5])
        raise StoreError(f"{prefix!r} fits {len(rows)} of them ({names}…); give more of the id")

    def _all(
        self,
        view: str,
        rest: str = "",
        values: Iterable[Any] = (),
        chosen: str | None = None,
        *,
        newest: bool = False,
    ) -> list[Row]:
        """Rows of a view. ``rest`` of the query is fixed text with ``?``; so is ``chosen``, what they are of.

        ``newest``: none of a database with an older schema.
        """
        with explained(self._path, "read"):
            if not self._path.exists():
                return []
            with closing(open_to_read(self._path)) as connection:
                version = version_of(connection)
                check_version(version, self._path)
                if version == 0 or (newest and version < NEWEST):
                    return []
                # A view is named after its table and has the same columns, and some more.
                described = 'SELECT name, type, "notnull" FROM pragma_table_info(?)'
                columns = connection.execute(described, (view.removeprefix("v_"),)).fetchall()
                connection.row_factory = sqlite3.Row
                found = connection.execute(f"SELECT * FROM {chosen or view} {rest}", tuple(values))  # noqa: S608
                rows: list[Row] = [dict(row) for row in found]
        if not all(_sound(row, columns) for row in rows):
            raise damage(self._path, "a row makes no sense")
        return rows


def _sound(row: Row, columns: list[tuple[str, str, int]]) -> bool:
    """Whether values are of the types of their columns: in a damaged file anything may stand."""
    types = {"INTEGER": int, "REAL": float}
    return all(
        isinstance(row[name], types.get(kind, str)) or (row[name] is None and not required)
        for name, kind, required in columns
        if name in row
    )


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _limit(limit: int | None) -> str:
    return "" if limit is None else f" LIMIT {max(0, limit):d}"


def _like(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
