"""The tools as a client sees them: description, schema from the types, hints, what is not granted here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.types import Tool as Offer, ToolAnnotations
from pydantic import BaseModel

from agent.model.offers import plain
from agent.policy import Policy
from memory.vocabulary import Effect
from tools.base import Tool

NAME = {
    "type": "string",
    "maxLength": 100,
    "description": "The investigation that this belongs to, as begin_investigation named it.",
}
"""The argument that every tool has where several clients share a server."""
_OUTSIDE = {Effect.NETWORK, Effect.WRITES_ENVIRONMENT}
"""What reaches beyond this machine."""


def offers(tools: Iterable[Tool[Any, Any]], policy: Policy, *, shared: bool) -> list[Offer]:
    """One offer for each tool. ``shared``: a call must say which investigation it belongs to."""
    return [_offer(tool, policy, shared) for tool in tools]


def _offer(tool: Tool[Any, Any], policy: Policy, shared: bool) -> Offer:
    description = " ".join(tool.description.split())
    if policy.refusal(tool) is not None:
        description += (
            f" Not granted here: it {tool.effect.replace('_', ' ')}; a person grants that with "
            f"agent mcp --allow {tool.effect}."
        )
    return Offer(
        name=tool.name,
        description=description,
        input_schema=named(plain(tool.schema())) if shared else plain(tool.schema()),
        annotations=ToolAnnotations(
            read_only_hint=tool.effect is Effect.READS,
            destructive_hint=False,
            open_world_hint=tool.effect in _OUTSIDE,
        ),
    )


def own_offer(name: str, arguments: type[BaseModel]) -> Offer:
    """A tool of the server itself: its docstring and its fields."""
    return Offer(
        name=name,
        description=" ".join((arguments.__doc__ or "").split()),
        input_schema=plain(arguments.model_json_schema()),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def named(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` with the name of the investigation as one more argument that must be there."""
    return {
        **schema,
        "properties": {"investigation": NAME, **schema.get("properties", {})},
        "required": ["investigation", *schema.get("required", ())],
    }
