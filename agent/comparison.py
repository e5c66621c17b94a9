"""Two matrices of the same question on different packages: which verdicts differ, and by which lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agent.counterpart import counterpart
from agent.reasons import deciding
from memory.terms import Verdict

if TYPE_CHECKING:
    from memory.vocabulary import Row
    from tools.source.tree import SourceTree
    from tools.viability.trace import Trace

Key = tuple[str, str, str]


def comparison(
    before: Iterable[Trace],
    after: Iterable[Trace],
    packages: tuple[Mapping[str, str], Mapping[str, str]],
    trees: tuple[SourceTree, SourceTree],
) -> dict[str, Any]:
    """Rows that say something else, in the order of ``before``, then those that are new.

    A row that one side does not have (a backend that came or went) is None there. What runs instead counts as
    part of the verdict, the lines that prove it do not. ``notes`` say why an unknown one is not decided.
    ``became`` says of the line that refuses on one side what it is on the other (null: nothing refuses, or it
    is gone there).
    """
    old, new = _by_cell(before), _by_cell(after)
    changed = []
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        rows = [trace.row if trace is not None else None for trace in (was, now)]
        if _says(rows[0]) != _says(rows[1]):
            notes = [list(trace.notes[:1]) if trace is not None else [] for trace in (was, now)]
            cell = dict(zip(("component", "backend", "arch"), key, strict=True))
            became = [_became(row, *order) for row, order in zip(rows, (trees, trees[::-1]), strict=True)]
            changed.append({**cell, "before": rows[0], "after": rows[1], "notes": notes, "became": became})
    return {
        "before": dict(packages[0]),
        "after": dict(packages[1]),
        "cells": len({*old, *new}),
        "changed": changed,
    }


def _became(row: Row | None, here: SourceTree, there: SourceTree) -> dict[str, Any] | None:
    """What the line that refuses is on the other side."""
    place = deciding(row) if row is not None and row.verdict == Verdict.BLOCKED else None
    found = counterpart(place, here, there) if place is not None else None
    return found._asdict() if found is not None else None


def _by_cell(traces: Iterable[Trace]) -> dict[Key, Trace]:
    return {(trace.row.component, trace.row.backend, trace.row.arch): trace for trace in traces}


def _says(row: Row | None) -> tuple[object, ...] | None:
    return None if row is None else (row.verdict, row.runs_instead)
