"""``record_finding``: a claim becomes a finding if its evidence holds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from memory.canonical import finding_id
from memory.vocabulary import Claim, Effect, Finding
from tools.base import ToolContext, tool
from tools.findings.check import check_claim

BY_DRIVER = "read by the driver"
"""The idiom of lines that a driver read itself, where no analyser followed them."""


class RecordFinding(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str = ""
    """Name or folder of the environment that was read, or in which it ran."""
    transcript: Annotated[str, Field(pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,200})?$")] = ""
    """The transcript that records the finding."""
    event: Annotated[int, Field(ge=0)] = 0
    """The event that records it."""
    claim: Claim


@tool(effect=Effect.READS, alone=True)
def record_finding(args: RecordFinding, context: ToolContext) -> Finding:
    """Check a claim's evidence where it stands, and make a finding of it; refuse what does not hold."""
    claim = check_claim(args.claim, context, environment=args.environment)
    return Finding(
        id=finding_id(claim.model_dump(mode="json")),
        claim=claim,
        transcript=args.transcript,
        event=args.event,
    )
