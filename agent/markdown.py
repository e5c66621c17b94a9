"""The answer as Markdown: every row, every place in the source. Foreign text cannot become markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agent.ranking import trust
from agent.reasons import NAMES, deciding, reason, told, where
from agent.report import packages, understood
from agent.text import safe_block, squeeze

if TYPE_CHECKING:
    from memory.vocabulary import Answer, Row


def markdown(answer: Answer, why: Mapping[tuple[str, str], str] | None = None) -> str:
    """A document that ends with a newline. ``why``: component and backend → why reading did not decide."""
    return "\n".join(_lines(answer, why or {})) + "\n"


def escaped(text: str) -> str:
    """``text`` on one line, with what Markdown or HTML would interpret taken literally."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", squeeze(text))


def code(text: str) -> str:
    """``text`` as an inline code span, whatever back-ticks and bars are in it."""
    line = squeeze(text).replace("|", "\\|")
    ticks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def block(text: str) -> list[str]:
    """``text`` as an indented code block: nothing in it can end it."""
    return [f"    {line}" for line in safe_block(text).splitlines()]


def _lines(answer: Answer, why: Mapping[tuple[str, str], str]) -> Iterator[str]:
    yield f"# {escaped(understood(answer.target))}"
    yield ""
    yield f"Question: {escaped(answer.target.question)}"
    yield ""
    yield f"Read: {escaped(packages(answer))}"
    if answer.target.assumed:
        yield ""
        yield from (f"- assumed: {escaped(one)}" for one in answer.target.assumed)
    yield ""
    found = answer.recommendation
    if found is None:
        yield "**No backend can be recommended.**"
    else:
        yield f"**{trust(answer)}:**"
        yield ""
        yield from block(found.command)
        yield ""
        yield from (f"- {escaped(note)}" for note in found.ranked_by)
        yield from (f"- else {escaped(one)}" for one in found.alternatives)
    yield ""
    yield "| component | backend | verdict | reason | where |"
    yield "|---|---|---|---|---|"
    for row in answer.backends:
        lines = deciding(row)
        place = code(where(lines)) if lines else ""
        said = escaped(reason(row, why=why.get((row.component, row.backend))))
        cells = [code(row.component), code(row.backend), _said(row), said, place]
        yield f"| {' | '.join(cells)} |"
    if answer.not_run:
        yield ""
        yield "## Not tested"
        yield ""
        for step in answer.not_run:
            command = f": {code(step.command)}" if step.command else ""
            yield f"- {escaped(step.what)}{command}"
    yield ""
    yield "## Evidence"
    for row in answer.backends:
        yield from _evidence(row)
    yield ""
    yield f"Transcript {code(answer.transcript)}"


def _said(row: Row) -> str:
    """The verdict, and what came of it where something ran."""
    return NAMES[row.verdict] if row.observed is None else f"{NAMES[row.verdict]}; {told(row)}"


def _evidence(row: Row) -> Iterator[str]:
    for one in row.evidence:
        yield ""
        span = f"{one.line}-{one.end_line}" if one.end_line != one.line else f"{one.line}"
        yield (
            f"{code(row.component)} {code(row.backend)}: "
            f"{escaped(one.package)} {escaped(one.version)}, {code(f'{one.file}:{span}')}, "
            f"sha256 {code(one.sha256[:12])}"
        )
        yield ""
        yield from block(one.text)
