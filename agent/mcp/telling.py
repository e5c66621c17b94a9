"""What a client is told: results and the board in words. Text of others stands between marks."""

from __future__ import annotations

from agent.board import Board
from agent.text import shorten
from memory.canonical import canonical, text_sha256
from transcripts.events import Concluded


def data(text: str) -> str:
    """``text`` of others between marks that it cannot know beforehand: they are made of its own hash."""
    mark = text_sha256(text)[:8]
    return f"⟦data {mark}⟧\n{text}\n⟦/data {mark}⟧"


def result_text(board: Board, call: str) -> tuple[str, bool]:
    """What came of a call, and whether that is nothing."""
    returned = board.calls.result(call)
    if returned is None:
        return "not run: the investigation was at its end", True
    head = f"{call} {board.calls[call].tool}: {returned.status} (event {board.calls.seq(call)})"
    if returned.status != "ok":
        return f"{head}\n{data(shorten(returned.error or 'no result', 4000))}", True
    shown = returned.output if isinstance(returned.output, str) else canonical(returned.output)
    return f"{head}\n{data(shown)}", False


def ground_text(board: Board) -> str:
    """What there is to go on from, once the ground is laid."""
    assert board.opened is not None, "a transcript begins with it"
    return f"investigation {board.opened.investigation}\n\n{board_text(board)}"


def board_text(board: Board) -> str:
    assert board.opened is not None, "a transcript begins with it"
    lines = [f"Question: {board.opened.question}"]
    if board.understood is not None:
        lines.append(f"Environment: {board.understood.environment}")
    for one in board.hypotheses.values():
        verdict = one.row.verdict if one.row is not None else "no verdict"
        lines.append(f"- {one.component} {one.backend}: {one.state}, {verdict}: {shorten(one.because, 300)}")
    return "\n".join(lines)


def ended_text(name: str, concluded: Concluded) -> str:
    """How an investigation ended."""
    return f"investigation {name} ended: {concluded.exit_reason}: {concluded.summary}"
