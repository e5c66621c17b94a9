"""What a server is asked to run with: typed, and the same whatever the engine calls it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=64)]
"""One word: no path, no flag."""


class ServerSettings(BaseModel):
    """``backends``: by component, as `agent backends` names them. ``options``: further flags of the engine by
    name, without dashes; true and false for those that take no value."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1, max_length=4096)
    """A folder with the model, or its name on a hub."""
    engine: str = "sglang"
    backends: dict[str, Word] = Field(default_factory=dict, max_length=30)
    tensor_parallel: int = Field(default=1, ge=1, le=1024)
    dtype: Word | None = None
    quantisation: Word | None = None
    context_length: int | None = Field(default=None, ge=1, le=1 << 24)
    memory_fraction: float | None = Field(default=None, gt=0, le=1)
    load_format: Word | None = None
    """How the engine gets the weights; ``dummy`` makes them up."""
    device: Literal["gpu", "cpu"] = "gpu"
    options: dict[str, bool | int | float | str] = Field(default_factory=dict, max_length=60)
