"""How far the static verdicts agree with a table that somebody read by hand.

A table has a row for each cell: ``component``, ``backend``, ``arch``, ``verdict`` (``yes`` or ``no``; others,
such as ``conditional``, are not scored), ``shallow_verdict`` (what the engine's first gate alone says) and
``evidence_package`` (where the deciding line or library is, ``NAME==VERSION``). Of ours, ``blocked`` and
``not_applicable`` are a no, ``no_static_obstacle`` and ``rerouted`` are a yes, ``unknown`` is neither.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from agent.words import quantisation_named, words_data
from memory.architecture import ArchitectureError, parse_architecture
from memory.names import distribution
from memory.terms import Verdict
from tools.errors import ToolError

COLUMNS = ("component", "backend", "arch", "verdict", "shallow_verdict", "evidence_package")
LARGEST = 16 << 20
"""Bytes of a table that are read."""

MEANS = {
    Verdict.BLOCKED: "no",
    Verdict.NOT_APPLICABLE: "no",
    Verdict.NO_STATIC_OBSTACLE: "yes",
    Verdict.REROUTED: "yes",
    Verdict.UNKNOWN: "",
}


@dataclass(frozen=True)
class Expected:
    """One row of a table. ``label`` is the component as the table calls it."""

    label: str
    component: str
    quantisation: str | None
    backend: str
    arch: str
    verdict: str
    first_gate: str
    package: str


@dataclass(frozen=True)
class Scored:
    """A row and our verdict. ``present``: what the row rests on is in the environment."""

    expected: Expected
    verdict: str
    present: bool

    @property
    def said(self) -> str:
        return MEANS[Verdict(self.verdict)]

    @property
    def agrees(self) -> bool:
        return self.said == self.expected.verdict

    @property
    def hard(self) -> bool:
        """The first gate lets it through and the whole way does not."""
        return self.expected.first_gate == "yes" and self.expected.verdict == "no"


def read_table(path: Path) -> list[Expected]:
    """The rows of a table. Raises :class:`ToolError` for what is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read(LARGEST)
        rows = list(csv.DictReader(text.splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ToolError(f"cannot read {path}: {error}; expected a CSV file") from error
    missing = [name for name in COLUMNS if not rows or rows[0].get(name) is None]
    if missing:
        raise ToolError(f"{path} has no column {', '.join(missing)}; expected {', '.join(COLUMNS)}")
    return [_row(path, number, row) for number, row in enumerate(rows, 2)]


def _row(path: Path, number: int, row: Mapping[str, str | None]) -> Expected:
    values = {name: (row.get(name) or "").strip() for name in COLUMNS}
    try:
        arch = parse_architecture(values["arch"]).name
    except ArchitectureError as error:
        raise ToolError(f"{path}, line {number}: {error}") from error
    if not values["component"] or not values["backend"] or not values["verdict"]:
        raise ToolError(f"{path}, line {number}: a component, a backend and a verdict are expected")
    known = _known(values["component"], (row.get("engine") or "").strip())
    return Expected(
        label=values["component"],
        component=known.get("component", values["component"]),
        quantisation=known.get("quantisation"),
        backend=values["backend"],
        arch=arch,
        verdict=values["verdict"],
        first_gate=values["shallow_verdict"],
        package=values["evidence_package"],
    )


def _known(label: str, engine: str) -> dict[str, str]:
    """What the label of a table means: with one engine, or by what it begins with."""
    tables = _tables()
    known: dict[str, str] = tables["engine"].get(engine, {}).get(label, {})
    begins, _, scheme = label.partition("_")
    named = quantisation_named(scheme)
    if not known and begins in tables["begins"] and named in words_data()["quantisation"]:
        return {"component": tables["begins"][begins], "quantisation": str(named)}
    return known


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((files("agent") / "data" / "truth.toml").read_text("utf-8"))


def holds(packages: Mapping[str, str], wanted: str) -> bool:
    """Whether an environment has the distribution ``NAME==VERSION``, in whatever version."""
    name = distribution(wanted.partition("==")[0].strip())
    return not name or name in {distribution(package) for package in packages}


def score(
    expected: Iterable[Expected], verdict_of: Callable[[Expected], str], packages: Mapping[str, str]
) -> dict[str, Any]:
    """All figures, as one document. ``verdict_of`` gives our verdict of a row."""
    rows = list(expected)
    scored = [
        Scored(row, verdict_of(row), holds(packages, row.package))
        for row in rows
        if row.verdict in ("yes", "no")
    ]
    present = [one for one in scored if one.present]
    return {
        "packages": dict(packages),
        "not_scored": len(rows) - len(scored),
        "all": figures(present),
        "evidence_absent": figures([one for one in scored if not one.present]),
        "components": _by(present, lambda one: one.expected.label),
        "architectures": _by(present, lambda one: one.expected.arch),
        "wrong": [_cell(one) for one in scored if one.said and not one.agrees],
        "undecided": [_cell(one) for one in scored if not one.said],
    }


def figures(cells: Sequence[Scored]) -> dict[str, int]:
    """Counts, from which every share follows; ``first_gate`` is the agreement of the first gate alone."""
    blocked = [one for one in cells if one.verdict == Verdict.BLOCKED]
    negative = [one for one in cells if one.expected.verdict == "no"]
    hard = [one for one in cells if one.hard]
    beside = {(one.expected.label, one.expected.backend) for one in hard}
    return {
        "cells": len(cells),
        "agree": sum(one.agrees for one in cells),
        "undecided": sum(not one.said for one in cells),
        "blocked": len(blocked),
        "blocked_right": sum(one.agrees for one in blocked),
        "no": len(negative),
        "no_found": sum(one.agrees for one in negative),
        "hard": len(hard),
        "hard_found": sum(one.agrees for one in hard),
        "neighbours_blocked": sum(
            not one.agrees and (one.expected.label, one.expected.backend) in beside for one in blocked
        ),
        "first_gate": sum(one.expected.first_gate == one.expected.verdict for one in cells),
    }


def _by(cells: Sequence[Scored], key: Callable[[Scored], str]) -> dict[str, dict[str, int]]:
    names = dict.fromkeys(key(one) for one in cells)
    return {name: figures([one for one in cells if key(one) == name]) for name in names}


def _cell(one: Scored) -> dict[str, Any]:
    return {
        "component": one.expected.component,
        "backend": one.expected.backend,
        "arch": one.expected.arch,
        "expected": one.expected.verdict,
        "verdict": str(one.verdict),
        "hard": one.hard,
        "evidence_package": one.expected.package,
        "evidence_present": one.present,
    }
