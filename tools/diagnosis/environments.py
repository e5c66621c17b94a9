"""Which environment holds the packages that a log names."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

from memory.home import Home
from memory.names import distribution
from tools.engines.adapter import engines
from tools.environment.model import Environment
from tools.environment.store import list_environments


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


def _public(version: str) -> str:
    """Without what a build adds: ``0.11.0+cu128`` is of 0.11.0."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version
