"""What the gate is asked, what it answers, and what is kept of a server to be compared with others."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.terms import Level, Outcome
from tools.errors import ToolError


class CheckServer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: str
    model: str | None = None
    """Its name there; else the first that is served."""
    reference: str | None = None
    """Address of a server that is taken to be right, with the same model."""
    reference_model: str | None = None
    reference_run: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Artifact with what such a server answered before (``run`` of its result)."""
    concurrency: int = Field(default=64, ge=1, le=4096)
    rounds: int = Field(default=4, ge=1, le=64)
    questions: int = Field(default=200, ge=0, le=5000)
    seed: int = Field(default=0, ge=0)
    random_weights: bool = False
    """What it says means nothing: only numbers, repeats and load are looked at."""
    timeout: float = Field(default=120, gt=0, le=3600)
    """Seconds without any answer, after which one is not waited for any more."""
    minutes: float = Field(default=15, gt=0, le=600)
    engine: str | None = None
    environment: str = ""
    """In which it runs, where that is known."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Variables and options that it was started with, where they are known."""


class Example(BaseModel):
    kind: str
    prompt: str
    alone: str
    got: str
    why: str


class Stage(BaseModel):
    name: str
    outcome: Outcome
    because: str
    figures: dict[str, float]
    examples: list[Example]
    notes: list[str]
    seconds: float


class Checked(BaseModel):
    """``run``: the artifact with what was answered, to be a reference for others."""

    level: Level
    outcome: Outcome
    because: str
    url: str
    model: str
    concurrency: int
    stages: list[Stage]
    notes: list[str]
    seconds: float
    requests: int
    run: str | None
    gpu: str | None = None
    gpu_count: int | None = None
    driver: str | None = None


class Run(BaseModel):
    """What one server answered, as a reference is kept."""

    model_config = ConfigDict(extra="forbid")

    format: int = 1
    model: str
    seed: int
    prompts: list[str]
    answers: list[list[tuple[str, float | None, dict[str, float]]]]
    """To each prompt: token, logprob, the best by token."""
    questions: list[str]
    right: list[bool]


def read_run(data: bytes) -> Run:
    """Raises :class:`ToolError` for what is no stored run."""
    try:
        run = Run.model_validate_json(data)
        if run.format != 1 or len(run.answers) != len(run.prompts) or len(run.right) != len(run.questions):
            raise ValueError
    except (ValidationError, ValueError, RecursionError):
        raise ToolError("this is no stored run; expected the file that agent check --save wrote") from None
    return run
