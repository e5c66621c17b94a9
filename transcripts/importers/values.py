"""What several formats have in common: blocks of content, times, exit codes in text, command lines."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memory.clock import iso

CLEARED = "[Old tool result content cleared]"
"""What a model sees of a result that was pruned."""

_EXIT = re.compile(r"\A\s*(?:Exit code:?|exit_code:?|Process exited with code) ?(-?\d+)\b")
_HEADER = 400
"""Characters in which a header with an exit code stands."""
_SHELLS = {"bash", "sh", "zsh", "dash", "ksh"}


def mapping(value: Any) -> dict[str, Any]:
    """A JSON object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Text as it is, nothing as empty; any other JSON as it is written."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def word(value: Mapping[str, Any], key: str) -> str:
    """What stands under a key that decides between cases; empty where it is no text."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def name(value: Any) -> str | None:
    """A non-empty text, or None."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        return 0
    return int(value)


def moment(value: Any) -> str | None:
    """A time (ISO 8601, or seconds or milliseconds since 1970) in the one way that moments are written
    here."""
    try:
        if isinstance(value, str) and value:
            at = datetime.fromisoformat(value)
            return iso(at if at.tzinfo else at.replace(tzinfo=UTC))
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return iso(datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None


def spoken(content: Any) -> tuple[str, list[dict[str, Any]]]:
    """The text of a message's content (a string, or blocks), and its attachments: mime, name, bytes."""
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    attached: list[dict[str, Any]] = []
    for block in items(content) if not isinstance(content, dict) else [content]:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            if isinstance(block.get("text"), str):
                texts.append(block["text"])
            elif isinstance(block.get("refusal"), str):
                texts.append(block["refusal"])
            elif (found := attachment(block)) is not None:
                attached.append(found)
            elif word(block, "type") not in {"thinking", "redacted_thinking", "reasoning"} and block:
                texts.append(text(block))
    return "\n".join(texts), attached


def attachment(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """A block that holds or names a file: what kind and how much, not its content."""
    source = mapping(block.get("source"))
    image = block.get("image_url")
    url = (
        block.get("url") or block.get("file_data") or (image.get("url") if isinstance(image, dict) else image)
    )
    data = source.get("data") or block.get("data")
    kind = str(block.get("type", ""))
    if (
        not isinstance(url, str)
        and not isinstance(data, str)
        and kind not in {"image", "input_image", "document"}
    ):
        return None
    mime = source.get("media_type") or block.get("mime") or block.get("mimeType")
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.partition(",")
        mime = mime or head[5:].split(";")[0]
        url = None
    found = {"mime": mime, "name": block.get("filename") or block.get("name") or url}
    size = len(data) * 3 // 4 if isinstance(data, str) else None
    return {key: value for key, value in {**found, "bytes": size}.items() if value is not None} or {
        "mime": kind
    }


def arguments(given: Any) -> tuple[Any, str | None]:
    """What a tool was given: as JSON where it is, and as raw text where it is not."""
    if not isinstance(given, str):
        return given, None
    try:
        return json.loads(given), None
    except (ValueError, RecursionError):
        return None, given


def command_of(given: Any) -> str | None:
    """The command line in what a tool was given, None where there is none."""
    found = mapping(given)
    line = found.get("command", found.get("cmd"))
    if isinstance(line, str):
        return line
    if isinstance(line, list) and line and all(isinstance(word, str) for word in line):
        if (
            len(line) == 3
            and line[0].rpartition("/")[2] in _SHELLS
            and line[1].startswith("-")
            and "c" in line[1]
        ):
            return str(line[2])
        return shlex.join(line)
    return None


def folder_of(given: Any) -> str | None:
    """The folder that a tool was to work in, where it was said."""
    found = mapping(given)
    return name(found.get("workdir")) or name(found.get("cwd")) or name(found.get("working_directory"))


def exit_code(output: str) -> int | None:
    """The exit code that an output begins with: ``Exit code 1``. Further on it may be anybody's."""
    found = _EXIT.match(output[:_HEADER])
    return int(found[1]) if found else None
