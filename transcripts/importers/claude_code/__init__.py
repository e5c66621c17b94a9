"""Claude Code: JSON lines of ``projects/*/SESSION.jsonl`` and of its subagents, and the web form
``loglines``.

An answer is written as several records, a block each, under one ``message.id``. Records form a tree by
``parentUuid``: what is not on the way to a tree's last message was rewound. Records of a subagent
(``isSidechain``) are a session of their own.
"""

from __future__ import annotations

from typing import Any

from transcripts.importers.claude_code.conversation import PASSED, SPEAK, TITLES
from transcripts.importers.claude_code.records import FORMAT, Records
from transcripts.importers.sink import Sink
from transcripts.importers.source import Source
from transcripts.importers.values import mapping, word

name = FORMAT


def recognises(source: Source) -> bool:
    if source.shape == "document":
        return bool(source.first) and "loglines" in mapping(source.first[0])
    return source.shape == "lines" and any(_is_record(mapping(one)) for one in source.first)


def _is_record(value: dict[str, Any]) -> bool:
    kind = word(value, "type")
    if "payload" in value or "part" in value:
        return False
    if kind in SPEAK:
        return isinstance(value.get("message"), dict)
    return "sessionId" in value and kind in PASSED | TITLES.keys() | {"system"}


def read(source: Source, sink: Sink) -> None:
    reading = Records(source, sink)
    records = source.members("loglines") if source.shape == "document" else source.lines()
    for record in records:
        if source.shape != "document" or record.key == "loglines" or record.problem:
            reading.take(record)
    reading.finish()
