"""All tools of this installation: those below ``tools``, and the ``assay.tools`` entry points of others.

Of the modules below ``tools`` only those are imported that write ``@tool(`` (and what they import): a program
that lists its tools need not hold all that they are made of.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.abc import InspectLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

import tools
from tools.base import Tool, ToolError


@cache
def registry() -> dict[str, Tool[Any, Any]]:
    """Name → tool. Raises :class:`ToolError` for a plug-in that cannot be used: which, and how to go on
    without it. A tool that is quietly not there would make the same question give another answer.
    """
    found: dict[str, Tool[Any, Any]] = {}
    for module in pkgutil.walk_packages(tools.__path__, "tools."):
        if not any(part.startswith("_") for part in module.name.split(".")) and _makes_tools(module.name):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Tool):
                    _add(found, value)
    for point in sorted(entry_points(group="assay.tools"), key=lambda point: point.name):
        value = _load(point)
        if found.get(value.name, value) is not value:
            raise _unusable(point, f"another tool is named {value.name} already")
        _add(found, value)
    return dict(sorted(found.items()))


def _makes_tools(module: str) -> bool:
    spec = find_spec(module)
    loader = None if spec is None else spec.loader
    return not isinstance(loader, InspectLoader) or "@tool(" in (loader.get_source(module) or "")


def _load(point: EntryPoint) -> Tool[Any, Any]:
    try:
        value = point.load()
    except Exception as error:
        raise _unusable(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(value, Tool):
        raise _unusable(point, f"{point.value} is no tool; expected a function under @tool of tools.base")
    return value


def _unusable(point: EntryPoint, why: str) -> ToolError:
    name = point.dist.name if point.dist is not None else "?"
    why = " ".join(why.split())[:300]
    return ToolError(f"the plug-in {point.name} of {name} cannot be used ({why}); mend or uninstall {name}")


def _add(found: dict[str, Tool[Any, Any]], value: Tool[Any, Any]) -> None:
    if found.setdefault(value.name, value) is not value:
        raise ValueError(f"two tools are named {value.name}")
