"""What would open a gate, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.layout import Line
from agent.reasons import NAMES
from agent.text import squeeze
from memory.terms import Verdict

_WHAT = {
    "architecture": "this backend on",
    "option": "another backend",
    "variable": "the variable",
    "setting": "the option",
    "quantisation": "the quantisation",
    "parallelism": "the number of ranks",
    "build": "a build of",
}


def opening_lines(openings: Sequence[Any]) -> list[Line]:
    """What would open the deciding gate, the same kind of change on one line."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in openings:
        if one.kind == "option" and one.verdict in (Verdict.BLOCKED, Verdict.NOT_APPLICABLE):
            continue  # another value that is no better
        then = f" ({NAMES[Verdict(one.verdict)]})" if one.verdict is not None else ""
        found.setdefault((one.kind, one.name), []).append(f"{one.value}{then}")
    lines: list[Line] = [[("", "")], [("what would open that gate:", "bold")]] if found else []
    for (kind, name), values in found.items():
        shown = "" if kind == "architecture" else f" {name}"
        lines.append([("  ", ""), (squeeze(f"{_WHAT[kind]}{shown}: {', '.join(values)}"), "")])
    return lines
