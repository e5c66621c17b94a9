"""All tools of this installation: found by walking the ``tools`` package and the ``assay.tools`` entry points."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import tools
from tools.base import Tool


@cache
def registry() -> dict[str, Tool[Any, Any]]:
    """Name → tool. Raises ``ValueError`` if two tools share a name."""
    found: dict[str, Tool[Any, Any]] = {}
    for module in pkgutil.walk_packages(tools.__path__, "tools."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Tool):
                    _add(found, value)
    for point in entry_points(group="assay.tools"):
        _add(found, point.load())
    return dict(sorted(found.items()))


def _add(found: dict[str, Tool[Any, Any]], value: Tool[Any, Any]) -> None:
    if found.setdefault(value.name, value) is not value:
        raise ValueError(f"two tools are named {value.name}")
