"""Which environment holds the packages that a log names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import InvalidVersion, Version

from memory.home import Home
from memory.names import distribution
from tools.diagnosis.gate import find_frame
from tools.engines.adapter import Engine, engines
from tools.environment.model import Environment
from tools.environment.store import list_environments
from tools.logs import Frame
from tools.source.tree import SourceError

LEAST = 2
"""Frames by which a version is told."""


def requirements(engine: str | None, packages: Mapping[str, str]) -> list[str]:
    """``NAME==VERSION`` of the engine and of the kernel libraries beside it; none without the engine's."""
    profile = engines().get(engine or "")
    if profile is None or profile.distribution not in packages:
        return []
    wanted = [profile.distribution, *(distribution(name) for name in profile.kernel_distributions)]
    return [f"{name}=={_public(packages[name])}" for name in wanted if name in packages]


def stored(home: Home, wanted: list[str]) -> Environment | None:
    """The environment that holds most of what is ``wanted`` (the engine first), in no other version."""
    asked = dict(one.split("==", 1) for one in wanted)
    fitting = []
    for environment in list_environments(home):
        held = {name: _public(version) for name, version in environment.packages.items()}
        same = sum(held.get(name) == version for name, version in asked.items())
        if held.get(next(iter(asked), "")) is None or any(
            name in held and held[name] != version for name, version in asked.items()
        ):
            continue
        fitting.append((-same, environment.kind != "source", environment.name, environment))
    return min(fitting, key=lambda one: one[:3])[3] if fitting and asked else None


def fitting(home: Home, engine: str | None, frames: Sequence[Frame]) -> Environment | None:
    """The environment in whose source a traceback stands line by line, where its version is not told.

    All frames of the engine must be at their lines, two at least. Of several such environments none is more
    likely than the other, unless it holds more of the frames.
    """
    profile = engines().get(engine or "")
    found: list[tuple[int, str, Environment]] = []
    for environment in list_environments(home) if profile is not None else ():
        assert profile is not None
        try:
            tree = environment.tree()
        except SourceError:
            continue
        own = [one for one in frames if f"/{profile.root}/" in one.file and one.text]
        places = [find_frame(tree, one) for one in own]
        if len(own) >= LEAST and all(place is not None and not place.moved for place in places):
            every = sum(find_frame(tree, one) is not None for one in frames)
            found.append((-every, environment.name, environment))
    found.sort(key=lambda one: one[:2])
    same = [one for one in found if one[0] == found[0][0]]
    return found[0][2] if found and len({_versions(one[2], profile) for one in same}) == 1 else None


def _versions(environment: Environment, profile: Engine | None) -> str:
    return environment.packages.get(profile.distribution, "") if profile is not None else ""


def _public(version: str) -> str:
    """Without what a build adds: ``0.11.0+cu128`` is of 0.11.0."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version
