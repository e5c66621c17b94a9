"""The models that travel between the parts of the project, and its terms (:mod:`memory.terms`).

Everything here is a contract: changing a field means a new ``format`` and a new golden file.
Definitions are in ``docs/concepts.md``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory.terms import (
    Because as Because,
    CallKind as CallKind,
    Effect as Effect,
    FindingStatus as FindingStatus,
    HypothesisState as HypothesisState,
    Level as Level,
    Outcome as Outcome,
    Verdict as Verdict,
)

FORMAT = 1

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _is_none(value: object) -> bool:
    return value is None


class Contract(BaseModel):
    """A frozen model whose unknown fields are refused: a stored document is read as written or not at all."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_enum_values=False)


class Evidence(Contract):
    """Lines of a package as they were read.

    ``line`` and ``end_line`` are 1-based and inclusive. ``sha256`` is over the UTF-8 bytes of those
    lines joined with a newline, no newline after the last (``tools.source.tree.span_sha256``).
    ``text`` is the same lines, stripped of common indentation and cut to what a person reads.
    """

    package: str
    version: str
    file: str
    line: int = Field(ge=1)
    end_line: int = Field(ge=1)
    sha256: Sha256
    text: str
    idiom: str


class Condition(Contract):
    """A fact that the verdict depends on and the scenario does not fix, e.g. ``cudnn_backend >= 91002``."""

    fact: str
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "unknown"]
    value: Any


class FirstGate(Contract):
    """What a reader with grep finds first: the engine's own outermost gate and what it says."""

    verdict: Verdict
    file: str
    line: int


class Observed(Contract):
    """What an experiment, not a reading, says."""

    level: Level
    outcome: Outcome
    experiment: str


class Row(Contract):
    """One backend of one component on one architecture, under one scenario."""

    format: Literal[1] = 1
    component: str
    backend: str
    arch: str
    verdict: Verdict
    because: Because | None = None
    conditions: tuple[Condition, ...] = ()
    runs_instead: str | None = None
    first_gate: FirstGate | None = None
    observed: Observed | None = None
    state: HypothesisState = HypothesisState.OPEN
    evidence: tuple[Evidence, ...] = ()


class Recommendation(Contract):
    """A launch command, and how far it can be trusted."""

    command: str
    tested: bool
    ranked_by: tuple[str, ...]
    alternatives: tuple[str, ...] = ()


class Target(Contract):
    """What is asked about. ``None``: the question did not say. Defaults taken are in ``assumed``."""

    question: str
    model: str | None = None
    model_classes: tuple[str, ...] = ()
    quantisation: str | None = None
    arch: str
    gpu: str | None = None
    gpu_count: int | None = None
    engine: str = "sglang"
    packages: dict[str, str] = Field(default_factory=dict)
    """Versions named in the question, by distribution name."""
    assumed: tuple[str, ...] = ()
    """Defaults taken, each as one sentence for the person."""


class EnvironmentSummary(Contract):
    packages: dict[str, str]
    name: str | None = None
    fingerprint: str | None = None


class NotRun(Contract):
    """A step that would say more, and what it would take."""

    level: Level
    what: str
    command: str | None = None
    minutes: float | None = None


class Answer(Contract):
    """``agent investigate --json``."""

    format: Literal[1] = 1
    investigation: str
    target: Target
    environment: EnvironmentSummary
    backends: tuple[Row, ...]
    recommendation: Recommendation | None
    not_run: tuple[NotRun, ...]
    transcript: str


class EventEvidence(Contract):
    """Evidence that is an event of a transcript: which log, which event, which words of it."""

    transcript: str
    head: Sha256
    """Hash of the transcript's last event when the evidence was taken."""
    event: int = Field(ge=0)
    excerpt: str
    sha256: Sha256
    """Over the UTF-8 bytes of ``excerpt``, which must occur in the event's line."""


class Measurement(Contract):
    """A number in a finding: where it stands in a recorded result, so that the store can look."""

    metric: str
    value: float
    unit: str
    event: int = Field(ge=0)
    json_pointer: str


class Scope(Contract):
    """What more a claim is about than its component, backend, architecture, versions and scenario.

    ``archs``: architectures beside that of the claim, of which it was said too. ``ranges``: versions by
    distribution name, as PEP 440 writes sets of them (``<0.6.6``), for what was reported of more than one;
    who read or ran something names the exact versions in ``packages``. ``gpu`` and ``driver`` are those of
    the machine on which something ran.
    """

    archs: tuple[str, ...] = ()
    ranges: dict[str, str] = Field(default_factory=dict)
    model: str | None = None
    quantisation: str | None = None
    gpu: str | None = None
    gpu_count: int | None = Field(default=None, ge=1)
    driver: str | None = None


class Report(Contract):
    """Someone else's account: where it stands, and of which day, month or year; None where it does not say.

    ``note`` is free text and proves nothing.
    """

    url: str | None
    date: str | None = Field(pattern=r"^\d{4}(-\d{2}){0,2}$")
    by: Literal["reporter", "maintainer", "release", "person"]
    """Who vouches for it: who reported it, a maintainer, a release that fixed it, or the person here."""
    note: str = ""


class CapsuleEvent(Contract):
    """An event of a transcript as it stands there, to be looked at where the transcript is not."""

    transcript: str
    line: str


class Capsule(Contract):
    """What a finding cites, to travel with it.

    ``events``: the cited events and the calls that they answer. ``spans``: cited lines by their sha256,
    joined with a newline. ``wholes``: by sha256, the whole of results that their event holds cut. ``judged``:
    of what was read, what the analyser was asked, without the name of the environment; it proves nothing.
    """

    events: tuple[CapsuleEvent, ...] = ()
    spans: dict[str, str] = Field(default_factory=dict)
    wholes: dict[str, str] = Field(default_factory=dict)
    judged: dict[str, Any] | None = Field(default=None, exclude_if=_is_none)


class Claim(Contract):
    """What a finding says, before the store has checked it. The sentence is rendered from these fields.

    ``scope`` and ``report`` are left out where there are none: a claim from before they were is the same one.
    """

    component: str
    backend: str
    arch: str
    engine: str
    packages: dict[str, str]
    """The version tuple that the claim is about, by distribution name."""
    scenario: dict[str, str] = Field(default_factory=dict)
    level: Level
    verdict: Verdict | None = None
    outcome: Outcome | None = None
    because: Because | None = None
    runs_instead: str | None = None
    conditions: tuple[Condition, ...] = ()
    source_evidence: tuple[Evidence, ...] = ()
    event_evidence: tuple[EventEvidence, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    scope: Scope | None = Field(default=None, exclude_if=_is_none)
    report: Report | None = Field(default=None, exclude_if=_is_none)


class Finding(Contract):
    """A claim that the store has accepted. ``id`` is derived from the claim, so the same claim is one row."""

    format: Literal[1] = 1
    id: str
    claim: Claim
    status: FindingStatus = FindingStatus.CURRENT
    transcript: str
    event: int
    """The event that recorded it."""
