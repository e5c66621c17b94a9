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

from transcripts.imported.recording import Recording
from transcripts.importers.opencode.first import is_first, modern
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
    base = root / "session" if old else root
    infos = {path.stem: path for path in _infos(root, old=old)}
    for session in sorted({*infos, *(path.name for path in _entries(base / "message", folders=True))}):
        recording = sink.session("opencode", session, "storage")
        conversation = Conversation(recording)
        known = _read(source, infos[session], recording) if session in infos else None
        conversation.session({**(known[0] if known else {}), "id": session})
        messages: list[tuple[float, str, dict[str, Any], dict[str, Any]]] = []
        for path in _entries(base / "message" / session):
            if found := _read(source, path, recording):
                info = modern(found[0]) if is_first(found[0]) else found[0]
                created = mapping(info.get("time")).get("created")
                at = created if isinstance(created, int | float) else 0
                messages.append((at, path.stem, *found))
        for _, id_, value, place in sorted(messages, key=lambda one: one[:2]):
            folder = base / "part" / session / id_ if old else base / "part" / id_
            parts: list[Part] = [
                ({**found[0], "id": path.stem}, found[1])
                for path in _entries(folder)
                if (found := _read(source, path, recording))
            ]
            # The first versions kept the parts in the message.
            parts = parts or [(mapping(part), place) for part in items(value.get("parts"))]
            conversation.message({**value, "id": id_}, parts, place)
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


def _read(source: Source, path: Path, recording: Recording) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The object in a file and its place; None where there is none, which is counted."""
    recording.counts["records"] += 1
    problem = "malformed"
    with suppress(OSError, ValueError, RecursionError), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > LINE_LIMIT:
            problem = "too_long"
        else:
            value = json.loads(file.read().decode("utf-8", "surrogateescape"))
            if isinstance(value, dict):
                name = path.relative_to(source.path).as_posix()
                name = f"{source.name}/{name}" if source.name else name
                return value, {"file": name, "offset": 0, "bytes": size}
    recording.skip(problem)
    return None
