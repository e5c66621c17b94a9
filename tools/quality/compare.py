"""Two answers to one prompt: the same, apart by what batching does to rounding, or by more.

A server computes a prompt with other kernels and in another order when it is busy, so logprobs differ a
little, and where two tokens lie that close together the text takes another turn. What matters is by how much
the tokens' logprobs moved, up to the first token that differs: until there both answers had the same context.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tools.quality.answer import Answer, Token

UNCERTAIN = -0.05
"""Logprob above which a token is so sure that rounding does not show in it."""
TIE, SHIFT = 0.75, 1.0
"""Nats that two tokens may move against each other, and one by itself, on a server that rounds well."""
TIE_MOST, SHIFT_MOST = 2.0, 3.0
"""The same for one whose numbers move a lot all the time."""
TIE_TIMES, SHIFT_TIMES = 12.0, 15.0
"""Of the usual movement: what is further out is not of its kind."""
LONG = 8
"""Tokens from which an answer is long enough to be somebody else's."""
SAME, SAME_TIMES = 1e-3, 8.0
"""Nats that two logprobs may be apart and count as one number, at least, and of the usual movement."""


@dataclass(frozen=True)
class Difference:
    """``position``: the first token that differs; ``swing``: how far the two tokens moved against each other
    there, in nats, at least; ``moved``: by how much the logprob of each token before did."""

    position: int | None
    swing: float | None
    moved: tuple[float, ...]
    known: bool
    """Whether logprobs tell anything."""

    @property
    def same(self) -> bool:
        return self.position is None

    @property
    def shift(self) -> float:
        return max(self.moved, default=0.0)


@dataclass(frozen=True)
class Tolerance:
    """Nats. ``usual``: the median movement of tokens that are not sure."""

    tie: float = TIE
    shift: float = SHIFT
    usual: float = 0.0

    def allows(self, difference: Difference) -> bool:
        return difference.shift <= self.shift and (difference.swing or 0.0) <= self.tie


def difference(alone: Answer, other: Answer) -> Difference:
    """How ``other`` differs from the answer that was given ``alone``. Both have come."""
    if not (alone.tokens and other.tokens):
        return Difference(None if alone.text == other.text else 0, None, (), False)
    moved: list[float] = []
    for place, (mine, theirs) in enumerate(zip(alone.tokens, other.tokens, strict=False)):
        if mine.text != theirs.text:
            return Difference(place, _swing(mine, theirs), tuple(moved), True)
        if mine.logprob is not None and theirs.logprob is not None:
            moved.append(abs(mine.logprob - theirs.logprob))
    ended = len(alone.tokens) != len(other.tokens)
    return Difference(
        min(len(alone.tokens), len(other.tokens)) if ended else None, None, tuple(moved), not ended
    )


def _swing(mine: Token, theirs: Token) -> float | None:
    """How far the two chosen tokens moved against each other: what either preferred its own by, together.

    A token that is not among the best is less likely than the last of them.
    """
    if mine.logprob is None or theirs.logprob is None or not (mine.best and theirs.best):
        return None
    here = mine.logprob - mine.best.get(theirs.text, min(mine.best.values()))
    there = theirs.logprob - theirs.best.get(mine.text, min(theirs.best.values()))
    return max(here, 0.0) + max(there, 0.0)


def tolerance(alone: Sequence[Answer], differences: Iterable[tuple[int, Difference]]) -> Tolerance:
    """What may differ on this server: by what usually does. ``differences``: number of the prompt, and how
    its answer differed; what is wrong with less than half of the answers does not reach the median."""
    usual = [
        moved
        for number, one in differences
        for moved, token in zip(one.moved, alone[number].tokens, strict=False)
        if token.logprob is not None and token.logprob < UNCERTAIN
    ]
    scale = statistics.median(usual) if usual else 0.0
    return Tolerance(
        min(max(TIE, TIE_TIMES * scale), TIE_MOST), min(max(SHIFT, SHIFT_TIMES * scale), SHIFT_MOST), scale
    )


def alike(one: Answer, other: Answer, usual: float) -> bool:
    """Whether two answers are one, token by token, for as long as both go on: the same logprobs too, up to
    what rounding moves them by (``usual``, the median)."""
    if min(len(one.tokens), len(other.tokens)) < LONG:
        return False
    near = max(SAME, SAME_TIMES * usual)
    return all(
        a.text == b.text
        and a.logprob is not None
        and b.logprob is not None
        and abs(a.logprob - b.logprob) <= near
        for a, b in zip(one.tokens, other.tokens, strict=False)
    )


def likelihood(tokens: Sequence[Token]) -> float | None:
    """The mean logprob of the chosen tokens, in nats."""
    known = [one.logprob for one in tokens if one.logprob is not None]
    return statistics.fmean(known) if known else None
