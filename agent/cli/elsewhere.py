"""The same cell with other versions: those that were read before, and those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.cli.common import progress
from agent.cli.matrix import Question, known_verdict, traces
from memory.home import Home
from tools.environment.model import Environment
from tools.environment.store import list_environments
from tools.viability.cache import TraceCache


def elsewhere(
    home: Home, here: Environment, question: Question, asked: Sequence[Environment]
) -> list[dict[str, Any]]:
    """``{"environment", "packages", "verdict"}`` of each, what is ``asked`` first, then the nearest.

    ``packages`` are those that differ from ``here`` (a version, or null for one that is not there); the
    nearest are those with the fewest. Of environments that nobody asks for, only those count in which the
    cell was read before.
    """
    found = [_one(here, other, traces(home, other, question)[0].row.verdict) for other in asked]
    known = []
    with TraceCache(home.source_index_db, progress) as cache:
        seen = {here.fingerprint, *(one.fingerprint for one in asked)}
        for other in list_environments(home):
            verdict = known_verdict(cache, other, question) if other.fingerprint not in seen else None
            if verdict is not None:
                seen.add(other.fingerprint)
                known.append(_one(here, other, verdict))
    return found + sorted(known, key=lambda one: (len(one["packages"]), one["environment"]))


def _one(here: Environment, other: Environment, verdict: str) -> dict[str, Any]:
    names = sorted({*here.packages, *other.packages})
    differ = {
        name: other.packages.get(name)
        for name in names
        if here.packages.get(name) != other.packages.get(name)
    }
    return {"environment": other.name, "packages": differ, "verdict": verdict}
