"""What a client is told of its investigation: how it begins, what came of a call, how it ends."""

from __future__ import annotations

from agent.board import Board
from agent.board_text import board_text, outcome_text
from agent.text import shorten
from transcripts.events import Concluded


def begun_text(board: Board) -> str:
    """What there is to go on from, once the ground is laid."""
    assert board.opened is not None, "a transcript begins with it"
    return f"investigation {board.opened.investigation}\n\n{board_text(board)}"


def waiting_text(name: str, doing: str) -> str:
    """What there is to say while the ground is being laid."""
    return (
        f"investigation {name}\n\nThe analyser is still at work ({shorten(doing, 200)}). "
        "Call read_board: it waits, and shows the board once it is there."
    )


def result_text(board: Board, call: str) -> tuple[str, bool]:
    """What came of a call, and whether that is nothing."""
    returned = board.calls.result(call)
    if returned is None:
        return "not run: the investigation was at its end", True
    return outcome_text(board, returned), returned.status != "ok"


def ended_text(name: str, concluded: Concluded) -> str:
    """How an investigation ended, and with which command."""
    lines = [f"investigation {name} has ended: {concluded.exit_reason}: {shorten(concluded.summary, 800)}"]
    if concluded.answer is not None and concluded.answer.recommendation is not None:
        lines.append(f"with the command: {shorten(concluded.answer.recommendation.command, 2000)}")
    return "\n".join(lines)
