"""The answer as one page of HTML that runs nothing and asks nobody, with plots of what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from agent.benchmarks_page import head, sections, table
from agent.ranking import trust
from agent.reasons import deciding, reason, told, where
from agent.report import packages, understood
from agent.text import safe_block, squeeze

if TYPE_CHECKING:
    from memory.vocabulary import Answer


def page(
    answer: Answer, why: Mapping[tuple[str, str], str], benchmarks: Mapping[str, Any] | None
) -> Iterator[str]:
    """``why``: component and backend → why reading did not decide; ``benchmarks``: as ``comparing.document``
    gives them, None where nothing was measured."""
    target = answer.target
    yield head(understood(target))
    yield f"<h1>{_text(understood(target))}</h1>\n<p>{_text(target.question)}</p>\n"
    yield f"<p>{_text(packages(answer))}</p>\n"
    yield _list([f"assumed: {one}" for one in target.assumed])
    found = answer.recommendation
    if found is None:
        yield "<h2>No backend can be recommended.</h2>\n"
    else:
        yield f"<h2>{_text(trust(answer))}</h2>\n<pre>{escape(safe_block(found.command))}</pre>\n"
        yield _list([*found.ranked_by, *(f"else {one}" for one in found.alternatives)])
    rows = [["component", "backend", "verdict", "reason", "where"]]
    for row in answer.backends:
        lines = deciding(row)
        said = reason(row, why=why.get((row.component, row.backend)))
        rows.append([row.component, row.backend, told(row), said, where(lines) if lines else ""])
    yield f"<h2>Backends</h2>\n{table(rows)}\n"
    if answer.not_run:
        steps = [f"{one.what}{f': {one.command}' if one.command else ''}" for one in answer.not_run]
        yield f"<h2>Not tested</h2>\n{_list(steps)}"
    if benchmarks is not None:
        yield "<h2>Benchmarks</h2>\n"
        yield from sections(benchmarks)
    yield f"<p>Transcript {_text(answer.transcript)}</p>\n</body></html>\n"


def _list(items: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(one)}</li>' for one in items)}</ul>\n" if items else ""


def _text(text: str) -> str:
    return escape(squeeze(text))
