"""Launches of servers as experiments: which settings to try, what a failure is to blame on, what it spares.

A trial is one launch with a backend for some components. The first is the one that the others differ from;
what shares the cause of a failure is not launched again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.terms import Outcome

Pairs = dict[str, str]
"""Component → backend; and ``--option`` of the engine → its value, where options are tried too."""
FLAG, OFF = "--", "off"
"""What an option's name begins with here; the value that leaves it out."""

OF_ALL = frozenset({"memory", "machine", "files", "options", "communication"})
"""Kinds of causes that no backend is to blame for: whatever is launched so has them."""
SILENT = frozenset({Outcome.NOT_RUN, Outcome.ENVIRONMENT_SUSPECT, Outcome.START_TIMEOUT})
"""Outcomes that say nothing of a backend."""


@dataclass(frozen=True)
class Ran:
    """One trial that came to an end. ``output``: what ``try_server`` gave."""

    call: str
    number: int
    pairs: Pairs
    output: Mapping[str, Any]

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.output["outcome"])

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK


def grid(each: Mapping[str, Sequence[str]], base: Mapping[str, str] | None = None) -> list[Pairs]:
    """Every combination, those first that differ least from the first value of each component."""
    made = [
        {**(base or {}), **dict(zip(each, values, strict=True))}
        for values in itertools.product(*each.values())
    ]
    first = made[0]
    return sorted(made, key=lambda pairs: sum(pairs[name] != first[name] for name in each))


def named(pairs: Mapping[str, str]) -> str:
    """A setting in words."""
    parts = sorted(pairs.items(), key=lambda one: one[0].startswith(FLAG))  # backends first
    told = (f"{name.removeprefix(FLAG)}={value}" for name, value in parts)
    return ", ".join(told) or "the engine's defaults"


def settings_of(settings: Mapping[str, Any], pairs: Mapping[str, str]) -> dict[str, Any]:
    """``settings`` of a server with the backends and options of ``pairs`` in them."""
    found = {**settings, "backends": {name: one for name, one in pairs.items() if not name.startswith(FLAG)}}
    given = {name.removeprefix(FLAG): value for name, value in pairs.items() if name.startswith(FLAG)}
    if given:
        kept = {name: value for name, value in settings.get("options", {}).items() if name not in given}
        found["options"] = kept | {name: typed(one) for name, one in given.items() if one != OFF}
    return found


def typed(text: str) -> bool | int | float | str:
    """An option's value as it was written: a number, true or false, else a word."""
    if re.fullmatch(r"-?\d+|-?\d+\.\d+", text):
        return float(text) if "." in text else int(text)
    return {"true": True, "false": False}.get(text, text)


def blamed(ran: Ran, others: Sequence[Ran]) -> Pairs | None:
    """The pairs that a failure is to blame on; empty where it is none of them; None where nothing tells.

    A substitution names its component, so does a known message. Else it is the one thing that tells the
    launch from one that went well. Where none did, a pair that stands alone, unless one fails so without it.
    """
    if ran.ok or ran.outcome in SILENT:
        return {}
    if ran.outcome is Outcome.SUBSTITUTED:
        replaced = {one["component"] for one in ran.output["used"] if substituted(one)}
        return {name: backend for name, backend in ran.pairs.items() if name in replaced}
    diagnosis = _diagnosis(ran)
    if (component := diagnosis.get("component")) in ran.pairs:
        return {component: ran.pairs[component]}
    cause = diagnosis.get("cause") or {}
    if cause.get("kind") in OF_ALL and cause.get("certain"):
        return {}
    if good := [differing(ran.pairs, other.pairs) for other in others if other.ok]:
        name = next((name for one in good if len(one) == 1 for name in one if name in ran.pairs), None)
        return None if name is None else {name: ran.pairs[name]}
    alone = len(ran.pairs) == 1 and all(
        ran.pairs.items() <= other.pairs.items() for other in others if cause_of(other) == cause_of(ran)
    )
    return dict(ran.pairs) if alone else None


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """What two settings do not have in common; left to the engine is another than any that is named."""
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def cause_of(ran: Ran) -> tuple[object, ...] | None:
    """What failures share that have one cause: the error, without its numbers, and the line that raised it.
    None for what did not fail."""
    if ran.ok or ran.outcome in SILENT:
        return None
    diagnosis = _diagnosis(ran)
    first = diagnosis.get("first") or {}
    frame: Mapping[str, Any] = (first.get("frames") or [{}])[-1]
    return (
        ran.outcome,
        (diagnosis.get("cause") or {}).get("signature"),
        first.get("error"),
        re.sub(r"\d+", "#", str(first.get("message"))),
        frame.get("file"),
        frame.get("line"),
    )


def doubted(pairs: Mapping[str, str], ran: Sequence[Ran]) -> bool:
    """Whether a launch with these pairs is likely to fail as others did: it differs from one of them only in
    what made no difference to how that failed. That proves nothing, so it is made when all else has been."""
    for one in ran:
        alike = [other for other in ran if cause_of(other) == cause_of(one) is not None]
        moot = {name for other in alike for name in differing(one.pairs, other.pairs)}
        if moot and differing(pairs, one.pairs) <= moot:
            return True
    return False


def _diagnosis(ran: Ran) -> Mapping[str, Any]:
    return (ran.output.get("failure") or {}).get("diagnosis") or {}


def substituted(used: Mapping[str, Any]) -> bool:
    from tools.server.used import Used

    return Used.model_validate(
        {key: value for key, value in used.items() if key != "substituted"}
    ).substituted


def spared(pairs: Mapping[str, str], ran: Sequence[Ran]) -> str | None:
    """Why a launch with these pairs is not worth its minutes, or None."""
    for one in ran:
        blame = blamed(one, ran)
        if blame and blame.items() <= pairs.items():
            name = ", ".join(f"{component} {backend}" for component, backend in blame.items())
            return f"{name}: {_words(one)}"
        if cause_of(one) is not None and one.pairs == pairs:
            return f"once is enough: {_words(one)}"
        cause = _diagnosis(one).get("cause") or {}
        if blame == {} and one.outcome not in {Outcome.OK, *SILENT} and cause.get("kind") in OF_ALL:
            return f"whatever backend: {_words(one)}"
    return None


def _words(ran: Ran) -> str:
    return f"{ran.outcome.value.replace('_', ' ')}, {ran.output['because']}"


def seen(ran: Sequence[Ran]) -> Iterator[tuple[str, str, Ran]]:
    """What the launches say of each (component, backend): a failure that it is to blame for, else the last
    launch that went well. What nothing tells about is left out."""
    found: dict[tuple[str, str], Ran] = {}
    for one in ran:
        if one.ok:
            for pair in one.pairs.items():
                found[pair] = one
    for one in ran:
        blame = blamed(one, ran)
        for pair in (blame or {}).items():
            found[pair] = one
    for (component, backend), one in found.items():
        if not component.startswith(FLAG):
            yield component, backend, one
