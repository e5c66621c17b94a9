"""Findings as results hold them: what a tool has checked becomes an event of its own."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from memory.vocabulary import Finding


def finding_in(output: Any) -> Finding | None:
    """The finding that a tool's output (as JSON) is, or has under ``finding``; None where there is none."""
    if not isinstance(output, dict):
        return None
    document = output.get("finding") or output
    if not isinstance(document, dict) or not {"id", "claim"} <= document.keys():
        return None
    try:
        return Finding.model_validate(document)
    except ValidationError:
        return None
