"""A row's reason in one line, rendered from its fields; nobody types it in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from agent.text import shorten
from memory.terms import Because, HypothesisState, Level, Outcome, Verdict

if TYPE_CHECKING:
    from memory.vocabulary import Condition, Evidence, Row
    from transcripts.events import HypothesisChanged

NAMES = {
    Verdict.BLOCKED: "blocked",
    Verdict.REROUTED: "rerouted",
    Verdict.NO_STATIC_OBSTACLE: "no static obstacle",
    Verdict.NOT_APPLICABLE: "not applicable",
    Verdict.UNKNOWN: "unknown",
}
"""The verdicts as a person reads them."""

RAN = {Level.COMPILE: "compiles", Level.IMPORTED: "kernel ran right", Level.PROBE: "kernel ran right"}
"""What a success on a level is called."""

LEFT = "left to the engine"
"""What is said of a component for which no flag is given."""

_ORDERED = frozenset({"<", "<=", ">", ">="})

UNDECIDED = "the source that was read does not decide"


def told(row: Row) -> str:
    """What is said of a row in two or three words: how it ended where something ran, else its verdict."""
    seen = row.observed
    if seen is None:
        return NAMES[row.verdict]
    if seen.outcome == Outcome.OK:
        return RAN.get(seen.level, f"ok ({seen.level})")
    return f"{seen.outcome} ({seen.level})".replace("_", " ")


def refuted(row: Row) -> bool:
    """Whether it ran, or was compiled, and failed."""
    return row.state == HypothesisState.REFUTED


def deciding(row: Row) -> Evidence | None:
    """The lines that decide: a trace gives them first, then the chain that leads there."""
    return row.evidence[0] if row.evidence else None


def where(evidence: Evidence) -> str:
    return f"{evidence.file}:{evidence.line}"


def condition(one: Condition) -> str:
    """``cudnn backend_version >= 91002``; a condition that could not be read says so."""
    # As an expression of the source the fact reads "cudnn.backend_version()", "cudnn.__version__".
    fact = one.fact.removesuffix("()").replace("__version__", "version")
    if re.fullmatch(r"\w+(\.\w+)+", fact):
        fact = fact.replace(".", " ")
    if one.op == "unknown":
        return f"{fact} (not readable)" if one.value is None else f"{fact} {one.value}"
    return f"{fact} {one.op} {_written(one)}"


def _written(one: Condition) -> str:
    """A version as people write it: ``[1, 13]`` is ``1.13`` where it is compared in order."""
    numbers = isinstance(one.value, list | tuple) and all(isinstance(part, int) for part in one.value)
    if numbers and one.op in _ORDERED:
        return ".".join(str(part) for part in one.value)
    return str(one.value)


def conditions(row: Row) -> str:
    """All of them in one line; of two lower bounds on one fact the higher says both."""
    kept: list[Condition] = []
    for one in row.conditions:
        same = next((at for at, had in enumerate(kept) if (had.fact, had.op) == (one.fact, one.op)), None)
        if same is None or one.op not in _ORDERED:
            kept.append(one)
            continue
        try:
            sharper = one.value > kept[same].value if one.op in {">", ">="} else one.value < kept[same].value
        except TypeError:
            kept.append(one)
            continue
        if sharper:
            kept[same] = one
    return " and ".join(condition(one) for one in kept)


def reason(row: Row, width: int = 200, why: str | None = None) -> str:
    """Why the row says what it says, without its verdict, in at most ``width`` characters.

    ``why`` is what the trace noted where it could not decide; a row alone does not hold it.
    """
    lines = deciding(row)
    quoted = first_line(lines) if lines else ""
    match row.verdict:
        case Verdict.BLOCKED:
            what = f"{row.because}: " if row.because else ""
            text = f"{what}{quoted}" if quoted else (str(row.because or "refused"))
        case Verdict.REROUTED:
            text = f"runs {row.runs_instead or 'other code'}"
        case Verdict.NO_STATIC_OBSTACLE:
            passes = f"if {conditions(row)}" if row.conditions else "every gate that was read lets it through"
            text = f"leads to {row.runs_instead}; {passes}" if row.runs_instead else passes
        case Verdict.NOT_APPLICABLE:
            text = str(row.because or "not reached under this scenario")
        case _:
            text = why or conditions(row) or (f"not followed beyond {quoted}" if quoted else UNDECIDED)
    return shorten(text, width)


def lists_differ(row: Row, packages: Mapping[str, str]) -> str | None:
    """Where an engine admits an architecture that a package it calls does not, at the versions at hand.

    ``packages``: name → version. None where they agree, or where the engine itself refuses.
    """
    gate, lines = row.first_gate, deciding(row)
    if row.verdict != Verdict.BLOCKED or row.because != Because.ARCHITECTURE or gate is None or lines is None:
        return None
    engine = gate.file.split("/", 1)[0]
    if gate.verdict != Verdict.NO_STATIC_OBSTACLE or lines.package == engine:
        return None
    admits = f"{engine} {packages.get(engine, '')} admits {row.arch} there"
    return f"{admits}; {lines.package} {lines.version}, which it calls, does not"


def sentence(row: Row) -> str:
    """Verdict, reason and place in one line, for a hypothesis' history."""
    lines = deciding(row)
    place = f" ({where(lines)})" if lines and row.verdict == Verdict.BLOCKED else ""
    return f"{NAMES[row.verdict]}: {reason(row)}{place}"


def undecided(hypotheses: Iterable[HypothesisChanged]) -> dict[tuple[str, str], str]:
    """Component and backend → why reading did not decide, from what the board or a transcript says."""
    return {
        (one.component, one.backend): one.because.removeprefix(f"{NAMES[Verdict.UNKNOWN]}: ")
        for one in hypotheses
        if one.row is not None and one.row.verdict == Verdict.UNKNOWN and one.because
    }


def first_line(evidence: Evidence) -> str:
    """The first line of the quoted source that is not empty and no comment."""
    lines = [line.strip() for line in evidence.text.splitlines()]
    return next((line for line in lines if line and not line.startswith("#")), "")
