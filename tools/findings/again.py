"""Evidence looked up again where it says it stands, finding by finding, as when it was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.home import Home
from memory.trust import IMPORTED
from memory.vocabulary import Claim, Level
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.findings.admit import Door
from tools.findings.capsule import Capsules
from tools.findings.share import finding_of

STANDS, WRONG, NOT_HERE = "stands", "wrong", "not here"


@dataclass(frozen=True)
class Again:
    """``found``: ``stands``, ``wrong``, or ``not here`` (what it cites is not at hand); ``costs``: what it
    takes to run once more what ran."""

    finding: str
    found: str
    because: str | None = None
    costs: str | None = None


def check_again(
    home: Home, rows: Sequence[Mapping[str, Any]], context: Any, given: tuple[Environment, ...] = ()
) -> Iterator[Again]:
    """Check each of ``rows``: cited lines in ``given`` and the home's environments, events in transcripts."""
    door = Door(home, given)
    readable: list[tuple[Mapping[str, Any], Any]] = []
    for row in rows:
        try:
            readable.append((row, finding_of(row)))
        except ValueError:
            yield Again(row["id"], WRONG, "its claim is none: agent findings rebuild")
    seen = [(row["transcript"], row["event"]) for row in rows if row.get("origin") == IMPORTED]
    capsules = Capsules(home, seen, [finding.claim for _, finding in readable])
    for _, finding in readable:
        costs = _costs(finding.claim)
        try:
            door.check_id(finding)
            lacking = door.lacking(finding, capsules.of(finding))
        except ToolError as error:
            yield Again(finding.id, WRONG, str(error), costs)
            continue
        yield Again(finding.id, NOT_HERE if lacking else STANDS, lacking, costs)


def _costs(claim: Claim) -> str | None:
    if claim.level in {Level.REPORT, Level.STATIC}:
        return None
    what = {"compile": "a compiler", "probe": "one GPU for seconds"}.get(
        claim.level.value, "a server, minutes"
    )
    return f"{claim.component} {claim.backend} on {claim.arch}: a {claim.level.value} ({what})"
