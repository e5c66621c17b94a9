"""A row's reason in one line, rendered from its fields; nobody types it in."""

from __future__ import annotations

from agent.text import shorten
from memory.vocabulary import Condition, Evidence, Row, Verdict

NAMES = {
    Verdict.BLOCKED: "blocked",
    Verdict.REROUTED: "rerouted",
    Verdict.NO_STATIC_OBSTACLE: "no static obstacle",
    Verdict.NOT_APPLICABLE: "not applicable",
    Verdict.UNKNOWN: "unknown",
}
"""The verdicts as a person reads them."""

UNDECIDED = "the source that was read does not decide"


def deciding(row: Row) -> Evidence | None:
    """The lines that decide: a trace gives them first, then the chain that leads there."""
    return row.evidence[0] if row.evidence else None


def where(evidence: Evidence) -> str:
    return f"{evidence.file}:{evidence.line}"


def condition(one: Condition) -> str:
    """``cudnn_backend >= 91002``; a condition that could not be read says so."""
    if one.op == "unknown":
        return f"{one.fact} (not readable)" if one.value is None else f"{one.fact} {one.value}"
    return f"{one.fact} {one.op} {one.value}"


def conditions(row: Row) -> str:
    return " and ".join(condition(one) for one in row.conditions)


def reason(row: Row, width: int = 200) -> str:
    """Why the row says what it says, without its verdict, in at most ``width`` characters."""
    lines = deciding(row)
    quoted = first_line(lines) if lines else ""
    match row.verdict:
        case Verdict.BLOCKED:
            what = f"{row.because}: " if row.because else ""
            text = f"{what}{quoted}" if quoted else (str(row.because or "refused"))
        case Verdict.REROUTED:
            text = f"runs {row.runs_instead or 'other code'}"
        case Verdict.NO_STATIC_OBSTACLE:
            text = f"if {conditions(row)}" if row.conditions else "every gate that was read lets it through"
        case Verdict.NOT_APPLICABLE:
            text = str(row.because or "not reached under this scenario")
        case _:
            text = conditions(row) or (f"not followed beyond {quoted}" if quoted else UNDECIDED)
    return shorten(text, width)


def sentence(row: Row) -> str:
    """Verdict, reason and place in one line, for a hypothesis' history."""
    lines = deciding(row)
    place = f" ({where(lines)})" if lines and row.verdict is Verdict.BLOCKED else ""
    return f"{NAMES[row.verdict]}: {reason(row)}{place}"


def first_line(evidence: Evidence) -> str:
    """The first line of the quoted source that is not empty and no comment."""
    lines = [line.strip() for line in evidence.text.splitlines()]
    return next((line for line in lines if line and not line.startswith("#")), "")
