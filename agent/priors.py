"""What is known elsewhere says which open hypotheses to try first, and nothing more.

A finding of another version, model or architecture is a prior: it counts the less, the further its subject is
from what is asked. It orders; it never decides, and no affordable test is left out for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory.architecture import ArchitectureError, parse_architecture
from memory.trust import LADDER, sign_of
from memory.vocabulary import Claim, Finding, FindingStatus, Row

ARCH = {"same": 1.0, "family": 0.6, "other": 0.2}
VERSION = 0.7
"""Factor for each package of another version."""
MODEL = 0.8
"""Factor for another model."""
LEAST = 0.05
"""What counts less is no prior."""


@dataclass(frozen=True)
class Prior:
    """``weight``, from -1 to 1: above 0 it went elsewhere, below it did not. ``because``: where, and what the
    two have in common."""

    weight: float
    because: str


def priors(
    subjects: Iterable[tuple[str, str, str]],
    known: Sequence[Finding],
    packages: Mapping[str, str],
    model: str | None = None,
    rows: Mapping[tuple[str, str], Row] | None = None,
) -> dict[tuple[str, str, str], Prior]:
    """Component, backend, architecture → its strongest prior, where it has one.

    ``packages``: what is looked at now; ``rows``: what its source says, by component and backend.
    """
    found: dict[tuple[str, str, str], Prior] = {}
    for subject in subjects:
        component, backend, arch = subject
        row = (rows or {}).get((component, backend))
        for finding in known:
            prior = _prior(finding, component, backend, arch, packages, model, row)
            if prior is not None and abs(prior.weight) > abs(found.get(subject, _NONE).weight):
                found[subject] = prior
    return found


_NONE = Prior(0.0, "")


def _prior(
    finding: Finding,
    component: str,
    backend: str,
    arch: str,
    packages: Mapping[str, str],
    model: str | None,
    row: Row | None,
) -> Prior | None:
    claim = finding.claim
    shared = _shared(claim, row)
    if finding.status is not FindingStatus.CURRENT or claim.component != component:
        return None
    if claim.backend != backend and not shared:
        return None
    sign = sign_of(claim.model_dump(mode="json"))
    near = _near(claim.arch, arch)
    versions = [name for name, version in claim.packages.items() if packages.get(name, version) != version]
    weight = sign * ARCH[near] * VERSION ** len(versions) * (LADDER.index(claim.level) + 1) / len(LADDER)
    others = claim.scope.model if claim.scope is not None else None
    if others is not None and model is not None and others.lower() != model.lower():
        weight *= MODEL
    if abs(weight) < LEAST:
        return None
    went = claim.outcome or claim.verdict
    where = " ".join(f"{name} {version}" for name, version in claim.packages.items()) or "another version"
    common = shared or ("the same backend" if near == "same" else f"the same backend on {claim.arch}")
    said = f"{str(went).replace('_', ' ')} with {where} ({claim.level}, {finding.id[:12]})"
    return Prior(weight, f"{said}: {common}")


def _near(one: str, other: str) -> str:
    if one == other:
        return "same"
    try:
        same = parse_architecture(one).base.major == parse_architecture(other).base.major
    except ArchitectureError:
        return "other"
    return "family" if same else "other"


def _shared(claim: Claim, row: Row | None) -> str | None:
    """A line that both rest on: the same gate, in the same words."""
    if row is None:
        return None
    lines = {item.sha256: f"the same gate, {item.file}:{item.line}" for item in row.evidence[:1]}
    return next((lines[item.sha256] for item in claim.source_evidence[:1] if item.sha256 in lines), None)
