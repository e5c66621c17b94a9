"""The board in words, for whoever decides and cannot look at it: a model, another agent.

Text of others stands between marks that it cannot know beforehand, since they are made of its own hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent.board import Board
from agent.budget import Budget
from agent.conversation import Message, asked_for
from agent.drivers.planner import conclusion_of, known_findings
from agent.model.answers import Wish
from agent.text import safe, shorten
from memory.canonical import canonical, text_sha256
from memory.sentences import render
from memory.vocabulary import Finding, HypothesisState, Verdict
from transcripts.events import HypothesisChanged, Returned

MOST_UNDECIDED = 60
MOST_FINDINGS = 30


def data(text: str) -> str:
    """``text`` of others between marks."""
    mark = text_sha256(text)[:8]
    return f"⟦data {mark}⟧\n{text}\n⟦/data {mark}⟧"


def board_text(board: Board, budget: Budget | None = None, component: str | None = None) -> str:
    """What is known: target, verdicts, what is undecided, findings, and what is left to spend. ``component``:
    of this one alone, and all of it."""
    lines = [*_target(board), ""]
    for name in dict.fromkeys(one.component for one in board.hypotheses.values()):
        if component in (None, name):
            lines += _component(board, name, everything=component is not None)
    if component is None:
        lines += ["", *_findings(board), *_standing(board)]
    if budget is not None and (budget.limits or budget.calls):
        lines += ["", f"Spent: {budget.left(board.spent)}."]
    return "\n".join(lines)


def _target(board: Board) -> Iterator[str]:
    assert board.opened is not None, "a transcript begins with it"
    yield f"Question: {safe(board.opened.question)}"
    if (understood := board.understood) is None:
        return
    target = understood.target
    parts = {
        "model": target.model,
        "classes": ", ".join(target.model_classes),
        "quantisation": target.quantisation,
        "arch": target.arch,
        "gpu": target.gpu,
        "gpus": target.gpu_count,
        "engine": target.engine,
    }
    yield "Target: " + ", ".join(f"{name} {safe(str(value))}" for name, value in parts.items() if value)
    yield f"Environment: {understood.environment}"
    yield "Packages: " + ", ".join(f"{name} {version}" for name, version in understood.packages.items())
    if scenario := board.opened.options.get("scenario"):
        yield "Scenario given: " + ", ".join(f"{key}={value}" for key, value in scenario.items())
    for assumed in target.assumed:
        yield f"Assumed: {safe(assumed)}"


def _component(board: Board, component: str, *, everything: bool) -> Iterator[str]:
    """Its verdicts, and each undecided cell with why."""
    cells = [one for one in board.hypotheses.values() if one.component == component]
    yield f"## {component}"
    for verdict in Verdict:
        named = [_named(one) for one in cells if one.row is not None and one.row.verdict is verdict]
        if named and verdict is not Verdict.UNKNOWN:
            yield f"{verdict}: {', '.join(named)}"
    undecided = [one for one in cells if one.row is None or one.row.verdict is Verdict.UNKNOWN]
    shown = undecided if everything else undecided[:MOST_UNDECIDED]
    if undecided:
        yield "undecided:"
    for one in shown:
        yield f"- {one.backend} (hypothesis {one.id}, {one.state}): {shorten(one.because, 400)}"
    if len(shown) < len(undecided):
        yield f"- and {len(undecided) - len(shown)} more: read_board component={component}"


def _named(one: HypothesisChanged) -> str:
    row = one.row
    assert row is not None, "only cells with a row are named"
    if row.verdict is Verdict.REROUTED:
        return f"{one.backend} → {row.runs_instead or 'other code'}"
    if row.verdict is Verdict.BLOCKED and row.evidence:
        first = row.evidence[0]
        return f"{one.backend} ({row.because}; {first.file}:{first.line})"
    if row.conditions:
        return f"{one.backend} (if {', '.join(f'{c.fact} {c.op} {c.value}' for c in row.conditions[:3])})"
    state = f" ({one.state})" if one.state in {HypothesisState.CONFIRMED, HypothesisState.REFUTED} else ""
    return f"{one.backend}{state}"


def _findings(board: Board) -> Iterator[str]:
    yield f"Findings recorded here: {len(board.findings)}."
    here = board.opened.investigation if board.opened else ""
    known = [one for one in known_findings(board) if one.transcript != here]
    if known:
        yield f"Of earlier investigations, {len(known)} findings (other versions are other cases):"
        yield data("\n".join(_known(known[:MOST_FINDINGS])))


def _known(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.id[:12]} of {finding.transcript}: {shorten(render(finding.claim), 300)}"


def _standing(board: Board) -> Iterator[str]:
    if board.understood is not None:
        concluded = conclusion_of(board)
        yield f"As it stands the end would be: {concluded.exit_reason}: {shorten(concluded.summary, 400)}"
        if concluded.answer is not None and concluded.answer.recommendation is not None:
            yield f"with the command: {shorten(concluded.answer.recommendation.command, 600)}"


def result_text(board: Board, request: str, number: int, wish: Wish) -> Message:
    """What came of a call, as a model is told it."""
    if wish.wrong is not None:
        return {"role": "tool", "tool_call_id": wish.id, "content": f"error: {shorten(wish.wrong, 500)}"}
    call = board.conversation.made.get(asked_for(request, number), "")
    returned = board.calls.result(call)
    if returned is None:
        text = "not run: the investigation was at its end"
    else:
        text = outcome_text(board, returned)
    return {"role": "tool", "tool_call_id": wish.id, "content": text}


def outcome_text(board: Board, returned: Returned) -> str:
    """What came of a call, with the event that can be cited."""
    call = returned.call
    head = f"{call} {board.calls[call].tool}: {returned.status} (event {board.calls.seq(call)})"
    return f"{head}\n{_output(returned)}"


def _output(returned: Returned) -> str:
    if returned.status != "ok":
        return data(shorten(returned.error or "no result", 4000))
    shown: Any = returned.output
    text = shown if isinstance(shown, str) else canonical(shown)
    if returned.artifact is not None:
        return (
            f"{data(text)}\nThis is the beginning and the end; more of it: read_artifact of={returned.call}"
        )
    return data(text)
