"""Reading imported sessions again: which there are, their messages and calls, words in them. Plain SQLite."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory.database import StoreError
from memory.home import Home
from memory.names import few
from transcripts.imported.index import Index, text_of
from transcripts.imported.model import Call, Event, Message, Session, known, session_of

_WORDS = re.compile(r'"([^"]+)"|(\S+)')
_LAST = (1 << 32) - 1
_NUMBERS = (
    "SELECT seq FROM events WHERE session = ?1 AND seq BETWEEN ?2 AND ?3 AND kind = ?4 "
    "AND (?5 IS NULL OR name = ?5) AND (?6 IS NULL OR ref = ?6) ORDER BY seq LIMIT ?7",
    "SELECT seq FROM events WHERE session = ?1 AND seq BETWEEN ?2 AND ?3 AND kind = ?4 "
    "AND (?5 IS NULL OR name = ?5) AND (?6 IS NULL OR ref = ?6) ORDER BY seq DESC LIMIT ?7",
)
"""In their order, and the newest first."""
_MENTIONS = (
    "SELECT e.seq FROM texts JOIN events e ON e.session = ?1 AND e.seq = texts.rowid & 4294967295 "
    "WHERE texts MATCH ?2 AND texts.rowid BETWEEN (?1 << 32 | ?3) AND (?1 << 32 | ?4) "
    "AND (?5 IS NULL OR e.kind = ?5) ORDER BY texts.rowid LIMIT ?6",
    "SELECT e.seq FROM texts JOIN events e ON e.session = ?1 AND e.seq = texts.rowid & 4294967295 "
    "WHERE texts MATCH ?2 AND texts.rowid BETWEEN (?1 << 32 | ?3) AND (?1 << 32 | ?4) "
    "AND (?5 IS NULL OR e.kind = ?5) ORDER BY texts.rowid DESC LIMIT ?6",
)
_AROUND = 60
"""Characters shown before and after a match."""
_SEARCH = """
SELECT e.offset, e.bytes, e.seq, e.kind, e.name, s.file, s.id FROM texts
JOIN sessions s ON s.number = texts.rowid >> 32
JOIN events e ON e.session = s.number AND e.seq = texts.rowid & 4294967295
WHERE texts MATCH ?1 AND (?2 IS NULL OR s.id = ?2) AND (?3 IS NULL OR s.format = ?3)
ORDER BY texts.rank, texts.rowid LIMIT ?4
"""

_SUMMED = ("messages", "tool_calls", "failures", "segments", "dead", "unanswered")
_TOOLS = """
SELECT c.name AS tool, count(*) AS calls, sum(coalesce(r.failed, 0)) AS failed,
    sum(r.failed IS NULL) AS unanswered
FROM events c LEFT JOIN (
    SELECT session, ref, max(status IN ('error', 'aborted', 'rejected')) AS failed FROM events
    WHERE kind = 'result' AND status != 'unanswered' AND (?1 IS NULL OR session = ?1) GROUP BY session, ref
) r ON r.session = c.session AND r.ref = c.seq
WHERE c.kind = 'call' AND (?1 IS NULL OR c.session = ?1) GROUP BY c.name ORDER BY calls DESC, tool
"""
_SEGMENTS = """
SELECT segment, sum(kind = 'message') AS messages, sum(kind = 'call') AS calls,
    sum(kind = 'result' AND status IN ('error', 'aborted', 'rejected')) AS failed
FROM events WHERE session = ? AND segment NOT NULL GROUP BY segment ORDER BY segment
"""


@dataclass(frozen=True)
class Match:
    session: str
    event: int
    kind: str
    name: str | None
    """The role that spoke, or the tool."""
    excerpt: str


class Library:
    """All imported sessions of a home. Use it with ``with``; raises :class:`StoreError` as a database
    does."""

    def __init__(self, home: Home, tell: Callable[[str], None] = lambda _: None) -> None:
        """``tell`` is told of files that cannot be read."""
        self._index = Index(home, tell)
        self._stack = ExitStack()

    def __enter__(self) -> Library:
        self._stack.enter_context(self._index)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sessions(self) -> list[Session]:
        """All, the newest first."""
        rows = self._index.rows("SELECT document FROM sessions ORDER BY coalesce(ended, '') DESC, id")
        return [_session(row["document"]) for row in rows]

    def children(self, id_: str) -> list[str]:
        rows = self._index.rows("SELECT id FROM sessions WHERE parent = ? ORDER BY started, id", id_)
        return [row["id"] for row in rows]

    def child_counts(self) -> dict[str, int]:
        rows = self._index.rows("SELECT parent, count(*) AS n FROM sessions GROUP BY parent")
        return {row["parent"]: row["n"] for row in rows if row["parent"] is not None}

    def stats(self, one: Imported | None = None) -> dict[str, Any]:
        """Numbers over all sessions or over one: ``totals``, ``formats``, ``tools``; of one ``segments``."""
        number = None if one is None else one.number
        sums = ", ".join(f"sum(json_extract(document, '$.{key}')) AS {key}" for key in _SUMMED)
        per_format = self._index.rows(
            f"SELECT format, count(*) AS sessions, {sums} FROM sessions "  # noqa: S608 - names of ours
            "WHERE ?1 IS NULL OR number = ?1 GROUP BY format ORDER BY format",
            number,
        )
        formats = [dict(row) for row in per_format]
        totals = {key: sum(row[key] for row in formats) for key in ("sessions", *_SUMMED)}
        tools = self._index.rows(_TOOLS, number)
        segments = self._index.rows(_SEGMENTS, number) if number is not None else []
        return {
            "totals": totals,
            "formats": formats,
            "tools": [dict(row) for row in tools],
            "segments": [dict(row) for row in segments],
        }

    def open(self, name: str) -> Imported:
        """The session with an id, or the only one that begins so. Raises :class:`StoreError`."""
        like = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        rows = self._index.rows(
            "SELECT number, file, id, document FROM sessions WHERE id LIKE ? ESCAPE '\\' ORDER BY id", like
        )
        exact = [row for row in rows if row["id"] == name]
        if len(exact or rows) > 1 and name:
            raise StoreError(f"{name!r} fits several sessions: {few([row['id'] for row in rows], 5)}")
        if not rows or not name:
            raise StoreError(f"no imported session {name!r}; see: agent transcripts list --imported")
        row = (exact or rows)[0]
        path = self._index.home.imported / row["file"]
        return Imported(self._index, row["number"], path, _session(row["document"]))

    def search(
        self, words: str, *, session: str | None = None, format_: str | None = None, limit: int = 20
    ) -> list[Match]:
        """Events that hold all words (in quotes: one after the other), the best first."""
        terms = [quoted or word for quoted, word in _WORDS.findall(words)]
        if not any(any(character.isalnum() for character in term) for term in terms):
            raise StoreError(
                "nothing to search for; give a word, e.g. agent transcripts search out of memory"
            )
        query = " ".join('"' + term.replace('"', '""') + '"' for term in terms)
        found = []
        for row in self._index.rows(_SEARCH, query, session, format_, limit):
            event = _read(self._index.home.imported / row["file"], row["offset"], row["bytes"])
            excerpt = _excerpt(text_of(event), terms)
            found.append(Match(row["id"], row["seq"], row["kind"], row["name"], excerpt))
        return found


class Imported:
    """One imported session."""

    def __init__(self, index: Index, number: int, path: Path, session: Session) -> None:
        self._index = index
        self.number = number
        self.path = path
        self.session = session

    def events(
        self,
        start: int = 0,
        limit: int | None = None,
        *,
        segment: int | None = None,
        kinds: tuple[str, ...] = (),
    ) -> Iterator[Event]:
        """Events from number ``start`` as they stand in the file, with what was amended later."""
        chosen = json.dumps(kinds) if kinds else None
        rows = self._index.rows(
            "SELECT offset, bytes, amended FROM events WHERE session = ?1 AND seq >= ?2 "
            "AND (?3 IS NULL OR segment = ?3) "
            "AND (?4 IS NULL OR kind IN (SELECT value FROM json_each(?4))) ORDER BY seq LIMIT ?5",
            *(self.number, start, segment, chosen, -1 if limit is None else limit),
        )
        with self.path.open("rb") as file:
            for row in rows:
                file.seek(row["offset"])
                yield _amended(json.loads(file.read(row["bytes"])), row["amended"])

    def event(self, seq: int) -> Event:
        """One event by its number. Raises :class:`StoreError`."""
        found = next(self.events(seq, 1), None)
        if found is None or found["seq"] != seq:
            raise StoreError(f"session {self.session.id} has no event {seq}")
        return found

    def numbers(
        self,
        kind: str,
        *,
        name: str | None = None,
        of: int | None = None,
        first: int = 0,
        last: int | None = None,
        newest: bool = False,
        limit: int = -1,
    ) -> list[int]:
        """Numbers of the events of a kind from ``first`` to ``last``, in their order or the ``newest`` first.

        ``name``: of a role or tool. ``of``: calls of a message, or results of a call.
        """
        rows = self._index.rows(
            _NUMBERS[newest],
            *(self.number, first, _LAST if last is None else last, kind, name, of, limit),
        )
        return [row["seq"] for row in rows]

    def mentions(
        self,
        words: str,
        *,
        kind: str | None = None,
        first: int = 0,
        last: int | None = None,
        newest: bool = False,
        limit: int = -1,
    ) -> list[int]:
        """Numbers of the events that hold ``words`` one after the other; as in a search, neither case nor
        what stands between words counts. None for what has no letter or digit."""
        if not any(character.isalnum() for character in words):
            return []
        plain = words.encode("utf-8", "replace").decode().replace("\0", " ")
        phrase = '"' + plain.replace('"', '""') + '"'
        rows = self._index.rows(
            _MENTIONS[newest],
            *(self.number, phrase, first, _LAST if last is None else last, kind, limit),
        )
        return [row["seq"] for row in rows]

    def messages(self, *, live: bool | None = None) -> Iterator[Message]:
        for event in self.events(kinds=("message",)):
            if live is None or event.get("live", True) is live:
                yield Message(**known(Message, event))

    def calls(self, *, live: bool | None = None) -> Iterator[Call]:
        """Calls in their order, each with its result."""
        sql = "SELECT ref, offset, bytes FROM events WHERE session = ? AND kind = 'result' ORDER BY seq DESC"
        rows = self._index.rows(sql, self.number)
        results = {row["ref"]: (row["offset"], row["bytes"]) for row in rows}
        for event in self.events(kinds=("call",)):
            if live is None or event.get("live", True) is live:
                place = results.get(event["seq"])
                yield call_of(event, None if place is None else _read(self.path, *place))

    def call(self, seq: int) -> Call:
        """The call with that number, and its result. Raises :class:`StoreError`."""
        event = self.event(seq)
        if event["kind"] != "call":
            raise StoreError(f"event {seq} of session {self.session.id} is no call but a {event['kind']}")
        rows = self._index.rows(
            "SELECT offset, bytes FROM events WHERE session = ? AND kind = 'result' AND ref = ? ORDER BY seq",
            self.number,
            seq,
        )
        return call_of(event, _read(self.path, *rows[0]) if rows else None)


def call_of(call: Event, result: Event | None) -> Call:
    """A call and its result as one. What was amended of the call holds for what the model saw."""
    facts = known(Call, call)
    if result is not None:
        facts |= {
            key: value
            for key, value in known(Call, result).items()
            if key not in {"seq", "source", "segment"}
        }
        facts["result"] = result["seq"]
        facts.setdefault("shown", result.get("returned", ""))
        facts["shown"] = call.get("shown", facts["shown"])
    return Call(**facts)


def document(value: Session | Call | Message | Match) -> dict[str, Any]:
    """As JSON types."""
    return asdict(value)


def _session(text: str) -> Session:
    session = session_of(document := json.loads(text))
    if session is None:
        raise StoreError(f"session {document.get('id')} is not as it was written; import it again")
    return session


def _read(path: Path, offset: int, size: int) -> Event:
    with path.open("rb") as file:
        file.seek(offset)
        event: Event = json.loads(file.read(size))
    return event


def _amended(event: Event, change: str | None) -> Event:
    return event if change is None else {**event, **json.loads(change)}


def _excerpt(text: str, terms: list[str]) -> str:
    """Where the first of the terms stands, with what is around it."""
    low = text.lower()
    places = [place for term in terms if (place := low.find(term.lower())) >= 0]
    start = max(0, min(places, default=0) - _AROUND)
    end = min(places, default=0) + _AROUND * 2
    return f"{'…' if start else ''}{' '.join(text[start:end].split())}{'…' if end < len(text) else ''}"
