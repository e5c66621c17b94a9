"""Whether what an engine settles beside a simulated device, or what came of compiling, is what reading said
of it, and if not, why.

A dry run ends where start-up ends. What is refused further down is not reached by it: then the functions that
ran say so, since the line that refuses is in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory.terms import Outcome, Verdict

AGREES, DEEPER, LATER, DIFFERS, OPEN = "agrees", "decided deeper", "decided later", "differs", "not decided"
EARLIER = "decided earlier"
"""``deeper``: reading goes on to a line that start-up does not reach; ``later``: start-up leaves the choice
to the layer; ``earlier``: a line in front of the module refuses, and what it keeps out would compile."""
_DECIDE = (Outcome.OK, Outcome.UNSUPPORTED, Outcome.COMPILE_FAILED)


def agreement(
    cell: Mapping[str, Any], outcome: str, measured: Mapping[str, Any], trace: Mapping[str, Any]
) -> tuple[str, str]:
    """One of the words above, and the reason. ``trace``: what ``trace_viability`` gave for the backend."""
    row = trace["row"]
    verdict, became = row["verdict"], (measured.get("resolved") or {}).get(cell["component"])
    if verdict in (Verdict.UNKNOWN, Verdict.NOT_APPLICABLE) or outcome == Outcome.NOT_RUN:
        return (
            OPEN,
            "reading does not decide it" if outcome != Outcome.NOT_RUN else "it could not be simulated",
        )
    if outcome == Outcome.UNSUPPORTED:
        return _refused(verdict, measured, row)
    if verdict == Verdict.BLOCKED:
        return _passed(measured, row)
    leads = row["runs_instead"]
    if leads in (None, became):
        return AGREES, f"both lead to {became}"
    if became == cell["backend"]:
        return LATER, f"start-up leaves {became}; reading follows it on to {leads}"
    return DIFFERS, f"start-up settles {became}, reading says {leads}"


def _refused(verdict: str, measured: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, str]:
    where = measured.get("where") or ["?", 0]
    place = f"{where[0]}:{where[1]}"
    if verdict == Verdict.BLOCKED:
        return AGREES, f"both refuse it; start-up at {place}"
    return DIFFERS, f"start-up refuses it at {place}, reading does not"


def _passed(measured: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, str]:
    gate = row["evidence"][0] if row["evidence"] else None
    if gate is None:
        return DIFFERS, "reading refuses it"
    place = f"{gate['file']}:{gate['line']}"
    ran = (measured.get("reached") or {}).get(gate["file"], ())
    if any(first <= gate["line"] <= last for first, last in ran):
        return DIFFERS, f"reading refuses it at {place}, in a function that start-up passes"
    return DEEPER, f"refused at {place}, which start-up does not reach"


def compiling(cell: Mapping[str, Any], outcome: str, trace: Mapping[str, Any]) -> tuple[str, str]:
    """The same of a module: ``cell`` is the one that was compiled, ``trace`` of what leads to it."""
    row = trace["row"]
    verdict = row["verdict"]
    if outcome not in _DECIDE:
        return OPEN, "it could not be compiled here"
    if verdict not in (Verdict.BLOCKED, Verdict.NO_STATIC_OBSTACLE):
        return OPEN, "reading does not decide it" if verdict == Verdict.UNKNOWN else "other code runs for it"
    compiles = outcome == Outcome.OK
    if verdict == Verdict.NO_STATIC_OBSTACLE:
        if compiles:
            return AGREES, "nothing refuses it, and it compiles"
        return DIFFERS, "reading finds nothing that refuses it"
    file = str(row["evidence"][0]["file"]) if row["evidence"] else "?"
    place = f"{file}:{row['evidence'][0]['line']}" if row["evidence"] else file
    if not compiles:
        return AGREES, f"both refuse it; reading at {place}"
    if cell["function"].partition(":")[0].replace(".", "/") == file.removesuffix(".py"):
        return DIFFERS, f"reading refuses it at {place}, which the library passes"
    return EARLIER, f"refused at {place}, in front of what compiles"
