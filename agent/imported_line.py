"""An event of an imported session in one line. It was written by others: all of it is made safe."""

from __future__ import annotations

from typing import Any

from agent.event_line import WIDTH
from agent.text import shorten

_KEPT = 2000
"""Characters of a text that are looked at: the rest is not on the line anyway."""


def imported_line(event: dict[str, Any], width: int = WIDTH) -> str:
    """Number, time of day, kind, and what was said, called or returned, in at most ``width`` columns."""
    at = str(event.get("at") or event.get("ended") or "")[11:19]
    start = f"{event.get('seq')!s:>6}  {at:8}  "
    left = "" if event.get("live", True) else "(left) "
    return start + shorten(f"{_kind(event):10} {left}{_said(event)[:_KEPT]}", width - len(start))


def _kind(event: dict[str, Any]) -> str:
    kind = str(event.get("kind"))
    return str(event.get("role")) if kind == "message" else kind


def _said(event: dict[str, Any]) -> str:
    match event.get("kind"):
        case "message":
            notes = f"[{', '.join(event['notes'])}] " if event.get("notes") else ""
            failed = f"failed: {event['error']} " if event.get("error") else ""
            return f"{notes}{failed}{event.get('text') or event.get('thinking') or ''}"
        case "call":
            given = event.get("command") or event.get("raw_input") or _given(event.get("input"))
            return f"{event.get('tool')} {given}"
        case "result":
            code = f" {event['exit_code']}" if event.get("exit_code") else ""
            asked = f"of {event['call']}" if "call" in event else "of no call"
            return f"{asked} {event.get('status')}{code}: {event.get('returned') or event.get('shown') or ''}"
        case "segment":
            return f"{event.get('number')} begins: {event.get('why')} {event.get('summary') or ''}"
        case "amended":
            what = "cleared for the model" if "shown" in event.get("set", {}) else "no longer part of it"
            return f"{len(event.get('events', []))} events {what}: {event.get('why')}"
        case "session":
            counts = (f"{event.get(key)} {key}" for key in ("messages", "tool_calls", "failures", "segments"))
            return f"{event.get('format')} {event.get('id')}: {', '.join(counts).replace('_', ' ')}"
    return str(event.get("type") or "")


def _given(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value or "")
    return ", ".join(f"{key}={one}" for key, one in value.items() if isinstance(one, str | int | float))
