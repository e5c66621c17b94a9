"""What a claim is as rows: what it is about, what it says, its evidence, numbers and words. Pure functions.

A claim is taken as its JSON form where only that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.canonical import canonical, sha256_of
from memory.sentences import render
from memory.tables import EvidenceRow, table_of
from memory.vocabulary import Claim, Finding

_ABOUT = ("component", "backend", "arch", "engine", "packages", "scenario")
_SAID = ("verdict", "outcome", "because", "runs_instead", "conditions")
_PLAIN = ("component", "backend", "arch", "engine", "level", "verdict", "outcome", "because", "runs_instead")
_SCOPED = ("model", "quantisation", "gpu", "gpu_count", "driver")


def subject_of(claim: Mapping[str, Any]) -> str:
    """Hash of what a claim is about, whatever its level. On which GPU of the architecture it ran, with which
    driver, is no part of that: what was read knows of neither."""
    about = {key: claim[key] for key in _ABOUT}
    given = claim.get("scope") or {}
    scope = {key: value for key, value in given.items() if value and key not in ("gpu", "driver")}
    if scope.get("gpu_count") == 1:
        del scope["gpu_count"]
    return sha256_of({**about, "scope": scope or None})[:16]


def says_of(claim: Mapping[str, Any]) -> str:
    """Hash of what a claim says of its subject."""
    return sha256_of({key: claim[key] for key in _SAID})[:16]


def account_of(claim: Mapping[str, Any]) -> str:
    """Whose account a claim is: two people who report the same do not stand in for each other."""
    report = claim.get("report")
    return str(report["url"] or report["date"] or "") if report else ""


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
    empty = dict.fromkeys(table_of(EvidenceRow).c.keys())
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
