"""What one launch of a server is asked for, and what is told of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from memory.terms import Level, Outcome
from memory.vocabulary import Contract
from tools.benchmark.loads import Loads, Measured
from tools.quality.checked import Checked
from tools.server.failure import Failure
from tools.server.settings import ServerSettings
from tools.server.used import Used

MINUTES = 60.0
"""For a start."""


class TryServer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str
    settings: ServerSettings
    layers: int | None = Field(default=None, ge=1, le=64)
    """Of a shrunk copy of the model with made-up weights; None: the model itself."""
    gpus: tuple[Annotated[str, Field(max_length=64)], ...] = Field(default=(), max_length=64)
    """By index or UUID, as the person named them; else the first that nobody uses."""
    concurrency: int = Field(default=64, ge=0, le=4096)
    """Other requests at a time while it is checked; 0: it is only started."""
    rounds: int = Field(default=4, ge=1, le=64)
    questions: int = Field(default=0, ge=0, le=5000)
    random_weights: bool = False
    """What the model says means nothing: only numbers, repeats and load count."""
    reference_run: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Artifact with what a server of the same model answered, to compare with."""
    minutes: float = Field(default=MINUTES, gt=0, le=600)
    """For the start, while it makes progress."""
    in_all: float | None = Field(default=None, ge=0)
    """Minutes for the whole launch, its check and its loads; None: no limit but those of each."""
    loads: Loads | None = None
    """What it is measured with once it has passed the gate; None: it is not."""
    launch: int = Field(default=1, ge=1, le=1000)
    """Which one this is of those with the same settings."""


class Launched(Contract):
    """How one launch ended. ``command`` is without key; ``log`` is an artifact, without it too."""

    outcome: Outcome
    because: str
    level: Level
    engine: str
    versions: dict[str, str]
    model: str
    layers: int | None
    asked: dict[str, str]
    options: dict[str, str] = Field(default_factory=dict)
    """Further ones of the engine, as they were asked for."""
    used: tuple[Used, ...] = ()
    command: tuple[str, ...]
    ready_seconds: float | None = None
    phases: dict[str, float] = Field(default_factory=dict)
    failure: Failure | None = None
    checked: Checked | None = None
    benchmark: Measured | None = None
    kernels: tuple[str, ...] = ()
    log: str | None = None
    arch: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    driver: str | None = None
    ended_seconds: float | None = None
    left: tuple[int, ...] = ()
    memory_left: dict[str, int] = Field(default_factory=dict)
    machine: tuple[str, ...] = ()
    """What of this machine may hold a server back, at that time."""
    seconds: float = 0.0
    """From the first process to the last."""

    @property
    def substituted(self) -> tuple[Used, ...]:
        return tuple(one for one in self.used if one.substituted)
