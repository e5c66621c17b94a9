"""SQLite: ``message`` and ``part`` of 1.2 on, ``session_message`` of 2.x. Of a session that has both, the
first.

The file is another program's and may be written at this moment: a copy is read, with its write-ahead log. The
table ``event`` is never read: it holds everything again, many times over.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from transcripts.imported.recording import Recording
from transcripts.importers.opencode.messages import Conversation, Part
from transcripts.importers.opencode.rows import messages_of
from transcripts.importers.sink import Sink
from transcripts.importers.source import LINE_LIMIT, ImportingError, Source
from transcripts.importers.values import mapping

_MESSAGES = {"message", "part"}
_SESSIONS = ("session_v2", "session")
_COLUMNS = {
    "parent_id": "parentID",
    "directory": "directory",
    "title": "title",
    "version": "version",
    "fork_session_id": "forkSessionID",
}


def recognises(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as raw:
            tables = _tables(raw)
        if not tables and path.with_name(f"{path.name}-wal").exists():
            # Of a young database everything may still stand in the log.
            with _copy(path) as raw:
                tables = _tables(raw)
    except (sqlite3.Error, OSError):
        return False
    return bool(tables & set(_SESSIONS)) and (tables >= _MESSAGES or "session_message" in tables)


def read(source: Source, sink: Sink) -> None:
    try:
        with _copy(source.path) as raw:
            reading = _Reading(raw, source, sink)
            for session in reading.sessions():
                reading.read(session)
    except sqlite3.Error as error:
        raise ImportingError(
            f"{source.path} cannot be read as opencode's database ({error}); copy it again"
        ) from error


@contextmanager
def _copy(path: Path) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        for suffix in ("", "-wal"):
            file = path.with_name(path.name + suffix)
            if file.is_file():
                shutil.copyfile(file, Path(folder) / f"copy.db{suffix}")
        with closing(sqlite3.connect(Path(folder) / "copy.db", isolation_level=None)) as raw:
            raw.execute("PRAGMA trusted_schema = OFF")
            raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LINE_LIMIT)
            raw.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
            raw.row_factory = sqlite3.Row
            yield raw


def _tables(raw: sqlite3.Connection) -> set[str]:
    """Names of tables; a view of such a name is none."""
    return {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


class _Reading:
    def __init__(self, raw: sqlite3.Connection, source: Source, sink: Sink) -> None:
        self._raw = raw
        self._source = source
        self._sink = sink
        self._tables = _tables(raw)
        if self._tables >= _MESSAGES:
            # Here, in the copy; without it each message would read all parts.
            raw.execute("CREATE INDEX IF NOT EXISTS part_message_id_id_idx ON part (message_id, id)")

    def sessions(self) -> list[tuple[str, dict[str, Any]]]:
        """Id and info of each; those that only messages name too."""
        found: dict[str, dict[str, Any]] = {}
        for table in _SESSIONS:
            if table in self._tables:
                for row in self._raw.execute(f"SELECT * FROM {table} ORDER BY time_created, id"):  # noqa: S608 - ours
                    found.setdefault(str(row["id"]), _info(row))
        for table in self._tables & {"message", "session_message"}:
            for row in self._raw.execute(f"SELECT DISTINCT session_id FROM {table} ORDER BY 1"):  # noqa: S608 - ours
                found.setdefault(str(row[0]), {"id": str(row[0])})
        return list(found.items())

    def read(self, session: tuple[str, dict[str, Any]]) -> None:
        id_, info = session
        first = None
        if self._tables >= _MESSAGES:
            first = self._raw.execute("SELECT 1 FROM message WHERE session_id = ? LIMIT 1", (id_,)).fetchone()
        recording = self._sink.session("opencode", id_, "sqlite" if first else "sqlite2")
        conversation = Conversation(recording)
        conversation.session(info)
        if first:
            self._messages(id_, recording, conversation)
        elif "session_message" in self._tables:
            self._rows(id_, recording, conversation)
        conversation.finish()
        self._sink.close(recording)

    def _messages(self, session: str, recording: Recording, conversation: Conversation) -> None:
        chosen = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        for row in self._raw.execute(chosen, (session,)):
            info = self._json(row["data"], recording)
            if info is None:
                continue
            parts: list[Part] = []
            for one in self._raw.execute(
                "SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (row["id"],)
            ):
                part = self._json(one["data"], recording)
                if part is not None:
                    parts.append(({**part, "id": one["id"]}, self._place("part", one["id"])))
            conversation.message({**info, "id": row["id"]}, parts, self._place("message", row["id"]))

    def _rows(self, session: str, recording: Recording, conversation: Conversation) -> None:
        columns = {
            row["name"] for row in self._raw.execute("SELECT name FROM pragma_table_info('session_message')")
        }
        order = "seq" if "seq" in columns else "time_created, id"
        chosen = f"SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY {order}"  # noqa: S608 - ours
        for row in self._raw.execute(chosen, (session,)):
            data = self._json(row["data"], recording)
            if data is None:
                continue
            place = self._place("session_message", row["id"])
            made = messages_of(str(row["type"]), {**data, "id": row["id"]})
            if made is None:
                recording.other(str(row["type"]), data, place)
            elif not made:
                recording.skip(str(row["type"]))
            for info, parts in made or ():
                conversation.message(info, [(part, place) for part in parts], place)

    def _json(self, data: Any, recording: Recording) -> dict[str, Any] | None:
        recording.counts["records"] += 1
        try:
            value = json.loads(data)
        except (ValueError, TypeError, RecursionError):
            value = None
        if not isinstance(value, dict):
            recording.skip("malformed")
            return None
        return value

    def _place(self, table: str, id_: Any) -> dict[str, Any]:
        return {"file": self._source.name, "row": f"{table}/{id_}"}


def _info(row: sqlite3.Row) -> dict[str, Any]:
    """A row of a session as the JSON that the other layouts have."""
    there = set(row.keys())
    info: dict[str, Any] = {"id": str(row["id"])}
    info.update({key: row[column] for column, key in _COLUMNS.items() if column in there and row[column]})
    if "time_created" in there:
        info["time"] = {"created": row["time_created"]}
    if "revert" in there and row["revert"]:
        try:
            info["revert"] = mapping(json.loads(row["revert"]))
        except (ValueError, TypeError):
            info["revert"] = {}
    return info
