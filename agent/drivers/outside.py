"""The driver of an investigation whose decisions come from outside: another agent's, over MCP.

The planner lays the ground, as far as it gets without anybody; from then on ``follow`` says what is next. The
outside is not there any more when its transcript is gone on with by others: then it ends with what is on the
board.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent.board import Board
from agent.conversation import OUTSIDE
from agent.drivers.ground import failure
from agent.drivers.planner import Planner, conclusion_of
from agent.loop import Call, Decision
from transcripts.events import Concluded

Follow = Callable[[Board], Decision]


def gone(board: Board) -> Decision:
    """The end where nobody decides any more."""
    so_far = None if board.understood is None else conclusion_of(board)
    return Decision(
        conclude=Concluded(
            exit_reason="stopped",
            exit_code=4,
            summary="stopped: the client left before it concluded"
            + (f"; so far: {so_far.summary}" if so_far is not None else ""),
            answer=None if so_far is None else so_far.answer,
        )
    )


class Outside:
    """``follow``: what is decided outside, once the ground is laid."""

    name = "mcp"

    def __init__(self, follow: Follow = gone) -> None:
        self._follow = follow
        self._planner: Planner | None = Planner()

    def decide(self, board: Board) -> Decision:
        if self._planner is not None and not board.led:
            ground = self._planner.decide(board)
            if ground.conclude is None or failure(board):
                return ground
        self._planner = None
        return self._follow(board)


def asked(board: Board, tool: str, given: Mapping[str, Any]) -> Call:
    """A call as it is asked for outside, with the hypothesis on the board that it is about."""
    return Call(tool, dict(given), why=OUTSIDE, hypothesis=board.subject_of(given))
