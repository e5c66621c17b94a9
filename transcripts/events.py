"""Event format 1: what one line of a transcript holds.

A transcript is a JSONL file. Each line is an :class:`Event`; ``prev`` is the ``hash`` of the line
before (64 zeros for the first) and ``hash`` is the sha256 of the event's canonical JSON without
``hash`` itself (keys sorted, no spaces, UTF-8). The chain shows accidents, not forgery: who changes
a line can make the hashes after it anew.

``data`` is one of the bodies below, chosen by ``kind``. Everything else (hypotheses, the report,
the rows of the database) is folded from events. Nothing is written twice for every step: a
conversation with a model names its messages by hash (:mod:`transcripts.messages`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from memory.vocabulary import Answer, Capsule, Contract, Effect, Finding, HypothesisState, Row, Sha256, Target

FORMAT = 1
FORMATS = {
    1: "a hash chain of events: calls and results, hypotheses, findings, messages by content, resumption",
}
"""Every version of the format in one line. Old ones stay readable; a newer one is refused."""
GENESIS = "0" * 64
IMPORT = "import"
"""The driver of a transcript whose findings were made on another machine, and checked when they came."""
ACCOUNTS = "accounts"
"""The driver of a transcript whose findings are what others said."""


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
    """``INVESTIGATION@EVENT`` of the transcript this one was forked from: events 1 to EVENT are its own."""
    redacted: int = Field(default=0, ge=0)
    """How many strings were redacted after they had been written. Hashes from before stand no longer."""


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
    """A finding that the store accepted. ``capsule``: what it cites, where that is of another machine."""

    kind: Literal["found"] = "found"
    finding: Finding
    capsule: Capsule | None = Field(default=None, exclude_if=lambda value: value is None)


class Resumed(Contract):
    """Another process goes on: what was concluded is open again, and open calls are interrupted."""

    kind: Literal["resumed"] = "resumed"
    program: str
    driver: str
    cut: int = Field(default=0, ge=0)
    """Bytes of a torn last line that were cut off."""
    open: tuple[str, ...] = ()
    """Calls that had not returned: each gets a ``returned`` with status ``interrupted`` next."""
    again: tuple[str, ...] = ()
    """Calls that had failed in a way that ended the investigation: they count as not made."""
    llm: dict[str, Any] = Field(default_factory=dict)
    """What takes the place of the option ``llm`` from here on: which model decides, and what it may spend."""


class Said(Contract):
    """One message of a conversation with a model, written when it is first used."""

    kind: Literal["said"] = "said"
    id: Sha256
    """sha256 of the canonical JSON of ``{"message": …, "parent": …}``."""
    parent: Sha256 | None
    """The message before it; None for the first. A request names the last one alone."""
    message: dict[str, Any] | None = None
    """As the model's interface has it; None where it is too large, then ``artifact`` holds it."""
    artifact: Sha256 | None = None


class Asked(Contract):
    """A model is about to be asked: on disk before the request is sent."""

    kind: Literal["asked"] = "asked"
    request: str
    model: str
    head: Sha256
    """The last message of the conversation as it is sent; those before it follow by ``parent``."""
    settings: dict[str, Any] = Field(default_factory=dict)
    tools: Sha256 | None = None
    """Artifact with the schemas of the tools that were offered."""


class Answered(Contract):
    """What a request gave. The answer itself is the message ``head``."""

    kind: Literal["answered"] = "answered"
    request: str
    status: Literal["ok", "error", "interrupted"]
    head: Sha256 | None = None
    error: str | None = None
    usage: dict[str, int] = Field(default_factory=dict)
    """Tokens, by the names that the interface gives them."""
    waited: float = Field(default=0.0, ge=0.0)
    """Seconds spent waiting to retry."""


class Steered(Contract):
    """What a person asked of the investigation while it ran, heeded before the next step.

    ``skip``: nothing more is tested of it; ``prefer``: it is tested before others; ``stop``: nothing more is
    done. Of a ``component``, of one ``backend`` of it, or (``stop``) of neither.
    """

    kind: Literal["steered"] = "steered"
    message: Annotated[str, Field(pattern=r"^[0-9a-f]{1,32}$")]
    """Its id: a message counts once."""
    asks: Literal["skip", "prefer", "stop"]
    component: Annotated[str, Field(max_length=200)] | None = None
    backend: Annotated[str, Field(max_length=200)] | None = None


class Noted(Contract):
    """Something worth keeping that changes nothing: a warning, a decision of the driver."""

    kind: Literal["noted"] = "noted"
    text: str


class Concluded(Contract):
    """The last event of a finished investigation, or of one that may be resumed. Every exit is one, a crash
    too."""

    kind: Literal["concluded"] = "concluded"
    exit_reason: Literal["answered", "none_viable", "missing", "stopped", "interrupted", "failed"]
    exit_code: int
    summary: str
    answer: Answer | None = None


Body = Annotated[
    Opened
    | Resumed
    | Understood
    | HypothesisChanged
    | Called
    | Returned
    | Found
    | Said
    | Asked
    | Answered
    | Noted
    | Steered
    | Concluded,
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
