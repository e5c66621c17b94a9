"""Settings that hide NaN: a server that runs with one cannot be checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files


def masking(engine: str | None, settings: Mapping[str, str]) -> str | None:
    """The first of ``settings`` (variables and options of a launch) that hides NaN, as ``NAME=VALUE``.

    Where the engine is not known, those of every engine count: their names do not meet.
    """
    known = tomllib.loads((files("tools.quality") / "masks.toml").read_text("utf-8"))
    for name, tables in known.items():
        for setting, off in tables.items() if engine in (None, name) else ():
            if (value := settings.get(setting)) is not None and value.strip().lower() not in off:
                return f"{setting}={value}"
    return None
