"""What can be wrong with one answer, by itself and beside the answer that was given alone."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from memory.terms import Outcome
from tools.logs import read_log
from tools.quality.answer import Answer
from tools.quality.compare import LONG, Difference, Tolerance, alike, likelihood

FLAT = -4.0
"""Mean logprob of greedily chosen tokens below which a model knows nothing: a trained one is above -2.5."""
UNSURE = 2.5
"""Nats by which the rest of an answer may be less likely than the least likely one that was given alone."""
REPLACED = 0.3
"""Share of characters that are none."""
REPEATED = 16
"""Times that one token stands in a row."""
NO_CHARACTERS = "characters that are none"
SHOWN = 160

Kind = Literal[
    "nan", "failed", "hung", "crashed", "empty", "garbage", "anothers", "unlike", "moved", "unsure"
]
CERTAIN: frozenset[Kind] = frozenset({"nan", "failed", "hung", "crashed", "anothers", "garbage"})
"""What a server that is well never does, not once."""


@dataclass(frozen=True)
class Fault:
    """``prompt``: its number among those that were asked; ``size``: nats, where it has a size."""

    kind: Kind
    prompt: int
    why: str
    got: str
    size: float = 0.0


def ended_badly(number: int, answer: Answer) -> Fault | None:
    """What a request that was not answered is a sign of; of one that was refused, nothing."""
    shown = shown_text(answer.text or answer.error)
    if answer.ended == "timed_out":
        return Fault("hung", number, answer.error, shown)
    if answer.ended in ("unreachable", "broken"):
        return Fault("crashed", number, f"the connection ended: {answer.error}", shown)
    if answer.ended == "failed":
        said = answer.error if answer.status in (200, None) else f"HTTP {answer.status}: {answer.error}"
        return Fault("nan" if tells_nan(answer.error) else "failed", number, said, shown)
    return None


def tells_nan(words: str) -> bool:
    """Whether an error says that numbers are none, in the words of an engine."""
    reading = read_log(io.BytesIO(words.encode("utf-8", "replace")))
    return reading.cause is not None and reading.cause.signature.outcome is Outcome.NAN


def of_itself(number: int, answer: Answer) -> Iterator[Fault]:
    """What is wrong with an answer whatever was asked."""
    if (bad := ended_badly(number, answer)) is not None:
        yield bad
    elif answer.ended == "answered":
        if answer.error and tells_nan(answer.error):
            yield Fault("nan", number, f"it ended for: {answer.error}", shown_text(answer.text))
            return
        if not answer.finite:
            where = next(place for place, one in enumerate(answer.tokens) if one.logprob is None)
            yield Fault("nan", number, f"the logprob of token {where} is no number", shown_text(answer.text))
        elif not answer.text and not any(one.text for one in answer.tokens):
            yield Fault("empty", number, "no text", "")


def degenerate(answer: Answer) -> str | None:
    """How a text is no language: one token over and over, or characters that are none."""
    text = answer.text
    if text and text.count("\ufffd") / len(text) > REPLACED:
        return NO_CHARACTERS
    texts = [one.text for one in answer.tokens]
    if answer.tokens:
        if len(texts) >= REPEATED and len(set(texts[-REPEATED:])) == 1:
            return f"{shown_text(texts[-1])!r} over and over"
    elif len(text) >= 2 * REPEATED and len(set(text.strip())) == 1:
        return f"{text.strip()[0]!r} over and over"
    return None


def of_load(
    number: int,
    alone: Answer,
    answer: Answer,
    found: Difference,
    allowed: Tolerance,
    others: Iterable[Answer],
    least: float | None,
) -> Fault | None:
    """What is wrong with an answer beside the one given ``alone``; None where rounding explains it.

    ``others``: what was answered to other prompts. ``least``: the mean logprob of the least likely answer
    that was given alone.
    """
    shown = shown_text(answer.text)
    how = None if degenerate(alone) else degenerate(answer)
    if how == NO_CHARACTERS:
        return Fault("garbage", number, how, shown)
    if how is None and found.position == 0 and any(alike(answer, other, allowed.usual) for other in others):
        return Fault("anothers", number, "it is the answer to another prompt, token by token", shown)
    if found.shift > allowed.shift:
        why = f"the same token's logprob moved by {found.shift:.2f} nats"
        return Fault("moved", number, why, shown, found.shift)
    if found.position is None:
        return None
    if found.swing is not None and found.swing > allowed.tie:
        mine, theirs = alone.tokens[found.position], answer.tokens[found.position]
        why = (
            f"token {found.position} is {shown_text(theirs.text)!r} instead of {shown_text(mine.text)!r}, "
            f"which were {found.swing:.2f} nats or more apart"
        )
        return Fault("unlike", number, why, shown, found.swing)
    rest = answer.tokens[found.position :]
    mean = likelihood(rest)
    if len(rest) >= LONG and least is not None and mean is not None and mean < least - UNSURE:
        why = f"after token {found.position} its mean logprob is {mean:.1f}; alone none was below {least:.1f}"
        return Fault("unsure", number, why, shown, least - mean)
    return None


def least_likely(alone: Sequence[Answer]) -> float | None:
    means = [mean for one in alone if (mean := likelihood(one.tokens)) is not None]
    return min(means, default=None)


def mean_likelihood(alone: Sequence[Answer]) -> float | None:
    means = [mean for one in alone if (mean := likelihood(one.tokens)) is not None]
    return statistics.fmean(means) if means else None


def shown_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
