"""Two servers, the same questions: McNemar's exact test, and what it could have seen."""

from __future__ import annotations

from math import comb


def mcnemar(lost: int, won: int) -> float:
    """Two-sided exact p of ``lost`` against ``won`` discordant pairs, if either were as likely."""
    number = lost + won
    if number == 0:
        return 1.0
    tail = sum(comb(number, k) for k in range(min(lost, won) + 1))
    return float(min(1.0, 2 * tail / 2**number))


def least_loss(questions: int, noise: int, alpha: float, power: float = 0.8) -> float:
    """The smallest share of questions lost that a run of ``questions`` finds with ``power``, where ``noise``
    others are won by chance. 1.0 where even all would not be enough."""
    for lost in range(1, questions + 1):
        if _power(questions, lost / questions, noise, alpha) >= power:
            return lost / questions
    return 1.0


def _power(questions: int, share: float, won: int, alpha: float) -> float:
    """How likely so many are lost that the test finds it, each question being lost with ``share``."""
    needed = next((lost for lost in range(won + 1, questions + 1) if mcnemar(lost, won) < alpha), None)
    if needed is None:
        return 0.0
    below = sum(comb(questions, k) * share**k * (1 - share) ** (questions - k) for k in range(needed))
    return 1.0 - below
