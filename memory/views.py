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

Row = Mapping[str, Any]

MOST_WORDS = 40
MOST_CHARACTERS = 2000

_NEWEST_FIRST = "ORDER BY seen_at DESC, transcript DESC, event DESC"


class Views:
    """Read-only access to ``findings.db``. Raises :class:`StoreError` with one line where that fails."""

    def __init__(self, home: Home) -> None:
        self._path = home.findings_db

    def findings(
        self,
        *,
        text: str = "",
        statuses: Iterable[str] = ("current",),
        packages: Mapping[str, str] | None = None,
        limit: int | None = None,
        **equal: str | None,
    ) -> list[Row]:
        """Findings, newest first. ``equal``: component, backend, arch, engine, level, verdict, outcome.

        Each word of ``text`` must stand in the sentence, the scenario or the evidence; ``packages`` maps
        distribution names to versions (``""``: any); no ``statuses`` means all.
        """
        where, values = _equal(equal, _FINDING_FILTERS)
        wanted = tuple(statuses)
        if wanted:
            where.append(f"status IN ({', '.join('?' * len(wanted))})")
            values += wanted
        words = text.split()
        if len(packages or {}) > MOST_WORDS:
            raise StoreError(
                f"{len(packages or {})} packages are too many to look for; give at most {MOST_WORDS}"
            )
        if len(words) > MOST_WORDS or len(text) > MOST_CHARACTERS:
            raise StoreError(
                f"{len(words)} words of {len(text)} characters are too many to look for; "
                f"give at most {MOST_WORDS} of {MOST_CHARACTERS} in all"
            )
        for word in words:
            where.append(
                "(sentence LIKE ? ESCAPE '\\' OR scenario LIKE ? ESCAPE '\\' OR id IN"
                " (SELECT finding FROM v_evidence WHERE text LIKE ? ESCAPE '\\' OR file LIKE ? ESCAPE '\\'))"
            )
            values += [_like(word)] * 4
        for name, version in (packages or {}).items():
            where.append(
                "EXISTS (SELECT 1 FROM json_each(packages) WHERE"
                " lower(replace(replace(key, '_', '-'), '.', '-')) = ? AND (? = '' OR value = ?))"
            )
            values += [name.lower().replace("_", "-").replace(".", "-"), version, version]
        return self._all("v_findings", f"{_where(where)} {_NEWEST_FIRST}{_limit(limit)}", values)

    def finding(self, prefix: str) -> Row:
        """The one finding whose id begins with ``prefix``."""
        return self._one("v_findings", "id", prefix, "finding", "agent findings list")

    def evidence(self, finding: str) -> list[Row]:
        """What a finding (its whole id) rests on, in the order in which it was given."""
        return self._all("v_evidence", "WHERE finding = ? ORDER BY number", [finding])

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
        self, view: str, rest: str = "", values: Iterable[Any] = (), *, newest: bool = False
    ) -> list[Row]:
        """Rows of a view. ``rest`` of the query is fixed text with ``?``.

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
                found = connection.execute(f"SELECT * FROM {view} {rest}", tuple(values))  # noqa: S608
                rows: list[Row] = [dict(row) for row in found]
        if not all(_sound(row, columns) for row in rows):
            raise damage(self._path, "a row makes no sense")
        return rows


_FINDING_FILTERS = ("component", "backend", "arch", "engine", "level", "verdict", "outcome")


def _sound(row: Row, columns: list[tuple[str, str, int]]) -> bool:
    """Whether values are of the types of their columns: in a damaged file anything may stand."""
    types = {"INTEGER": int, "REAL": float}
    return all(
        isinstance(row[name], types.get(kind, str)) or (row[name] is None and not required)
        for name, kind, required in columns
        if name in row
    )


def _equal(given: Mapping[str, str | None], allowed: tuple[str, ...]) -> tuple[list[str], list[Any]]:
    unknown = set(given) - set(allowed)
    if unknown:
        raise TypeError(f"no such filter: {', '.join(sorted(unknown))}; there are {', '.join(allowed)}")
    chosen = {name: value for name, value in given.items() if value}
    return [f"{name} = ?" for name in chosen], list(chosen.values())


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _limit(limit: int | None) -> str:
    return "" if limit is None else f" LIMIT {max(0, limit):d}"


def _like(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
