"""List what an installed engine can be told to use."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from memory.vocabulary import Effect
from tools.base import ToolError, tool
from tools.engines.options import Option, backend_options, discover_options
from tools.source._open import open_tree


class BackendsInput(BaseModel):
    environment: str = Field(description="Name or folder of the environment")
    engine: str = "sglang"
    component: str | None = Field(default=None, description="e.g. fp4_gemm, moe_runner, attention")
    all_options: bool = Field(
        default=False, description="Also options that do not choose among implementations"
    )


class BackendsResult(BaseModel):
    engine: str
    components: list[str]
    """All components that can be asked for, sorted."""
    options: list[Option]


@tool(effect=Effect.READS)
def list_backends(args: BackendsInput, context: Any) -> BackendsResult:
    """List every backend that the installed engine accepts, by component, with the line that declares it."""
    found = discover_options(open_tree(args.environment, context), args.engine)
    shown = found if args.all_options else backend_options(found)
    components = sorted({option.component for option in shown})
    if args.component is not None:
        chosen = [option for option in found if option.component == args.component]
        if not chosen:
            raise ToolError(
                f"{args.engine} has no component {args.component!r} here; it has {', '.join(components)}"
            )
        shown = chosen
    return BackendsResult(engine=args.engine, components=components, options=shown)
