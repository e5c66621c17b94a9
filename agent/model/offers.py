"""Tools as a model's interface describes them: name, description and input schema, in one order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tools.base import AnyTool


def offers(tools: Iterable[AnyTool]) -> list[dict[str, Any]]:
    """One function for each tool, by name."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": " ".join(tool.description.split()),
                "parameters": plain(tool.schema()),
            },
        }
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]


def plain(schema: Any, *, names: bool = False) -> Any:
    """A schema without the titles that only repeat names. ``names``: its keys are names of fields."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: plain(value, names=not names and key in {"properties", "$defs"})
        for key, value in schema.items()
        if names or key != "title"
    }
