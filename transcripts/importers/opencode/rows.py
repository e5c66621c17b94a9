"""Rows of opencode 2.x (``session_message``: one a message, its type in a column) as messages with parts."""

from __future__ import annotations

import re
from typing import Any

from transcripts.importers.values import items, mapping, text, word

Made = list[tuple[dict[str, Any], list[dict[str, Any]]]]
"""Infos of messages, each with its parts."""

_QUIET = {"agent-switched", "model-switched", "location-switched", "idle"}
_ENDED = re.compile(r"Command exited with code (-?\d+)\.\Z")
"""What a shell tool adds for the model, in a block of its own."""


def messages_of(type_: str, data: dict[str, Any]) -> Made | None:
    """What a row says; nothing for one that says nothing; None for a type that is not known."""
    if type_ == "assistant":
        parts = [_part(one) for one in items(data.get("content"))]
        return [
            ({**data, "role": "assistant"}, [*parts, *([{"type": "retry"}] if data.get("retry") else [])])
        ]
    if type_ in {"user", "synthetic", "system", "skill"}:
        role = "system" if type_ == "system" else "user"
        said = {"type": "text", "text": text(data.get("text")), "synthetic": type_ in {"synthetic", "skill"}}
        files = [{**_file(one), "type": "file"} for one in items(data.get("files"))]
        return [({**data, "role": role}, [said, *files])]
    if type_ == "shell":
        return [({**data, "role": "user"}, [_shell(data)])]
    if type_ == "compaction":
        return _compaction(data)
    return [] if type_ in _QUIET else None


def _compaction(data: dict[str, Any]) -> Made:
    """The request and the summary, which were two messages before; a compaction that failed has no
    summary."""
    asked = {"id": data["id"], "role": "user", "time": data.get("time")}
    status = word(data, "status")
    done = bool(data.get("summary")) and status in {"", "completed"}
    made: dict[str, Any] = {
        "id": f"{data['id']}.summary",
        "role": "assistant",
        "summary": True,
        "time": data.get("time"),
        "model": data.get("model"),
        "tokens": data.get("tokens"),
        "finish": "stop" if done else None,
        "error": data.get("error"),
    }
    parts = [{"type": "text", "text": text(data.get("summary"))}]
    return [(asked, [{"type": "compaction"}]), (made, parts if data.get("summary") else [])]


def _part(item: Any) -> dict[str, Any]:
    part = mapping(item)
    if word(part, "type") != "tool":
        return part
    state = mapping(part.get("state"))
    facts = {**mapping(state.get("structured")), **mapping(state.get("metadata"))}
    time = mapping(part.get("time"))
    status = word(state, "status")
    blocks, attached = _output(state.get("content"))
    ended = _ENDED.search(blocks[-1]) if blocks else None
    shown = "\n".join(blocks)
    output = "\n".join(blocks[:-1]) if ended and len(blocks) > 1 else shown
    paths = [path for path in items(state.get("outputPaths")) if isinstance(path, str)]
    given = state.get("input")
    code = facts.get("exit", facts.get("exitCode"))
    metadata = {
        **facts,
        "exit": int(ended[1]) if ended and code is None else code,
        "outputPath": facts.get("outputPath") or (paths[0] if paths else None),
        "truncated": facts.get("truncated") is True or bool(paths),
    }
    if status == "error" and output:
        metadata["output"] = output
    return {
        "id": part.get("id"),
        "type": "tool",
        "tool": part.get("name") or part.get("tool"),
        "callID": part.get("callID") or part.get("id"),
        "state": {
            # While it is pending what it was given is raw text.
            "input": given if not isinstance(given, str) else None,
            "raw": given if isinstance(given, str) else None,
            "status": "running" if status == "streaming" else status,
            "output": output,
            "shown": shown,
            "error": state.get("error"),
            "metadata": metadata,
            "attachments": attached,
            "time": {
                "start": time.get("ran") or time.get("created"),
                "end": time.get("completed"),
                "compacted": time.get("pruned"),
            },
        },
    }


def _output(content: Any) -> tuple[list[str], list[dict[str, Any]]]:
    blocks = [mapping(one) for one in items(content)]
    said = [text(one.get("text")) for one in blocks if word(one, "type") == "text"]
    return said, [_file(one) for one in blocks if word(one, "type") == "file"]


def _file(value: Any) -> dict[str, Any]:
    file = mapping(value)
    url = file.get("uri") or file.get("url") or mapping(file.get("source")).get("uri")
    return {"url": url, "data": file.get("data"), "mime": file.get("mime"), "filename": file.get("name")}


def _shell(data: dict[str, Any]) -> dict[str, Any]:
    """A command that the person ran."""
    time = mapping(data.get("time"))
    done = time.get("completed") is not None
    output = data.get("output")
    return {
        "type": "tool",
        "tool": "shell",
        "callID": data.get("callID") or data.get("shellID"),
        "state": {
            "status": "completed" if done else "running",
            "input": {"command": data.get("command")},
            "output": mapping(output).get("output") if isinstance(output, dict) else output,
            "metadata": {"exit": data.get("exit")},
            "time": {"start": time.get("created"), "end": time.get("completed")},
        },
    }
