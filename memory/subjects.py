"""What a claim is about, what it says of that, and who says so, each as a hash. Claims are taken as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.canonical import sha256_of

_ABOUT = ("component", "backend", "arch", "engine", "packages", "scenario")
_SAID = ("verdict", "outcome", "because", "runs_instead", "conditions")


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
