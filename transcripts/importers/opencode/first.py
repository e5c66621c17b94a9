"""Messages of the first versions (2025): parts within the message, everything else below ``metadata``."""

from __future__ import annotations

from typing import Any

from transcripts.importers.values import mapping, text, word


def is_first(info: dict[str, Any]) -> bool:
    return "time" not in info and "created" in mapping(mapping(info.get("metadata")).get("time"))


def modern(info: dict[str, Any]) -> dict[str, Any]:
    """The same message as later versions keep it, without its parts."""
    metadata = mapping(info.get("metadata"))
    plain: dict[str, Any] = {key: metadata[key] for key in ("time", "error") if key in metadata}
    return {"id": info.get("id"), "role": info.get("role"), **mapping(metadata.get("assistant")), **plain}


def modern_part(part: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    """A part of such a message as later versions keep it. What a tool did beside its result stands in the
    message."""
    if word(part, "type") != "tool-invocation":
        return {**part, "mime": part["mediaType"]} if "mediaType" in part else part
    call = mapping(part.get("toolInvocation"))
    beside = mapping(mapping(mapping(info.get("metadata")).get("tool")).get(text(call.get("toolCallId"))))
    done, failed = word(call, "state") == "result", beside.get("error") is True
    return {
        "type": "tool",
        "callID": call.get("toolCallId"),
        "tool": call.get("toolName"),
        "state": {
            "status": "running" if not done else "error" if failed else "completed",
            "input": call.get("args"),
            "output": call.get("result"),
            "error": beside.get("message") or call.get("result"),
            "metadata": beside,
            "time": beside.get("time"),
        },
    }
