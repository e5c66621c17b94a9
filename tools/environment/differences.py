"""What two environments differ in: packages, options, pins, and findings that do not carry over.

Verdicts are not compared here: whoever asks for these says for which target.
"""

from __future__ import annotations

import json
from typing import Any

from memory.home import Home
from memory.names import distribution
from memory.views import Views
from memory.vocabulary import Contract
from tools.engines.options import Option, discover_options
from tools.environment.model import Environment
from tools.environment.pins import pin_warnings
from tools.source.tree import SourceError, SourceTree, span_sha256


class PackageChange(Contract):
    """None where the package is not there."""

    package: str
    before: str | None
    after: str | None


class OptionChange(Contract):
    """``appeared``, ``gone``: values. ``defaults``: before and after, where they differ. ``is_new`` and
    ``is_gone``: the option itself, with all its values."""

    component: str
    option: str
    appeared: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    defaults: tuple[str, str] | None = None
    is_new: bool = False
    is_gone: bool = False


class StaleFinding(Contract):
    """A finding of the first environment, and the cited line that does not stand in the second."""

    finding: str
    sentence: str
    file: str
    line: int
    text: str


class Differences(Contract):
    """``pins``: for either side what its engine asks for and does not get. ``stands``: how many findings of
    the first environment rest on lines that are the same in the second; ``defaults``: what each component's
    option is in the second where nothing is said."""

    before: str
    after: str
    packages: tuple[PackageChange, ...]
    options: tuple[OptionChange, ...]
    pins: tuple[tuple[str, ...], tuple[str, ...]]
    stale: tuple[StaleFinding, ...]
    stands: int
    defaults: dict[str, str]


def differences(home: Home, before: Environment, after: Environment, engine: str) -> Differences:
    """Options are those of ``engine``; an environment without it has none. What findings cite must have been
    folded before."""
    trees = before.tree(), after.tree()
    stale, stands = _findings(home, before, trees)
    options = [_options(side, tree, engine) for side, tree in zip((before, after), trees, strict=True)]
    return Differences(
        before=before.name,
        after=after.name,
        packages=package_changes(before, after),
        options=option_changes(*options),
        pins=(tuple(pin_warnings(before)), tuple(pin_warnings(after))),
        stale=stale,
        stands=stands,
        defaults={one.component: str(one.default) for one in options[1] if one.default is not None},
    )


def package_changes(before: Environment, after: Environment) -> tuple[PackageChange, ...]:
    """By name; the same version from another wheel counts."""
    hashes = [{wheel.name: wheel.sha256 for wheel in side.wheels} for side in (before, after)]
    found = []
    for name in sorted({*before.packages, *after.packages}):
        was, now = before.packages.get(name), after.packages.get(name)
        wheels = [side.get(name) for side in hashes]
        if was != now or (None not in wheels and wheels[0] != wheels[1]):
            found.append(PackageChange(package=name, before=was, after=now))
    return tuple(found)


def option_changes(before: list[Option], after: list[Option]) -> tuple[OptionChange, ...]:
    """By the options' fields, which stay where a flag is renamed."""
    sides = [{option.field: option for option in side} for side in (before, after)]
    found = []
    for field in dict.fromkeys((*sides[0], *sides[1])):
        was, now = sides[0].get(field), sides[1].get(field)
        option = now or was
        assert option is not None
        values = [[value.value for value in side.values] if side else [] for side in (was, now)]
        change = OptionChange(
            component=option.component,
            option=option.flag or option.field,
            appeared=tuple(value for value in values[1] if value not in values[0]),
            gone=tuple(value for value in values[0] if value not in values[1]),
            defaults=(str(was.default), str(now.default))
            if was and now and was.default != now.default
            else None,
            is_new=was is None,
            is_gone=now is None,
        )
        if change.appeared or change.gone or change.defaults or was is None or now is None:
            found.append(change)
    return tuple(found)


def _options(environment: Environment, tree: SourceTree, engine: str) -> list[Option]:
    return discover_options(tree, engine) if distribution(engine) in environment.packages else []


def _findings(
    home: Home, before: Environment, trees: tuple[SourceTree, SourceTree]
) -> tuple[tuple[StaleFinding, ...], int]:
    views = Views(home)
    stale: list[StaleFinding] = []
    stands = 0
    for row in views.findings():
        if not json.loads(row["packages"]).items() <= before.packages.items():
            continue
        lines = [one for one in views.evidence(row["id"]) if one["file"]]
        lost = next((one for one in lines if not _stands(one, trees)), None)
        if lost is None:
            stands += bool(lines)
            continue
        stale.append(
            StaleFinding(
                finding=row["id"],
                sentence=row["sentence"],
                file=lost["file"],
                line=lost["line"],
                text=lost["text"],
            )
        )
    return tuple(stale), stands


def _stands(cited: Any, trees: tuple[SourceTree, SourceTree]) -> bool:
    """Whether the cited lines are in the same file of the second tree, wherever in it."""
    first, last = cited["line"] - 1, cited["end_line"]
    try:
        there = trees[1].lines(cited["file"])
        if span_sha256(there[first:last]) == cited["sha256"]:
            return True
        wanted = trees[0].lines(cited["file"])[first:last]
    except SourceError:
        return False
    return any(there[at : at + len(wanted)] == wanted for at, line in enumerate(there) if line == wanted[0])
