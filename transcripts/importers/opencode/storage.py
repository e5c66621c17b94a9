"""Trees of JSON files: ``session/PROJECT/SES.json``, ``message/SES/MSG.json``, ``part/MSG/PRT.json``; before
that ``session/info/SES.json``, ``session/message/SES/MSG.json``, ``session/part/SES/MSG/PRT.json``.

Ids are those of the paths: what was moved once has others in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from transcripts.importers.opencode.messages import Conversation, Part
from transcripts.importers.sink import Sink
from transcripts.importers.source import LINE_LIMIT, Source
from transcripts.importers.values import items, mapping


def recognises(path: Path) -> bool:
    return (path / "session").is_dir() and (
        (path / "message").is_dir() or (path / "session" / "message").is_dir()
    )


def read(source: Source, sink: Sink) -> None:
    root = source.path
    old = (root / "session" / "message").is_dir()
    messages = root / "session" / "message" if old else root / "message"
    infos = {path.stem: path for path in _infos(root, old=old)}
    for session in sorted({*infos, *(path.name for path in _entries(messages, folders=True))}):
        recording = sink.session("opencode", session, "storage")
        conversation = Conversation(recording)
        info, problem = _json(infos[session]) if session in infos else ({}, None)
        if problem:
            recording.skip(problem)
        conversation.session({**mapping(info), "id": session})
        known: list[tuple[float, str, Path]] = []
        for path in _entries(messages / session):
            value, problem = _json(path)
            recording.counts["records"] += 1
            if problem or not isinstance(value, dict):
                recording.skip(problem or "malformed")
                continue
            created = mapping(value.get("time")).get("created")
            known.append((created if isinstance(created, int | float) else 0, path.stem, path))
        for _, id_, path in sorted(known):
            value, _ = _json(path)
            folder = root / "session" / "part" / session / id_ if old else root / "part" / id_
            parts: list[Part] = []
            for file in _entries(folder):
                part, problem = _json(file)
                recording.counts["records"] += 1
                if problem or not isinstance(part, dict):
                    recording.skip(problem or "malformed")
                else:
                    parts.append(({**part, "id": file.stem}, _place(source, file)))
            place = _place(source, path)
            # The first versions kept the parts in the message.
            parts = parts or [(mapping(part), place) for part in items(mapping(value).get("parts"))]
            conversation.message({**mapping(value), "id": id_}, parts, place)
        conversation.finish()
        sink.close(recording)


def _infos(root: Path, *, old: bool) -> Iterator[Path]:
    folder = root / "session"
    yield from _entries(folder / "info")
    if not old:
        for project in _entries(folder, folders=True):
            if project.name not in {"info", "message", "part"}:
                yield from _entries(project)


def _entries(folder: Path, *, folders: bool = False) -> list[Path]:
    """JSON files of a folder, or its folders, by name; what is a link is none of it."""
    found: list[Path] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            wanted = entry.is_dir if folders else entry.is_file
            if wanted(follow_symlinks=False) and (folders or entry.name.endswith(".json")):
                found.append(folder / entry.name)
    return sorted(found)


def _json(path: Path) -> tuple[Any, str | None]:
    try:
        with path.open("rb") as file:
            data = file.read(LINE_LIMIT + 1)
        if len(data) > LINE_LIMIT:
            return None, "too_long"
        return json.loads(data.decode("utf-8", "surrogateescape")), None
    except (OSError, ValueError, RecursionError):
        return None, "malformed"


def _place(source: Source, path: Path) -> dict[str, Any]:
    name = path.relative_to(source.path).as_posix()
    return {
        "file": f"{source.name}/{name}" if source.name else name,
        "offset": 0,
        "bytes": path.stat().st_size,
    }
