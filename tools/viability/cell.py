"""The question and the answer: one cell, and its row with what explains it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from memory.vocabulary import Because, Row, Verdict
from tools.viability.interpreter.values import Site
from tools.viability.layers import Layer
from tools.viability.runs import Run

AUTOMATIC = ("auto", "none", "default")
"""Values that leave the choice to the engine; they may share their way with what they resolve to."""

CONTRASTS = ((10, 0), (12, 0), (9, 0), (8, 9), (10, 3), (12, 1), (8, 0))
"""Architectures that a refusal is contrasted with: one of each kind that engines tell apart."""


@dataclass(frozen=True)
class Cell:
    """One question: a backend of a component on an architecture. ``arch`` is ``(major, minor)``."""

    component: str
    backend: str
    arch: tuple[int, int]

    @property
    def arch_name(self) -> str:
        return f"sm{self.arch[0]}{self.arch[1]}"


class RunCell(Protocol):
    """Runs the same scenario for another backend and architecture (remembered by whoever gives it)."""

    def __call__(self, backend: str, arch: tuple[int, int], layer: Layer | None = None) -> Run:
        """``layer``: in which; else in the one that the backend is made for. Tables have none."""


@dataclass
class Judgement:
    """A row and what explains it."""

    row: Row
    hops: list[tuple[Site, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cut: bool = False
    """Whether the way was not followed to its end."""
    under: dict[str, str] = field(default_factory=dict)
    """What it was judged under beyond the scenario: the kind of model, where the way depends on it, and what
    start-up puts into options that nobody set."""
    place: str | None = None
    """The layer of the model that it is about, by its name there, where a model's config was given."""
    run: Run | None = None
    """The run that it was judged by, and how to run the same for others."""
    again: RunCell | None = None


def put_in_place(cell: Cell, other: str, judged: Judgement) -> Judgement:
    """The judgement of a backend in whose place start-up puts another one, which is judged already."""
    verdict = judged.row.verdict
    if verdict is Verdict.NO_STATIC_OBSTACLE and cell.backend not in AUTOMATIC:
        verdict = Verdict.REROUTED
    because = Because.OPTION if verdict is Verdict.REROUTED else judged.row.because
    told = {"backend": cell.backend, "verdict": verdict, "because": because, "runs_instead": other}
    row = judged.row.model_copy(update=told)
    return replace(judged, row=row, notes=[f"start-up puts {other} in its place", *judged.notes])
