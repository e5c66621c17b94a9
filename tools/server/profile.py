"""How a server of an engine is started, asked and read: one small file of data for each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from tools.errors import ToolError


@dataclass(frozen=True)
class Pattern:
    """Says of a component which backend it has: in a line of the log, or by the name of a kernel."""

    component: str
    pattern: re.Pattern[str]
    backend: str | None = None
    """None where the pattern's group ``backend`` names it."""


@dataclass(frozen=True)
class Phase:
    begins: re.Pattern[str]
    ends: re.Pattern[str]


@dataclass(frozen=True)
class ServerProfile:
    """Fields as in ``profiles/sglang.toml``."""

    name: str
    module: tuple[str, ...]
    health: str
    info: tuple[str, ...]
    key_variable: str | None
    flags: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, str]
    cpu_variables: Mapping[str, str]
    masking_variables: tuple[str, ...]
    masking_fields: tuple[str, ...]
    phases: Mapping[str, Phase]
    used: tuple[Pattern, ...]
    kernels: tuple[Pattern, ...]
    trace: tuple[str, str] | None
    """Paths that begin and end a trace of the device, where the server can be asked for one."""


@dataclass(frozen=True)
class Denied:
    """What a driver cannot set; see ``denied.toml``."""

    words: frozenset[str]
    allowed: frozenset[str]
    value: re.Pattern[str]
    reserved: frozenset[str]


def server_profile(engine: str) -> ServerProfile:
    """The profile of ``engine``. Raises :class:`ToolError` naming those that there are."""
    folder = files("tools.server") / "profiles"
    there = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir())
    if engine not in there:
        raise ToolError(f"no server of {engine!r} can be started; known: {', '.join(there)}")
    return _load(engine)


@cache
def denied() -> Denied:
    data = tomllib.loads((files("tools.server") / "denied.toml").read_text("utf-8"))
    return Denied(
        words=frozenset(data["words"]),
        allowed=frozenset(data["allowed"]),
        value=re.compile(data["value"]),
        reserved=frozenset(data["reserved"]),
    )


@cache
def _load(engine: str) -> ServerProfile:
    text = (files("tools.server") / "profiles" / f"{engine}.toml").read_text("utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    trace = data.get("profile")
    return ServerProfile(
        name=data["name"],
        module=tuple(data["module"]),
        health=data["health"],
        info=tuple(data[key] for key in ("info", "info_before") if key in data),
        key_variable=data.get("key_variable"),
        flags={name: tuple(flags) for name, flags in data["flags"].items()},
        variables=data["variables"],
        cpu_variables=data["cpu"]["variables"],
        masking_variables=tuple(data["masks"]["variables"]),
        masking_fields=tuple(data["masks"]["fields"]),
        phases={
            name: Phase(re.compile(entry["begins"]), re.compile(entry["ends"]))
            for name, entry in data["phases"].items()
        },
        used=tuple(map(_pattern, data["used"])),
        kernels=tuple(map(_pattern, data.get("kernel", ()))),
        trace=(trace[0], trace[1]) if trace else None,
    )


def _pattern(entry: Mapping[str, str]) -> Pattern:
    return Pattern(entry["component"], re.compile(entry["pattern"]), entry.get("backend"))
