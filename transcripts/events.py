"""Event format 1: what one line of a transcript holds.

A transcript is a JSONL file. Each line is an :class:`Event`; ``prev`` is the ``hash`` of the line
before (64 zeros for the first) and ``hash`` is the sha256 of the event's canonical JSON without
``hash`` itself (keys sorted, no spaces, UTF-8). The chain shows accidents, not forgery.

``data`` is one of the bodies below, chosen by ``kind``. Everything else (hypotheses, the report,
the rows of the database) is folded from events.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from memory.vocabulary import Answer, Contract, Effect, Finding, HypothesisState, Row, Sha256, Target

FORMAT = 1
GENESIS = "0" * 64


class Opened(Contract):
    """The first event of every transcript."""

    kind: Literal["opened"] = "opened"
    format: Literal[1] = 1
    investigation: str
    program: str
    """Distribution and version that writes, e.g. ``assay-agent 0.1.0``."""
    driver: str
    question: str
    seed: int
    options: dict[str, Any] = Field(default_factory=dict)
    parent: str | None = None
    """``INVESTIGATION@EVENT`` of the transcript this one was forked from."""


class Understood(Contract):
    """The question as parsed, with the defaults that were taken."""

    kind: Literal["understood"] = "understood"
    target: Target
    environment: str
    packages: dict[str, str]


class HypothesisChanged(Contract):
    """ "Backend B for component C is viable for this target", opened or moved to a new state."""

    kind: Literal["hypothesis"] = "hypothesis"
    id: str
    component: str
    backend: str
    arch: str
    state: HypothesisState
    because: str
    """One sentence: why it moved."""
    row: Row | None = None
    causes: tuple[int, ...] = ()
    """Events that it rests on."""


class Called(Contract):
    """A tool is about to run: on disk before it does."""

    kind: Literal["called"] = "called"
    call: str
    tool: str
    effect: Effect
    input: dict[str, Any]
    why: str = ""
    rung: str | None = None
    hypothesis: str | None = None


class Returned(Contract):
    """What a call gave. ``output`` is capped; ``artifact`` then points to the whole."""

    kind: Literal["returned"] = "returned"
    call: str
    status: Literal["ok", "error", "denied", "interrupted"]
    output: Any = None
    error: str | None = None
    artifact: Sha256 | None = None
    artifact_bytes: int | None = None


class Found(Contract):
    """A finding that the store accepted."""

    kind: Literal["found"] = "found"
    finding: Finding


class Noted(Contract):
    """Something worth keeping that changes nothing: a warning, a decision of the driver."""

    kind: Literal["noted"] = "noted"
    text: str


class Concluded(Contract):
    """The last event of a finished investigation. Every exit is one, a crash too."""

    kind: Literal["concluded"] = "concluded"
    exit_reason: Literal["answered", "none_viable", "missing", "stopped", "interrupted", "failed"]
    exit_code: int
    summary: str
    answer: Answer | None = None


Body = Annotated[
    Opened | Understood | HypothesisChanged | Called | Returned | Found | Noted | Concluded,
    Field(discriminator="kind"),
]


class Event(Contract):
    """One line of a transcript."""

    seq: int = Field(ge=0)
    at: str
    """UTC, ISO 8601 with milliseconds and ``Z``, from the injected clock."""
    data: Body
    prev: Sha256
    hash: Sha256
