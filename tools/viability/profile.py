"""What cannot be read off an engine's sources: small version-free data, one TOML file an engine."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Profile:
    engine: str
    root: str
    skip: tuple[str, ...]
    quantisation_lookup: str
    method_factory: str
    minimum_capability: str
    checkpoint_config: str
    after_loading: str
    operator_registration: str
    """The function that makes an operator of torch out of a function."""
    layers_by_name: str
    """The attribute that holds the layers of a model by name while it runs."""


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((files("tools.viability") / "profiles" / f"{name}.toml").read_text("utf-8"))


@cache
def profile(engine: str) -> Profile:
    """The profile of an engine. Raises ``KeyError`` for one that has none."""
    try:
        data = _load(engine)
    except FileNotFoundError:
        raise KeyError(engine) from None
    return Profile(**{**data, "skip": tuple(data["skip"])})


@cache
def engines() -> tuple[str, ...]:
    """Engines that have a profile."""
    names = sorted(
        entry.name.removesuffix(".toml")
        for entry in (files("tools.viability") / "profiles").iterdir()
        if entry.name.endswith(".toml")
    )
    return tuple(name for name in names if _load(name).get("engine") == name)


@cache
def libraries() -> dict[str, Any]:
    return _load("libraries")


@cache
def scenarios() -> dict[str, Any]:
    return _load("scenarios")


def covering(component: str) -> str | None:
    """The component of the one option that engines may have instead of an option per format."""
    name = scenarios()["general"].get(component)
    return str(name) if name is not None else None
