"""What a claim is as rows: a finding, its evidence, numbers and words. Pure functions.

A claim is taken as its JSON form where only that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.canonical import canonical
from memory.sentences import render
from memory.subjects import account_of, says_of, subject_of
from memory.vocabulary import Claim, Finding

_PLAIN = ("component", "backend", "arch", "engine", "level", "verdict", "outcome", "because", "runs_instead")
_OF_SOURCE = ("package", "version", "file", "line", "end_line", "idiom")
_OF_EVENT = ("transcript", "head", "event")
_SCOPED = ("model", "quantisation", "gpu", "gpu_count", "driver")


def finding_row(finding: Finding, document: Mapping[str, Any]) -> dict[str, Any]:
    """All columns but where and when it was recorded, and its origin."""
    scope = document.get("scope") or {}
    report = document.get("report") or {}
    return {
        "id": finding.id,
        "subject": subject_of(document),
        "says": says_of(document),
        "account": account_of(document),
        "packages": canonical(document["packages"]),
        "scenario": canonical(document["scenario"]),
        "sentence": render(finding.claim),
        "claim": canonical(document),
        **{key: document[key] for key in _PLAIN},
        **{key: scope.get(key) for key in _SCOPED},
        **{key: report.get(key) for key in ("url", "date")},
    }


def evidence_rows(finding: str, claim: Claim) -> list[dict[str, Any]]:
    empty = dict.fromkeys(_OF_SOURCE + _OF_EVENT)
    source = [{"kind": "source", **item.model_dump()} for item in claim.source_evidence]
    events = []
    for item in claim.event_evidence:
        fields = item.model_dump()
        events.append({"kind": "event", "text": fields.pop("excerpt"), **fields})
    return [
        {**empty, "finding": finding, "number": number, **fields}
        for number, fields in enumerate([*source, *events])
    ]


def measurement_rows(finding: str, claim: Claim) -> list[dict[str, Any]]:
    return [
        {"finding": finding, "number": number, **item.model_dump()}
        for number, item in enumerate(claim.measurements)
    ]


def words_of(claim: Mapping[str, Any]) -> str:
    """What is searched beside a finding's sentence: its settings, its evidence, and notes of a report."""
    settings = {**claim["scenario"], **(claim.get("scope") or {})}
    words = [f"{key}={value}" for key, value in sorted(settings.items()) if value]
    for item in claim["source_evidence"]:
        words += [item["file"], item["text"]]
    words += [item["excerpt"] for item in claim["event_evidence"]]
    if report := claim.get("report"):
        words += [report["url"] or "", report["note"]]
    return "\n".join(words)
