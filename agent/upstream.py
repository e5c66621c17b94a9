"""A bug report for the people upstream, from a finished investigation: to be pasted as it is.

It holds what they need to see the same: versions, a command, the lines that decide, what else was tried. It
says what was only read. Nothing private is in it (:mod:`agent.private`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.markdown import block, code, escaped
from agent.private import Public
from agent.ranking import surprising
from agent.reasons import NAMES, conditions, deciding, reason, where
from memory.names import few
from memory.terms import Outcome, Verdict
from tools.engines.adapter import Engine

MOST = 3
"""Backends that a report is about, unless it is told of which."""
MODEL = "MODEL"


def about(rows: Sequence[Any], cell: tuple[str, str] | None) -> list[Any]:
    """The rows that a report is worth: what failed when it ran, what an engine lets through and a library
    refuses, else what is refused."""
    if cell is not None:
        return [row for row in rows if (row.component, row.backend) == cell]
    failed = [row for row in rows if row.observed is not None and row.observed.outcome != Outcome.OK]
    hard = [row for row in rows if surprising(row)]
    refused = [row for row in rows if row.verdict == Verdict.BLOCKED and row.backend != "auto"]
    return (failed or hard or refused)[:MOST]


def upstream(
    answer: Any,
    rows: Sequence[Any],
    flags: Mapping[str, str],
    engine: Engine,
    public: Public,
    fingerprint: str | None = None,
) -> str:
    """The report about ``rows`` of ``answer``, as Markdown. ``flags``: the option of each component."""
    marked = fingerprint or answer.environment.fingerprint
    return public("\n".join(_lines(answer, rows, flags, engine, marked))) + "\n"


def _lines(
    answer: Any, rows: Sequence[Any], flags: Mapping[str, str], engine: Engine, fingerprint: str | None
) -> Iterator[str]:
    target, packages = answer.target, answer.environment.packages
    yield f"# {escaped(_title(rows[0], target.engine, packages))}"
    yield ""
    yield from (f"- {escaped(_sentence(row))}" for row in rows)
    yield ""
    yield "## Reproduction"
    yield ""
    yield f"On {escaped(_where(target))}, with a model in {escaped(target.quantisation or 'bf16')}:"
    yield ""
    yield from block(_command(rows, flags, engine, target))
    yield ""
    yield "## Versions"
    yield ""
    yield from (f"- {code(f'{name}=={version}')}" for name, version in sorted(packages.items())[:40])
    if fingerprint:
        yield f"- environment {code(fingerprint[:16])}"
    yield ""
    yield "## Lines that decide"
    for row in rows:
        yield from _evidence(row)
    yield ""
    yield "## What was tried"
    yield ""
    yield from _tried(answer, rows)
    yield ""
    ran = any(row.observed is not None for row in rows)
    yield "Seen when it ran." if ran else "Read from the source, not run: nothing here was executed on a GPU."


def _title(row: Any, engine: str, packages: Mapping[str, str]) -> str:
    version = packages.get(engine, "")
    if row.observed is not None and row.observed.outcome != Outcome.OK:
        what = f"ends with {row.observed.outcome}".replace("_", " ")
    elif surprising(row):
        place = deciding(row)
        what = (
            f"passes the engine's own check and is refused in {place.package}"
            if place
            else "is refused deeper"
        )
    elif row.verdict == Verdict.BLOCKED:
        what = "is refused"
    else:
        what = NAMES[Verdict(row.verdict)]
    return f"[{row.arch}] {engine} {version}: {row.component} {row.backend} {what}".replace("  ", " ")


def _sentence(row: Any) -> str:
    told = f"{row.component} {row.backend} on {row.arch}: {NAMES[Verdict(row.verdict)]}"
    if row.observed is not None:
        told += f", seen to end with {row.observed.outcome} ({row.observed.level})"
    elif row.because:
        told += f" because of {row.because}"
    told += f" ({reason(row, 160)})"
    if row.first_gate is not None and row.verdict == Verdict.BLOCKED:
        gate = row.first_gate
        told += f"; the first gate, {gate.file}:{gate.line}, says {NAMES[Verdict(gate.verdict)]}"
    return told


def _where(target: Any) -> str:
    gpu = f"{target.gpu} ({target.arch})" if target.gpu else target.arch
    return f"{target.gpu_count} × {gpu}" if target.gpu_count else str(gpu)


def _command(rows: Sequence[Any], flags: Mapping[str, str], engine: Engine, target: Any) -> str:
    """The smallest launch that reaches the first row: its model, its scheme where an option names it."""
    launch = engine.launch
    words = [*launch.command, *([launch.model] if launch.model else []), MODEL]
    if target.gpu_count and target.gpu_count > 1:
        words += [launch.tensor_parallel, str(target.gpu_count)]
    for row in rows[:1]:
        if flag := flags.get(row.component):
            words += [flag, row.backend]
    return shlex.join(words)


def _evidence(row: Any) -> Iterator[str]:
    for one in row.evidence[:2]:
        yield ""
        place = f"{one.package} {one.version} {where(one)}"
        yield f"{escaped(f'{row.component} {row.backend}')}, {code(place)}:"
        yield ""
        yield from block(one.text)
    if row.conditions:
        yield ""
        yield f"Depends on: {escaped(conditions(row))}"


def _tried(answer: Any, rows: Sequence[Any]) -> Iterator[str]:
    """What the other backends of the same components are."""
    for component in dict.fromkeys(row.component for row in rows):
        by_verdict: dict[str, list[str]] = {}
        for row in answer.backends:
            if row.component == component and row not in rows:
                by_verdict.setdefault(NAMES[Verdict(row.verdict)], []).append(row.backend)
        told = "; ".join(f"{verdict}: {few(names, 6)}" for verdict, names in by_verdict.items())
        yield f"- other values for {escaped(component)}: {escaped(told or 'none')}"
