"""Facts given with ``--scenario``: which component they reach, and whether the engine knows them at all.

A fact that nothing reads would change no verdict, and whoever gave it would believe that it did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from tools.engines.adapter import engines
from tools.engines.options import Option, is_backend_option

OWN = frozenset({"quantisation", "quantization"})
"""Facts of the scenario itself; every other key is an option of the engine, by its field."""


VARIABLE = "$"
"""What the name of an environment variable begins with, in a scenario."""

NONE = "none"
"""Says of an option that it is not set."""


def scenario_for(scenario: Mapping[str, str], component: str) -> dict[str, str]:
    """The settings that reach ``component``: ``key`` reaches all, ``COMPONENT.key`` that one."""
    mine: dict[str, str] = {}
    for name, value in sorted(scenario.items(), key=lambda item: "." in item[0]):
        owner, dot, key = name.partition(".")
        if not dot:
            mine[name] = value
        elif owner == component:
            mine[key] = value
    return mine


def keys(scenario: Iterable[str]) -> list[str]:
    """The fields that a scenario sets, without their components, each once."""
    found = (name.rpartition(".")[2] for name in scenario)
    return [key for key in dict.fromkeys(found) if key not in OWN]


def wrong_component(scenario: Iterable[str], engine: str, options: Iterable[Option]) -> str | None:
    """One line if a setting names a component that the engine does not have, else None."""
    known = sorted({option.component for option in options if is_backend_option(option)})
    for name in scenario:
        owner, dot, _ = name.partition(".")
        if dot and owner not in known:
            near = get_close_matches(owner, known, 3) or known
            return f"--scenario {name}: {engine} has no component {owner!r} here; it has {', '.join(near)}"
    return None


def wrong_value(scenario: Mapping[str, str], options: Iterable[Option]) -> str | None:
    """One line if a setting gives an option a value that it does not accept, else None."""
    by_field = {option.field: option for option in options}
    for name, value in scenario.items():
        field = name.rpartition(".")[2]
        if field == "quantisation":
            return (
                f"--scenario {name}={value} changes nothing: name the model's quantisation in the question, "
                "or with --quantisation; quantization=NAME is the engine's own name for it"
            )
        option = by_field.get(field)
        if option is None or value == NONE:
            continue
        known = [one.value for one in option.values]
        # Of a quantisation that is added at run time nothing could be read.
        if value not in known and (not option.open_set or (field in OWN and known)):
            return (
                f"--scenario {name}={value}: {option.flag or option.field} does not accept it here; "
                f"it accepts {', '.join(known)}"
            )
    return None


def search_for(key: str, environment: str, engine: str) -> dict[str, Any]:
    """The input of ``search_source`` that finds where the engine declares an option's field ``key``, or where
    anything in the environment names a variable ``$key``.
    """
    if key.startswith(VARIABLE):
        pattern = rf"\b{re.escape(key.removeprefix(VARIABLE))}\b"
        return {"environment": environment, "pattern": pattern, "include": "*.py", "limit": 1}
    return {
        "environment": environment,
        "pattern": rf"^\s+{re.escape(key)}\s*:",
        "path": engines()[engine].root,
        "include": "*.py",
        "limit": 1,
    }


def not_declared(key: str, engine: str) -> str:
    if key.startswith(VARIABLE):
        return (
            f"--scenario: nothing here names a variable {key.removeprefix(VARIABLE)!r}, so it changes nothing"
        )
    return f"--scenario: {engine} has no option {key!r} here; give the field of one, e.g. kv_cache_dtype"
