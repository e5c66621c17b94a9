"""What this investigation found against what was known of the same subject, and what would decide."""

from __future__ import annotations

from collections.abc import Iterator

from agent.board import Board
from memory.subjects import says_of, subject_of
from memory.trust import deciding
from memory.vocabulary import Finding, FindingStatus


def disputed(board: Board, known: list[Finding]) -> Iterator[str]:
    """A sentence for each finding of this investigation that contradicts one of ``known`` on its rung."""
    before = [one for one in known if one.status is FindingStatus.CURRENT]
    if not before:
        return
    for called, _ in board.results("record_finding"):
        output = board.output(called.call)
        if not isinstance(output, dict):
            continue
        mine = Finding.model_validate(output).claim
        document = mine.model_dump(mode="json")
        for other in before:
            theirs = other.claim.model_dump(mode="json")
            if other.claim.level is not mine.level or subject_of(theirs) != subject_of(document):
                continue
            if says_of(theirs) != says_of(document):
                said = [claim["outcome"] or claim["verdict"] for claim in (document, theirs)]
                steps = "; ".join(deciding(document))
                yield (
                    f"{mine.component} {mine.backend} on {mine.arch} is {said[0]} here and {said[1]} "
                    f"in finding {other.id[:12]}: both are contradicted until one of these decides: {steps}"
                )
