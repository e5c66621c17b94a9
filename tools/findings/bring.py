"""Findings of others brought into a home: each through the door, all that pass as one transcript.

The transcript is there whole or not at all, and everything that is known of these findings stands in it: the
database is folded from it as from any other. Bringing the same again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from memory.clock import Clock, Ids
from memory.home import Home
from memory.vocabulary import Capsule, Finding
from tools.errors import ToolError
from tools.findings.admit import Door
from tools.findings.share import Given
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
    given: Iterable[Given],
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
    name = ids.investigation(clock)
    opened = Opened(
        investigation=name,
        program=program,
        driver=IMPORT,
        question=f"findings from {source.get('file', 'elsewhere')}",
        seed=0,
        options=source,
    )
    # Looked at one by one as they are written, however many there are; the file has no name until all are.
    bodies = _bodies(done, name, given, set(known), door, tell)
    with suppress(_NothingNewError):
        path = home.transcripts / f"{name}.jsonl"
        Log.create(path, opened, clock, ((clock.now(), body) for body in bodies)).close()
        done.transcript = name
    return done


class _NothingNewError(Exception):
    """There is nothing to write a transcript of."""


def _bodies(
    done: Brought, name: str, given: Iterable[Given], seen: set[str], door: Door, tell: Tell
) -> Iterator[Body]:
    for number, one in enumerate(given, start=1):
        if number % 10_000 == 0:
            tell(f"{number} findings looked at, {len(done.new)} new")
        finding, capsule = one
        if isinstance(finding, str) or isinstance(capsule, str):
            done.refused.append((str(finding), str(capsule)))
        elif finding.id in seen:
            done.known += 1
        elif (admitted := _let_in(door, finding, capsule, seen, done)) is not None:
            here = {"transcript": name, "event": len(done.new)}
            yield Found(finding=admitted.model_copy(update=here), capsule=capsule)
    if not done.new:
        raise _NothingNewError
    for who, why in done.refused[:_REFUSALS]:
        yield Noted(text=f"refused {who}: {why}")
    counted = f"{len(done.new)} new, {done.known} known, {len(done.refused)} refused"
    yield Concluded(exit_reason="answered", exit_code=0, summary=counted)


def _let_in(
    door: Door, finding: Finding, capsule: Capsule | None, seen: set[str], done: Brought
) -> Finding | None:
    """The finding as it is kept; None where it is refused, or known as that."""
    try:
        one = door.admit(finding, capsule)
    except ToolError as error:
        done.refused.append((finding.id, str(error)))
        return None
    if one.finding.id in seen:
        done.known += 1
        return None
    seen |= {finding.id, one.finding.id}
    done.new.append(one.finding.id)
    if one.because is not None:
        done.reports[one.finding.id] = one.because
    return one.finding
