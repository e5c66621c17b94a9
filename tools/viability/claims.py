"""What is only said of a backend and an architecture: in comments, documentation and messages, and by tests.

Claims inform and decide nothing: a gate that is enforced stands whatever is said beside it. Where the two
differ, that is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from memory.architecture import Architecture, known_architectures
from memory.vocabulary import Because, Contract, Evidence, Verdict
from tools.viability.cell import AUTOMATIC, Cell, Judgement

if TYPE_CHECKING:
    from tools.viability.analysis import Analysis

MOST = 6
"""Claims that are given of one cell, those that differ from the verdict first."""

NUMBER = re.compile(r"\bsm[ _-]?(\d{1,2})(\d|x)([af]?)(\+?)(?!\w|\.\d)|(?<=[/,])(\d{2,3})\b", re.IGNORECASE)
"""``SM100``, ``sm_90a``, ``SM12x``, ``SM90+``; in ``SM100/103`` the second, too."""

UPWARDS = re.compile(r"\b(and|or) (above|later|newer|higher|up)\b", re.IGNORECASE)
AGAINST = re.compile(
    r"\bnot\b|n't\b|\bun(supported|available)\b|\bskip(ped|s)? (on|for)\b|\bno longer\b", re.IGNORECASE
)
ALONE = re.compile(r"\bonly\b|\brequires?\b|\bneeds?\b", re.IGNORECASE)
ASSERTS = re.compile(r"support|\bfor\b|\bon\b|\buse\b|\boptimal\b", re.IGNORECASE)
TEST = re.compile(r"(^|/)tests?/|(^|/)test_[^/]*\.py$")


class Claim(Contract):
    """A line that says for which architectures a backend is made."""

    channel: Literal["text", "test"]
    says: Literal["for", "against"]
    """For the cell's architecture, or against it."""
    differs: bool
    """It says something else than the gates do."""
    evidence: Evidence


def claims(analysis: Analysis, cell: Cell, judged: Judgement) -> tuple[Claim, ...]:
    """Lines of the engine that name the backend and an architecture, those that differ first."""
    if cell.backend in AUTOMATIC:
        return ()
    found = [
        Claim(
            channel="test" if TEST.search(file) else "text",
            says=says,
            differs=_differs(says, judged),
            evidence=analysis.tree.evidence(file, line, idiom="claim"),
        )
        for file, line, says in _lines(analysis, cell)
    ]
    found.sort(key=lambda one: not one.differs)
    return tuple(found[:MOST])


def _lines(analysis: Analysis, cell: Cell) -> Iterator[tuple[str, int, Literal["for", "against"]]]:
    """``(file, line, what it says)``; of one text that stands in several places, the first."""
    words = [re.escape(word) for word in re.split(r"[_\-\s]+", cell.backend) if word]
    name = re.compile(r"(?<![\w-])" + r"[_\-\s]?".join(words) + r"(?![\w-])", re.IGNORECASE)
    raw = re.compile(name.pattern.encode(), re.IGNORECASE)
    here, seen = Architecture(*cell.arch), set[str]()
    for file, data in sorted(analysis.world.texts(analysis.profile.root).items()):
        if not raw.search(data):
            continue
        for number, line in enumerate(analysis.tree.lines(file), 1):
            text = line.strip()
            if text in seen or not name.search(text):
                continue
            said = what_is_said(text, here)
            if said is not None:
                seen.add(text)
                yield file, number, said


def what_is_said(text: str, here: Architecture) -> Literal["for", "against"] | None:
    """What a line says for an architecture; None where it names none, or only others without more."""
    named = named_in(text)
    if not named:
        return None
    if here in named:
        if AGAINST.search(text):
            return "against"
        return "for" if ALONE.search(text) or ASSERTS.search(text) else None
    return "against" if ALONE.search(text) and not AGAINST.search(text) else None


def named_in(text: str) -> frozenset[Architecture]:
    """The architectures that a text names: by number, else by the name of a generation."""
    known = known_architectures()
    found: set[Architecture] = set()
    numbers = list(NUMBER.finditer(text)) if re.search(r"\bsm[ _-]?\d", text, re.IGNORECASE) else []
    for match in numbers:
        if match[5]:
            found |= {one for one in known if str(one.number) == match[5]}
            continue
        major, minor = int(match[1]), match[2].lower()
        if minor == "x":
            found |= {one for one in known if one.major == major}
            continue
        first = Architecture(major, int(minor))
        later = match[4] or UPWARDS.match(text, match.end() + 1)
        found |= {one for one in known if one >= first} if later else {first}
    if numbers:
        return frozenset(found)
    names = {one.generation for one in known if one.generation}
    told = {name for name in names if re.search(rf"\b{re.escape(name)}\b", text)}
    return frozenset(one for one in known if one.generation in told)


def _differs(says: str, judged: Judgement) -> bool:
    verdict, because = judged.row.verdict, judged.row.because
    if says == "for":
        return verdict is Verdict.BLOCKED and because is Because.ARCHITECTURE
    return verdict is Verdict.NO_STATIC_OBSTACLE
