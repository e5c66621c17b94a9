"""The rows of ``findings.db`` as SQLModel classes, for programs that read it typed.

The schema itself is :mod:`memory.migrations`; a test holds the two together. The program writes its rows as
SQL (:mod:`memory.writing`): importing this takes a third of the memory that it may hold. Columns named
``packages``, ``scenario``, ``claim`` and ``row`` hold canonical JSON.
"""

from __future__ import annotations

from typing import ClassVar

from sqlmodel import Field, SQLModel


class FoldedRow(SQLModel, table=True):
    """How far a transcript has been folded: its last event, and the byte after that event's line."""

    __tablename__: ClassVar[str] = "folded"

    transcript: str = Field(primary_key=True)
    last_seq: int
    last_hash: str
    offset: int


class InvestigationRow(SQLModel, table=True):
    __tablename__: ClassVar[str] = "investigations"

    transcript: str = Field(primary_key=True)
    id: str
    question: str
    program: str
    driver: str
    parent: str | None = None
    opened_at: str = Field(index=True)
    updated_at: str
    events: int
    model: str | None = None
    quantisation: str | None = None
    arch: str | None = None
    gpu: str | None = None
    engine: str | None = None
    environment: str | None = None
    packages: str | None = None
    concluded_at: str | None = None
    exit_reason: str | None = None
    exit_code: int | None = None
    summary: str | None = None


class HypothesisRow(SQLModel, table=True):
    """The current state; its history is in the transcript."""

    __tablename__: ClassVar[str] = "hypotheses"

    transcript: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    component: str
    backend: str
    arch: str
    state: str
    because: str
    row: str | None = None
    opened_event: int
    event: int


class FindingRow(SQLModel, table=True):
    """A claim. ``subject`` hashes what it is about, ``says`` what it says of that, ``account`` who says so;
    ``transcript`` and ``event`` are its first sighting, ``seen_at`` the time of its last; ``origin``: whether
    any of them is ``own``. Its status is in ``v_findings``."""

    __tablename__: ClassVar[str] = "findings"

    id: str = Field(primary_key=True)
    subject: str
    says: str
    account: str
    origin: str
    component: str
    backend: str
    arch: str
    engine: str
    packages: str
    scenario: str
    level: str
    verdict: str | None = None
    outcome: str | None = None
    because: str | None = None
    runs_instead: str | None = None
    model: str | None = None
    quantisation: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    driver: str | None = None
    url: str | None = None
    date: str | None = None
    sentence: str
    claim: str
    transcript: str
    event: int
    recorded_at: str
    seen_at: str


class PositionRow(SQLModel, table=True):
    """What is said of a subject, and how it stands (:mod:`memory.trust`)."""

    __tablename__: ClassVar[str] = "positions"

    subject: str = Field(primary_key=True)
    level: str = Field(primary_key=True)
    origin: str = Field(primary_key=True)
    says: str = Field(primary_key=True)
    account: str = Field(primary_key=True)
    sign: int
    latest: str
    last_at: str
    last_transcript: str
    last_event: int
    times: int
    status: str
    instead: str | None = None


class SightingRow(SQLModel, table=True):
    """An event that recorded a finding; the same finding may be recorded by several investigations."""

    __tablename__: ClassVar[str] = "sightings"

    finding: str = Field(primary_key=True)
    transcript: str = Field(primary_key=True)
    event: int = Field(primary_key=True)
    at: str
    origin: str


class EvidenceRow(SQLModel, table=True):
    """``kind`` is ``source`` (package … idiom are set) or ``event`` (transcript, head, event are set)."""

    __tablename__: ClassVar[str] = "evidence"

    finding: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    kind: str
    package: str | None = None
    version: str | None = None
    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    idiom: str | None = None
    transcript: str | None = None
    head: str | None = None
    event: int | None = None
    sha256: str
    text: str


class MeasurementRow(SQLModel, table=True):
    """A number of a finding, and where in which event's result it stands."""

    __tablename__: ClassVar[str] = "measurements"

    finding: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    metric: str
    value: float
    unit: str
    event: int
    json_pointer: str


class ExperimentRow(SQLModel, table=True):
    """A call that tests a hypothesis, or that runs something. ``seconds``: from asking to the answer, or what
    the result says itself; ``status`` and what follows from it are null where it has not returned."""

    __tablename__: ClassVar[str] = "experiments"

    transcript: str = Field(primary_key=True)
    call: str = Field(primary_key=True)
    tool: str
    rung: str | None = None
    hypothesis: str | None = None
    environment: str | None = None
    level: str | None = None
    verdict: str | None = None
    outcome: str | None = None
    status: str | None = None
    seconds: float | None = None
    gpu_seconds: float | None = None
    fingerprint: str | None = None
    asked_event: int
    asked_at: str
    event: int | None = None
