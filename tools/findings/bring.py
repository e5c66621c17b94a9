"""Findings of others brought into a home: each through the door, all that pass as one transcript.

The transcript is there whole or not at all, and everything that is known of these findings stands in it: the
database is folded from it as from any other. Bringing the same again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from memory.clock import Clock, Ids
from memory.home import Home
from memory.vocabulary import Capsule, Finding
from tools.errors import ToolError
from tools.findings.admit import Admitted, Door
from transcripts.events import IMPORT, Body, Concluded, Found, Noted, Opened
from transcripts.log import Log

Tell = Callable[[str], None]
_REFUSALS = 1000
"""Refusals that are named."""


@dataclass
class Brought:
    """``new``: ids that were not known, as they are kept; ``known``: how many were; ``reports``: why some are
    no more than reports, by id; ``refused``: id and why. ``transcript``: None where there was nothing new."""

    new: list[str] = field(default_factory=list)
    known: int = 0
    reports: dict[str, str] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)
    transcript: str | None = None


def bring(
    home: Home,
    given: Iterable[tuple[Finding, Capsule | None] | tuple[str, str]],
    known: set[str],
    door: Door,
    *,
    source: dict[str, Any],
    program: str,
    clock: Clock,
    ids: Ids,
    tell: Tell = lambda _: None,
) -> Brought:
    """Let in what holds of ``given``, whose ids are not ``known``. A pair of two texts is what could not even
    be read: its name, and why. ``source`` says in the transcript where they are from."""
    done = Brought()
    admitted: list[tuple[Admitted, Capsule | None]] = []
    seen = set(known)
    for number, one in enumerate(given, start=1):
        if number % 10_000 == 0:
            tell(f"{number} findings looked at, {len(admitted)} new")
        finding, capsule = one
        if isinstance(finding, str) or isinstance(capsule, str):
            done.refused.append((str(finding), str(capsule)))
        elif finding.id in seen:
            done.known += 1
        else:
            _let_in(door, finding, capsule, seen, done, admitted)
    if admitted:
        done.transcript = ids.investigation(clock)
        opened = Opened(
            investigation=done.transcript,
            program=program,
            driver=IMPORT,
            question=f"findings from {source.get('file', 'elsewhere')}",
            seed=0,
            options=source,
        )
        path = home.transcripts / f"{done.transcript}.jsonl"
        bodies = _bodies(done, admitted)
        Log.create(path, opened, clock, ((clock.now(), body) for body in bodies)).close()
    return done


def _let_in(
    door: Door,
    finding: Finding,
    capsule: Capsule | None,
    seen: set[str],
    done: Brought,
    admitted: list[tuple[Admitted, Capsule | None]],
) -> None:
    try:
        one = door.admit(finding, capsule)
    except ToolError as error:
        done.refused.append((finding.id, str(error)))
        return
    if one.finding.id in seen:
        done.known += 1
        return
    seen |= {finding.id, one.finding.id}
    done.new.append(one.finding.id)
    if one.because is not None:
        done.reports[one.finding.id] = one.because
    admitted.append((one, capsule))


def _bodies(done: Brought, admitted: list[tuple[Admitted, Capsule | None]]) -> Iterator[Body]:
    assert done.transcript is not None
    for event, (one, capsule) in enumerate(admitted, start=1):
        here = {"transcript": done.transcript, "event": event}
        yield Found(finding=one.finding.model_copy(update=here), capsule=capsule)
    for name, why in done.refused[:_REFUSALS]:
        yield Noted(text=f"refused {name}: {why}")
    counted = f"{len(done.new)} new, {done.known} known, {len(done.refused)} refused"
    yield Concluded(exit_reason="answered", exit_code=0, summary=counted)
