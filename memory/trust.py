"""Which findings stand: the rules by which one claim outranks, supersedes or contradicts another.

Claims about the same **subject** (component, backend, architecture, engine, versions, scenario, scope) are
compared. Those of one level and origin that say the same are one **position**; of a position the finding that
was seen last stands for it, the older ones are ``superseded``. Then, in this order:

1. Positions on one rung that say different things are ``contradicted``, all of them, until an experiment
   decides. Doing it again decides what was read: whoever is seen again after all others stands. For what ran
   it does so as well, except that no success undoes a failure of the same rung.
2. A higher rung outranks a lower one: what it disagrees with is ``superseded``, and where those below it
   contradict each other, it says who stands.
3. What came from another machine never outranks what ran here, and a report outranks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from memory.terms import FindingStatus, Level, Outcome, Verdict

OWN, IMPORTED = "own", "imported"
"""Where a finding is from: an investigation of this home, or another machine."""

LADDER = [level.value for level in Level]
_DECIDES_NOTHING = {Outcome.NOT_RUN, Outcome.ENVIRONMENT_SUSPECT}
_REFUSES = {Verdict.BLOCKED, Verdict.REROUTED}


class Seen(NamedTuple):
    """A sighting, in the order in which they count."""

    at: str
    transcript: str
    event: int


@dataclass(frozen=True)
class Position:
    """What is said of a subject on one level by one origin (``account``: by whom, of reports).

    ``sign``: 1 it goes, -1 it does not, 0 neither. ``latest``: the finding that stands for it; ``last``: when
    it was seen last; ``times``: how often it was seen.
    """

    level: str
    origin: str
    says: str
    account: str
    sign: int
    latest: str
    last: Seen
    times: int

    @property
    def strength(self) -> tuple[int, int]:
        rung = LADDER.index(self.level)
        if self.level == Level.REPORT:
            return 0, 0
        if self.level == Level.STATIC:
            return 1, int(self.origin == OWN)
        return (3 if self.origin == OWN else 2), rung


class Stands(NamedTuple):
    """What became of a position, and the finding that stands in its place, where one does."""

    status: FindingStatus
    instead: str | None = None


CURRENT = Stands(FindingStatus.CURRENT)


def sign_of(claim: Mapping[str, Any]) -> int:
    """Whether a claim (its JSON form) says that the backend goes (1), does not (-1), or neither (0)."""
    if claim["outcome"] is not None:
        outcome = Outcome(claim["outcome"])
        return 1 if outcome is Outcome.OK else 0 if outcome in _DECIDES_NOTHING else -1
    return -1 if claim["verdict"] in _REFUSES else 0


def standing(positions: Sequence[Position]) -> list[Stands]:
    """How each position on one subject stands."""
    found: list[Stands] = []
    rungs: dict[tuple[int, int], list[Position]] = {}
    for one in positions:
        rungs.setdefault(one.strength, []).append(one)
    decided: dict[tuple[int, int], Position | None] = {}
    """Rung → the position that stands there against others; None where they contradict each other."""
    for strength, rung in rungs.items():
        if len({one.says for one in rung}) > 1:
            decided[strength] = _done_again(rung)
    for one in positions:
        above = _above(one, rungs, decided)
        here = decided.get(one.strength, one)
        if above is not None and one.sign * above.sign < 0:
            found.append(Stands(FindingStatus.SUPERSEDED, above.latest))
        elif one.strength not in decided or (here is not None and here.says == one.says):
            found.append(CURRENT)
        elif here is not None:
            found.append(Stands(FindingStatus.CONTRADICTED, here.latest))
        elif above is not None and _tells_apart(rungs[one.strength], above):
            found.append(CURRENT)
        else:
            found.append(Stands(FindingStatus.CONTRADICTED))
    return found


def _done_again(rung: Sequence[Position]) -> Position | None:
    """The position of a rung that was seen again after all the others, if that decides."""
    last = max(rung, key=lambda one: one.last)
    same = [one for one in rung if one.says == last.says]
    others = [one for one in rung if one.says != last.says]
    own = last.origin == OWN and last.level != Level.REPORT
    again = sum(one.times for one in same) > 1 and last.last > max(one.last for one in others)
    lucky = last.level != Level.STATIC and last.sign > 0 and any(one.sign < 0 for one in others)
    return last if own and again and not lucky else None


def _above(
    one: Position,
    rungs: Mapping[tuple[int, int], Sequence[Position]],
    decided: Mapping[tuple[int, int], Position | None],
) -> Position | None:
    """The position on the highest rung above ``one`` that says whether it goes, undisputed."""
    for strength in sorted(rungs, reverse=True):
        if strength <= one.strength or strength == (0, 0):
            return None
        rung = rungs[strength]
        speaker = decided[strength] if strength in decided else max(rung, key=lambda each: each.last)
        if speaker is not None and speaker.sign:
            return speaker
    return None


def _tells_apart(rung: Sequence[Position], above: Position) -> bool:
    """Whether what stands above agrees with some of a rung and not with the others."""
    agree = {one.says for one in rung if one.sign * above.sign >= 0}
    return len(agree) == 1


def deciding(row: Mapping[str, Any]) -> list[str]:
    """What would decide between findings that contradict each other, cheapest first, for one of them (a row
    of ``v_findings``, its packages as a mapping)."""
    subject = f"{row['component']} {row['backend']}"
    packages = " ".join(f"-p {name}=={version}" for name, version in row["packages"].items())
    about = f"{subject} --arch {row['arch']} {packages}".strip()
    level = Level(row["level"])
    if level is Level.REPORT:
        return [f"reading the source: agent explain {about}"]
    passing = {Level.COMPILE, Level.IMPORTED}
    above = [one for one in Level if LADDER.index(one) > LADDER.index(level) and one not in passing]
    cell = (
        f"--component {row['component']} --backend {row['backend']} --arch {row['arch']} {packages}".strip()
    )
    again = [f"reading it again: agent findings verify {cell}"] if level is Level.STATIC else []
    if level is not Level.STATIC:
        again = [f"the same {level.value} again, which decides unless it is a success against a failure"]
    return again + [f"a {one.value} on {row['arch']}, which outranks both" for one in above[:1]]
