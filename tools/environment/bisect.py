"""The release in which something changed: halving the releases of one package, all else as it is.

A release is compared with what the first one says, so the end that is called bad needs no analysis of its
own: of ``n`` releases at most ``⌈log2 n⌉ + 1`` are analysed. Environments and traces are kept as always, and
the list of releases for a day: what was interrupted goes on where it was, and asked again it is at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from memory.canonical import sha256_of
from memory.home import Home, HomeError
from memory.names import distribution, few
from tools.environment.earlier import FRESH, NOTES, write
from tools.environment.experiment import Outcome, Test
from tools.environment.model import Environment
from tools.environment.pins import machine_of, requirements_of
from tools.environment.plan import Wanted
from tools.environment.staging import Staging
from tools.environment.upgrade import prepare
from tools.environment.uv import Uv
from tools.environment.uv_settings import settings_of
from tools.errors import ToolError


@dataclass(frozen=True)
class Search:
    """``package`` from ``good`` to ``bad``, which may be the older one; ``indexes`` are asked first."""

    package: str
    good: str
    bad: str
    indexes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Side:
    """One release: what the test said of it, in which environment."""

    version: str
    outcome: Outcome
    environment: Environment


@dataclass(frozen=True)
class Bisection:
    """``versions``: from good to bad; ``same``: the last that says what the good one says; ``other``: the
    first that does not, None where even the bad one says the same. ``moved``: what else the two ask for,
    ``(requirement before, after)``. ``skipped``: why, by version: these could not be looked at.
    """

    versions: tuple[str, ...]
    same: Side
    other: Side | None
    moved: tuple[tuple[str | None, str | None], ...]
    analyses: int
    skipped: dict[str, str]

    @property
    def between(self) -> tuple[str, ...]:
        """Skipped releases between the two: the change may be in one of them."""
        if self.other is None:
            return ()
        first, last = (self.versions.index(side.version) for side in (self.same, self.other))
        return self.versions[first + 1 : last]


def bisect(
    context: Any, base: Environment, search: Search, test: Test, now: Callable[[], float]
) -> Bisection:
    """Find the release of ``search.package`` with which ``test`` begins to say something else.

    ``base``: all other packages. ``now``: seconds since the epoch. Raises :class:`ToolError`: no such
    release, a good one that cannot be analysed, a test that does not fit.
    """
    package = distribution(search.package)
    versions = _versions(context, base, search, now())
    skipped: dict[str, str] = {}
    analyses = 0

    def side(version: str) -> Side:
        nonlocal analyses
        wanted = Wanted((f"{package}=={version}",), indexes=search.indexes)
        _, environment = prepare(context.home, base, wanted, lambda _: True, context.progress)
        assert environment is not None
        analyses += 1
        outcome = test.run(context, environment)
        context.progress(f"{package} {version}: {outcome.says}")
        return Side(version, outcome, environment)

    same, other = side(versions[0]), None
    first, last = 0, len(versions)
    while left := [at for at in range(first + 1, last) if versions[at] not in skipped]:
        middle = left[len(left) // 2]
        try:
            looked = side(versions[middle])
        except ToolError as error:
            if error.missing:  # the network, uv, disk space: no fault of the release
                raise
            skipped[versions[middle]] = str(error)
            context.progress(f"passing over {package} {versions[middle]}: {error}")
            continue
        if looked.outcome.says == same.outcome.says:
            first, same = middle, looked
        else:
            last, other = middle, looked
    moved = _moved(package, same.environment, other.environment) if other else ()
    return Bisection(tuple(versions), same, other, moved, analyses, skipped)


def _versions(context: Any, base: Environment, search: Search, now: float) -> list[str]:
    """From good to bad, both among them."""
    try:
        good, bad = Version(search.good), Version(search.bad)
    except InvalidVersion as error:
        raise ToolError(f"{error}; expected versions such as 0.6.5") from error
    if good == bad:
        raise ToolError(f"good and bad are both {good}; expected two versions of {search.package}")
    low, high = sorted((good, bad))
    package = distribution(search.package)
    if package not in base.packages:
        raise ToolError(f"{package} is not in {base.name}; it holds {few([*base.packages])}")
    found = _listed(context, package, (str(low), str(high)), base.platform, search.indexes, now)
    for end in (low, high):
        if end not in {Version(each) for each in found}:
            near = min(found, key=lambda each: abs(found.index(each) - (0 if end == low else len(found))))
            raise ToolError(
                f"no release {end} of {package} with a wheel for {base.platform}; nearest: {near}"
            )
    return found if good == low else found[::-1]


def _listed(
    context: Any, package: str, ends: tuple[str, str], platform: str, indexes: Sequence[str], now: float
) -> list[str]:
    home: Home = context.home
    key = sha256_of(["versions", package, *ends, platform, *indexes])[:16]
    path = home.environments / NOTES / key
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        if now - FRESH <= float(note["at"]) and note["versions"]:
            return [str(version) for version in note["versions"]]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a note only saves work
    try:
        home.prepare()
        with Staging(home.environments) as stage:
            uv = Uv.find(stage.work, context.progress, settings_of(indexes))
            found = uv.versions(package, *ends, platform)
        path.parent.mkdir(exist_ok=True)
        write(path, json.dumps({"versions": found, "at": now}))
    except HomeError as error:
        raise ToolError(str(error), missing=True) from error
    except OSError as error:
        raise ToolError(
            f"cannot write to {home.environments} ({error.strerror or error})", missing=True
        ) from error
    return found


def _moved(
    package: str, before: Environment, after: Environment
) -> tuple[tuple[str | None, str | None], ...]:
    """What the package asks for otherwise than before."""
    sides: list[Mapping[str, str]] = []
    for one in (before, after):
        asked = requirements_of(one.root, package, machine_of(one.platform))
        sides.append({distribution(each.name): str(each) for each in asked})
    names = sorted({*sides[0], *sides[1]})
    pairs = ((sides[0].get(name), sides[1].get(name)) for name in names)
    return tuple(pair for pair in pairs if pair[0] != pair[1])
