"""``agent backends --compare``: the same question on other packages, and what became of each verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.cli.common import CommandError, environment_of, say
from memory.home import Home
from memory.names import distribution

if TYPE_CHECKING:
    from agent.cli.matrix import Question
    from memory.architecture import Architecture
    from memory.vocabulary import Row
    from tools.environment.model import Environment


def other_side(
    home: Home,
    given: Sequence[str],
    asked: Sequence[str],
    found: Environment,
    arch: Architecture,
    *,
    with_pins: bool = True,
) -> Environment:
    """What to compare with: an environment, or what was asked for with the packages that ``given`` names.

    ``asked``: the packages as they were given, empty where an environment was; ``found``: what they made.
    """
    if len(given) == 1 and "==" not in given[0]:
        return environment_of(home, given[0], (), arch)
    wrong = next((one for one in given if "==" not in one), None)
    if wrong is not None:
        raise CommandError(f"--compare {wrong!r}: expected NAME==VERSION, or one environment alone")
    named = {_name(one) for one in given}
    kept = asked or [f"{name}=={version}" for name, version in found.packages.items()]
    requirements = [*(one for one in kept if _name(one) not in named), *given]
    return environment_of(home, None, requirements, arch, with_pins=with_pins)


def _name(requirement: str) -> str:
    return distribution(requirement.partition("==")[0].strip())


def compared(home: Home, sides: tuple[Environment, Environment], question: Question) -> dict[str, Any]:
    """The comparison of both sides."""
    from agent.cli.matrix import traces
    from agent.comparison import comparison

    before, after = (traces(home, side, question) for side in sides)
    trees = (sides[0].tree(), sides[1].tree())
    return comparison(before, after, (sides[0].packages, sides[1].packages), trees)


def show(difference: dict[str, Any]) -> None:
    """One paragraph for each verdict that changed: the cell, then what decides on either side."""
    from agent.layout import versions

    lines = [f"before: {versions(difference['before'])}", f"after:  {versions(difference['after'])}"]
    for one in difference["changed"]:
        lines.append(f"{one['component']} {one['backend']} {one['arch']}")
        for mark, side, notes in zip("-+", ("before", "after"), one["notes"], strict=True):
            lines.append(f"  {mark} {_side(one[side], notes)}")
        lines += _what_became(one)
    lines.append(f"{len(difference['changed'])} of {difference['cells']} verdicts changed.")
    say(lines)


def _what_became(changed: dict[str, Any]) -> list[str]:
    """The refusing line as it stands on the other side, where that is not shown already."""
    from agent.text import shorten, squeeze
    from memory.terms import Verdict

    lines = []
    names = ("before", "after")
    for here, there, became in zip(names, reversed(names), changed["became"], strict=True):
        row = changed[here]
        if row is None or row.verdict != Verdict.BLOCKED or changed[there] is None:
            continue
        if became is None:
            lines.append(f"  = the line that refuses is not there {there}")
            continue
        same = "is the same" if became["same"] else f"reads: {shorten(squeeze(became['text']), 120)}"
        lines.append(f"  = {there} the line that refuses {same}  {became['file']}:{became['line']}")
    return lines


def _side(row: Row | None, notes: Sequence[str]) -> str:
    from agent.reasons import NAMES, deciding, reason, where

    if row is None:
        return "not declared"
    place = deciding(row)
    why = reason(row, why=next(iter(notes), None))
    return f"{NAMES[row.verdict]}: {why}" + (f"  {where(place)}" if place is not None else "")
