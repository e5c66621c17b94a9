"""opencode, in every way in which it keeps or gives away its sessions: trees of JSON files (to 1.1), SQLite
(1.2 and 2.x), ``export``, data of a share, captured server events and ``run --format json``.

All of them hold messages with parts; :mod:`.messages` makes events of these, so the same session gives the
same events from each. Only where the messages stand differs, and what 2.x no longer keeps.
"""

from __future__ import annotations

from typing import Any

from transcripts.importers.opencode import captured, database, storage
from transcripts.importers.opencode.messages import Conversation
from transcripts.importers.sink import Sink
from transcripts.importers.source import Source
from transcripts.importers.values import items, mapping, name as name_

name = "opencode"


def recognises(source: Source) -> bool:
    if source.shape == "folder":
        return storage.recognises(source.path)
    if source.shape == "database":
        return database.recognises(source.path)
    return bool(source.first) and (_is_export(source.first) or captured.recognises(source.first))


def read(source: Source, sink: Sink) -> None:
    if source.shape == "folder":
        storage.read(source, sink)
    elif source.shape == "database":
        database.read(source, sink)
    elif _is_export(source.first):
        _read_export(source, sink)
    else:
        captured.read(source, sink)


def _is_export(first: list[Any]) -> bool:
    return (
        _is_message(first[0])
        or any(map(_is_message, items(mapping(first[0]).get("messages"))))
        or (str(mapping(mapping(first[0]).get("info")).get("id", "")).startswith("ses_"))
    )


def _is_message(value: Any) -> bool:
    return "role" in mapping(mapping(value).get("info")) and isinstance(mapping(value).get("parts"), list)


def _read_export(source: Source, sink: Sink) -> None:
    recording = sink.session(name, None, "export")
    conversation = Conversation(recording)
    for record in source.members("messages"):
        if record.problem:
            recording.skip(record.problem)
        elif record.key == "info":
            conversation.session(mapping(record.value))
        elif record.key not in {None, "messages"}:
            recording.skip(str(record.key))
        else:
            recording.counts["records"] += 1
            value = mapping(record.value)
            info = mapping(value.get("info"))
            if not info:
                recording.other("message", record.value, record.source)
                continue
            recording.id = recording.id or name_(info.get("sessionID"))
            conversation.message(
                info, [(mapping(part), record.source) for part in items(value.get("parts"))], record.source
            )
    conversation.finish()
    sink.close(recording)
