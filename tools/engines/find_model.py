"""Find which classes of an installed engine serve a model."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from memory.vocabulary import Effect
from tools.base import tool
from tools.engines.adapter import require_installed
from tools.engines.models import ModelMatch, find
from tools.source._open import open_tree


class FindModelInput(BaseModel):
    environment: str = Field(description="Name or folder of the environment")
    model: str = Field(
        min_length=1, max_length=300, description="As people write it, a repository's name, or a class"
    )
    engine: str = "sglang"


@tool(effect=Effect.READS)
def find_model(args: FindModelInput, context: Any) -> ModelMatch:
    """Find the classes that the installed engine registers for a model's name; several or none are listed."""
    tree = open_tree(args.environment, context)
    return find(tree, require_installed(args.engine, tree), args.model)
