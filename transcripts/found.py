"""Findings and changes as results hold them: what a tool has checked becomes an event of its own."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from memory.vocabulary import Finding
from transcripts.events import Concluded, HypothesisChanged


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


def change_in(output: Any) -> HypothesisChanged | Concluded | None:
    """The change of a hypothesis, or the end, that a tool's output (as JSON) has under ``change``."""
    document = output.get("change") if isinstance(output, dict) else None
    if not isinstance(document, dict):
        return None
    try:
        if document.get("kind") == "concluded":
            return Concluded.model_validate(document)
        return HypothesisChanged.model_validate(document)
    except ValidationError:
        return None
