"""The four stages of the gate, as judgements of answers: none of them looks at a clock or a server.

``alone``: the fixed prompts one at a time, twice. ``crowd``: the same among many others. ``paired``:
questions beside a reference's answers. ``oracle``: logprobs beside a reference's.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.terms import Outcome
from tools.quality.answer import Answer
from tools.quality.compare import Difference, Tolerance, alike, difference, tolerance
from tools.quality.faults import (
    CERTAIN,
    FLAT,
    Fault,
    degenerate,
    least_likely,
    mean_likelihood,
    of_itself,
    of_load,
    shown_text,
)
from tools.quality.paired import least_loss, mcnemar

USUAL = 0.4
"""Nats that unsure tokens may move by, half of them: no rounding does that."""
DOUBT = 0.02
"""p of the paired test below which other questions are asked; only where it is that low again, it counts."""
SURE = 0.002
"""The same where no others can be asked."""
DIVERGENCE, AGREEMENT = 0.3, 0.75
"""Mean KL in nats, and share of first choices that agree, beyond which two servers do not run one model."""
CROWD = -1
"""Number of a prompt that is none of the fixed ones."""
FEW = 16
"""Positions below which the oracle says nothing."""

_GRAVEST = {
    "crashed": Outcome.CRASHED, "hung": Outcome.HUNG, "nan": Outcome.NAN, "failed": Outcome.CRASHED,
    "anothers": Outcome.WRONG, "garbage": Outcome.WRONG,
}  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """``again``: it is not decided, and asking more would."""

    outcome: Outcome
    because: str
    figures: dict[str, float] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    again: bool = False


def judge_alone(first: Sequence[Answer], second: Sequence[Answer], *, random_weights: bool) -> Judged:
    """The answers to the fixed prompts, asked one at a time, and once more. What was refused is left out."""
    asked = [number for number, one in enumerate(first) if one.ended != "refused"]
    faults = [
        fault for run in (first, second) for number in asked for fault in of_itself(number, run[number])
    ]
    figures: dict[str, float] = {"prompts": len(asked), "tokens": sum(len(one.tokens) for one in first)}
    empty = [fault for fault in faults if fault.kind == "empty"]
    if certain := [fault for fault in faults if fault.kind in CERTAIN]:
        return Judged(*_worst(certain, 2 * len(asked)), figures, tuple(certain))
    if len(empty) > (2 * len(asked) - 1 if random_weights else len(asked)):
        return Judged(Outcome.WRONG, "more than half of the answers are empty", figures, tuple(empty))
    if not random_weights and (found := _no_language(first, asked, figures)):
        return found
    differences = [(number, difference(first[number], second[number])) for number in asked]
    allowed = tolerance(first, differences)
    figures |= {"different": sum(not one.same for _, one in differences), **_moved(differences)}
    unlike = [
        fault
        for number, one in differences
        if (fault := of_load(number, first[number], second[number], one, allowed, (), None)) is not None
    ]
    if len(unlike) > 1:
        why = f"asked again alone, {len(unlike)} of {len(asked)} answers are others: {unlike[0].why}"
        return Judged(Outcome.WRONG, why, figures, tuple(unlike))
    notes = [] if figures["tokens"] else ["the server gives no logprobs: only its texts are compared"]
    if figures["different"]:
        notes.append(
            f"asked again alone, {figures['different']:g} texts differ where tokens lie close together"
        )
    if skipped := len(first) - len(asked):
        notes.append(f"{skipped} prompts were refused: {shown_text(_refusal(first))}")
    repeats = "the same again" if not figures["different"] else "the same again but for near ties"
    return Judged(Outcome.OK, f"{len(asked)} answers, {repeats}", figures, tuple(unlike), tuple(notes))


def _no_language(first: Sequence[Answer], asked: Sequence[int], figures: dict[str, float]) -> Judged | None:
    """Whether the answers of a model that was trained are none."""
    mean = mean_likelihood([first[number] for number in asked])
    if mean is not None:
        figures["mean_logprob"] = mean
        if mean < FLAT:
            why = (
                f"the model is sure of nothing (mean logprob {mean:.1f}): garbage, "
                "unless its weights are random (--random-weights)"
            )
            return Judged(Outcome.WRONG, why, figures, tuple(_examples(first, asked[:3], why)))
    bad = {number: how for number in asked if (how := degenerate(first[number])) is not None}
    figures["degenerate"] = len(bad)
    if len(bad) > len(asked) / 2:
        why = f"{len(bad)} of {len(asked)} answers are no language: {next(iter(bad.values()))}"
        return Judged(Outcome.WRONG, why, figures, tuple(_examples(first, list(bad), why)))
    text, count = Counter(first[number].text for number in asked).most_common(1)[0]
    if len(asked) > 2 and count > len(asked) / 2:
        why = f"{count} of {len(asked)} prompts have the same answer: {shown_text(text)!r}"
        return Judged(Outcome.WRONG, why, figures, tuple(_examples(first, asked[:3], why)))
    return None


def judge_crowd(
    alone: Sequence[Answer],
    rounds: Sequence[tuple[Sequence[Answer], Sequence[Answer]]],
    *,
    random_weights: bool = False,
) -> Judged:
    """Rounds of answers to the fixed prompts, each with what was answered to others at the same time.

    One fault that no sound server ever shows is enough; of those that could be a rare coincidence two are.
    ``random_weights``: a text without a character is as good as any other.
    """
    usable = [number for number, one in enumerate(alone) if one.ended == "answered"]
    least = least_likely([alone[number] for number in usable])
    differences = [
        (number, difference(alone[number], mine[number]))
        for mine, _ in rounds
        for number in usable
        if mine[number].ended == "answered"
    ]
    allowed = tolerance(alone, differences)
    faults: list[Fault] = []
    pending = iter(differences)
    for mine, others in rounds:
        neighbours = [*others, *(alone[number] for number in usable)]
        faults += [fault for one in others for fault in of_itself(CROWD, one)]
        faults += _given_away(others, [alone[number] for number in usable], allowed)
        for number in usable:
            faults += of_itself(number, mine[number])
            if mine[number].ended == "answered":
                rest = [one for one in neighbours if one is not alone[number]]
                _, found = next(pending)
                odd = of_load(number, alone[number], mine[number], found, allowed, rest, least)
                faults += [odd] if odd else []
    if random_weights:
        faults = [one for one in faults if one.kind != "empty"]
    asked = len(rounds) * len(usable)
    flips = sum(not one.same for _, one in differences)
    figures = {
        "answers": asked, "others": sum(len(others) for _, others in rounds), "different": flips,
        "faults": len(faults), "tie": allowed.tie, **_moved(differences), "usual_shift": allowed.usual,
    }  # fmt: skip
    if allowed.usual > USUAL:
        why = f"half of the tokens that are not sure moved by more than {allowed.usual:.2f} nats under load"
        return Judged(Outcome.STRESS_FAILED, why, figures, tuple(faults))
    if [fault for fault in faults if fault.kind in CERTAIN] or len(faults) > 1:
        outcome, why = _worst(faults, asked + int(figures["others"]))
        gone = {fault.kind for fault in faults} & {"crashed", "hung"}
        outcome = outcome if gone else Outcome.STRESS_FAILED
        return Judged(outcome, f"right alone, under load not: {why}", figures, tuple(faults))
    told = f"{flips} of {asked} answers took another turn at a near tie" if flips else "the same as alone"
    notes = [f"once under load: {fault.why}" for fault in faults]
    return Judged(Outcome.OK, told, figures, tuple(faults), tuple(notes), again=bool(faults))


def _given_away(others: Sequence[Answer], alone: Sequence[Answer], allowed: Tolerance) -> list[Fault]:
    """Answers to a fixed prompt that somebody else got."""
    return [
        Fault("anothers", CROWD, "it is the answer to another prompt, token by token", shown_text(one.text))
        for one in others
        if any(alike(one, answer, allowed.usual) for answer in alone)
    ]


def judge_paired(
    candidate: Sequence[bool], reference: Sequence[bool], *, again: bool, doubt: float = DOUBT
) -> Judged:
    """Whether fewer questions were answered right than by the reference; McNemar's exact test, two-sided.

    ``again``: this decides; else what is below ``doubt`` is to be asked once more, with other questions.
    """
    lost = sum(theirs and not mine for mine, theirs in zip(candidate, reference, strict=True))
    won = sum(mine and not theirs for mine, theirs in zip(candidate, reference, strict=True))
    p = mcnemar(lost, won)
    number = len(candidate)
    seen = least_loss(number, won, doubt)
    figures = {
        "questions": number, "right": sum(candidate), "reference_right": sum(reference), "lost": lost,
        "won": won, "discordant": lost + won, "p": p, "loss_seen_in_4_of_5": seen,
    }  # fmt: skip
    told = (
        f"{sum(candidate)} of {number} right, the reference {sum(reference)}; {lost + won} discordant "
        f"({lost} lost, {won} won), p = {p:.2g}; "
        f"a loss of {100 * seen:.1f} points would be seen in 4 of 5 runs"
    )
    worse = lost > won and p < doubt
    if worse and again:
        return Judged(Outcome.WRONG, f"worse than the reference: {told}", figures)
    return Judged(Outcome.OK, told, figures, again=worse)


def judge_oracle(candidate: Sequence[Answer], reference: Sequence[Answer]) -> Judged:
    """First choices and KL, at every position that both answers reached with the same context."""
    agree: list[bool] = []
    apart: list[float] = []
    for mine, theirs in zip(candidate, reference, strict=True):
        for a, b in zip(mine.tokens, theirs.tokens, strict=False):
            agree.append(a.text == b.text)
            if a.best and b.best:
                apart.append(_divergence(b.best, a.best))
            if a.text != b.text:
                break
    if len(agree) < FEW:
        why = f"only {len(agree)} positions have the same context, and logprobs, on both sides"
        return Judged(Outcome.NOT_RUN, why, {"positions": len(agree)})
    share, mean = statistics.fmean(agree), statistics.fmean(apart) if apart else 0.0
    figures = {"positions": len(agree), "first_choice": share, "kl": mean, "kl_most": max(apart, default=0.0)}
    told = f"first choices agree at {100 * share:.1f} % of {len(agree)} positions, mean KL {mean:.4f} nats"
    bad = mean > DIVERGENCE or share < AGREEMENT
    return Judged(Outcome.WRONG if bad else Outcome.OK, told, figures)


def _divergence(true: dict[str, float], other: dict[str, float]) -> float:
    """KL over the tokens that both sides list, and one for all the rest."""
    both = true.keys() & other.keys()
    pairs = [(math.exp(true[name]), math.exp(other[name])) for name in both]
    pairs.append((1 - sum(one for one, _ in pairs), 1 - sum(two for _, two in pairs)))
    tiny = 1e-6
    return max(0.0, sum(max(p, tiny) * math.log(max(p, tiny) / max(q, tiny)) for p, q in pairs if p > tiny))


def _worst(faults: Sequence[Fault], answers: int) -> tuple[Outcome, str]:
    """The outcome that the gravest of ``faults`` means, and how many of that kind there are."""
    for kind, outcome in _GRAVEST.items():
        if of_kind := [fault for fault in faults if fault.kind == kind]:
            return outcome, f"{len(of_kind)} of {answers} answers: {of_kind[0].why}"
    largest = max(faults, key=lambda fault: fault.size)
    return Outcome.WRONG, f"{len(faults)} of {answers} answers: {largest.why}"


def _moved(differences: Sequence[tuple[int, Difference]]) -> dict[str, float]:
    return {
        "largest_shift": max((one.shift for _, one in differences), default=0.0),
        "largest_swing": max((one.swing or 0.0 for _, one in differences), default=0.0),
    }


def _examples(answers: Sequence[Answer], numbers: Sequence[int], why: str) -> list[Fault]:
    return [Fault("garbage", number, why, shown_text(answers[number].text)) for number in numbers]


def _refusal(answers: Sequence[Answer]) -> str:
    return next((one.error for one in answers if one.ended == "refused"), "")
