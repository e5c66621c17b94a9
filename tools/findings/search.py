"""``search_findings``: what earlier investigations have found."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memory.database import StoreError, damage
from memory.views import Views
from memory.vocabulary import Claim, Effect, Finding, FindingStatus
from tools.base import ToolContext, ToolError, tool

MOST_NEARBY = 200
"""Findings of a component that are looked through for those on other architectures."""


class SearchFindings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = ""
    """Words that must all stand in the finding's sentence, scenario, evidence or its files; each is found by
    its beginning."""
    component: str | None = None
    backend: str | None = None
    arch: str | None = None
    engine: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    """Distribution name → version that the finding must be about; an empty version means any."""
    statuses: tuple[FindingStatus, ...] = (FindingStatus.CURRENT,)
    """Statuses to list; none means all."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


class FoundFindings(BaseModel):
    findings: tuple[Finding, ...]
    """Newest first, at most ``limit``."""
    sentences: dict[str, str]
    """Id → the finding as a sentence."""
    more: bool
    """There are more than were asked for."""
    nearby: tuple[Finding, ...] = Field(default=(), exclude_if=lambda found: not found)
    """Where a component on one architecture was asked for: the newest that stand on others."""


@tool(effect=Effect.READS, alone=True)
def search_findings(args: SearchFindings, context: ToolContext) -> FoundFindings:
    """Look up what is known already: findings by words, component, backend, arch, engine or package."""
    try:
        rows = Views(context.home).findings(
            text=args.text,
            statuses=[status.value for status in args.statuses],
            packages=args.packages,
            limit=args.limit + 1,
            component=args.component,
            backend=args.backend,
            arch=args.arch,
            engine=args.engine,
        )
        shown = rows[: args.limit]
        others = _nearby(args, context) if args.component and args.arch and not args.text else []
        findings = tuple(_finding(row) for row in shown)
        nearby = tuple(_finding(row) for row in others)
    except StoreError as error:
        raise ToolError(str(error)) from error
    except ValueError as error:  # pydantic's too
        raise ToolError(str(damage(context.home.findings_db, "a claim in it is none"))) from error
    return FoundFindings(
        findings=findings,
        sentences={row["id"]: row["sentence"] for row in shown},
        more=len(rows) > len(shown),
        nearby=nearby,
    )


def _nearby(args: SearchFindings, context: ToolContext) -> list[Any]:
    found = Views(context.home).findings(component=args.component, engine=args.engine, limit=MOST_NEARBY)
    return [row for row in found if row["arch"] != args.arch]


def _finding(row: Any) -> Finding:
    return Finding(
        id=row["id"],
        claim=Claim.model_validate(json.loads(row["claim"])),
        status=FindingStatus(row["status"]),
        transcript=row["transcript"],
        event=row["event"],
    )
