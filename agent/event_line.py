"""An event in one line, from plain JSON: what a person pages through. No pydantic here.

What stands in a log may be written by a later program, or by none: whatever is not as expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.text import shorten

WIDTH = 120
"""Columns, where there is no terminal that has its own."""


def event_line(event: dict[str, Any], width: int = WIDTH) -> str:
    """Number, time of day, kind, and what matters of it, in at most ``width`` columns."""
    data = _dict(event.get("data"))
    said = " ".join(part for part in _parts(data) if part)
    start = f"{event.get('seq')!s:>5}  {str(event.get('at'))[11:19]:8}  "
    return start + shorten(f"{data.get('kind', '?')!s:10} {said}", width - len(start))


def _parts(data: dict[str, Any]) -> Iterator[str]:
    match data.get("kind"):
        case "opened":
            yield f"{data.get('investigation')} by {data.get('driver')}: {data.get('question')}"
        case "resumed":
            yield f"by {data.get('driver')}"
            yield _named("not returned", data.get("open"))
            yield _named("to be made again", data.get("again"))
        case "understood":
            target = _dict(data.get("target"))
            yield from (str(target.get(key) or "") for key in ("model", "quantisation", "arch", "engine"))
            yield ", ".join(f"{name} {version}" for name, version in _dict(data.get("packages")).items())
        case "hypothesis":
            yield f"{data.get('component')} {data.get('backend')}: {data.get('state')}, {data.get('because')}"
        case "called":
            yield f"{data.get('call')} {data.get('tool')}"
            given = _dict(data.get("input")).items()
            yield ", ".join(f"{key}={value}" for key, value in given if isinstance(value, str))
        case "returned":
            yield f"{data.get('call')} {data.get('status')}"
            yield str(data.get("error") or "")
            yield _whole(data)
        case "found":
            finding = _dict(data.get("finding"))
            claim = _dict(finding.get("claim"))
            yield str(finding.get("id", ""))
            yield f"{claim.get('component')} {claim.get('backend')}:"
            yield str(claim.get("verdict") or claim.get("outcome"))
        case "said":
            message = _dict(data.get("message"))
            yield str(message.get("role", ""))
            yield _text(message.get("content"))
            yield _named("calls", [_dict(call.get("function")).get("name") for call in _calls(message)])
            yield _whole(data)
        case "asked":
            yield f"{data.get('request')} {data.get('model')}"
        case "answered":
            yield f"{data.get('request')} {data.get('status')}"
            yield str(data.get("error") or "")
            yield ", ".join(f"{name} {number}" for name, number in _dict(data.get("usage")).items())
        case "steered":
            about = "/".join(str(data[key]) for key in ("component", "backend") if data.get(key))
            yield f"a person asked: {data.get('asks')} {about}"
        case "noted":
            yield str(data.get("text", ""))
        case "concluded":
            yield f"{data.get('exit_reason')} ({data.get('exit_code')}): {data.get('summary')}"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    return [_dict(call) for call in calls] if isinstance(calls, list) else []


def _text(content: Any) -> str:
    """The text of a message, which may stand in parts of several kinds."""
    if isinstance(content, list):
        return " ".join(_text(_dict(part).get("text")) for part in content)
    return content if isinstance(content, str) else ""


def _named(what: str, names: Any) -> str:
    return f"({what}: {', '.join(str(name) for name in names)})" if isinstance(names, list) and names else ""


def _whole(data: dict[str, Any]) -> str:
    """Where the rest of a thing is that was too long for the log."""
    kept = data.get("artifact")
    return f"(cut, the whole is artifact {str(kept)[:12]})" if kept else ""
