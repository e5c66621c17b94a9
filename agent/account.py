"""The account that a model gave at the end of an investigation: its own words, drawn as what they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.text import safe_block

if TYPE_CHECKING:
    from agent.layout import Line

_LAST = 8
"""Events at the end of a transcript among which it stands."""


def account_of(path: Path) -> str | None:
    """The account in the transcript at ``path``; None where no model concluded it."""
    from transcripts.reader import tail_raw

    for event in reversed(tail_raw(path, _LAST)):
        data = event.get("data", {})
        if data.get("kind") == "called" and data.get("tool") == "conclude":
            return _text(data.get("input", {}).get("account"))
        if data.get("kind") == "said" and (data.get("message") or {}).get("role") == "assistant":
            return _text(data["message"].get("content"))
    return None


def account_lines(path: Path, width: int) -> list[Line]:
    """The account as lines of at most ``width`` columns, under a heading; none where there is none."""
    import textwrap

    account = account_of(path)
    if account is None:
        return []
    wrapped = [
        line
        for paragraph in safe_block(account).split("\n")
        for line in textwrap.wrap(paragraph, width, break_long_words=True) or [""]
    ]
    return [
        [("", "")],
        [("The model's own account (its figures were looked up, its words were not):", "bold")],
    ] + [[(line, "")] for line in wrapped]


def _text(value: Any) -> str | None:
    return value.strip() if isinstance(value, str) and value.strip() else None
