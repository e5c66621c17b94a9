"""The driver of an investigation whose decisions come from outside: another agent's, over MCP.

The planner lays the ground, as far as it gets without anybody; from then on ``follow`` says what is next. The
outside is not there any more when its transcript is gone on with by others: then it ends with what is on the
board.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent.board import Board
from agent.drivers.ground import failure
from agent.drivers.planner import Planner
from agent.loop import Call, Decision
from memory.clock import hypothesis_id
from transcripts.events import Concluded

ASKED = "the client asked for it"
"""The reason of a call that was decided outside."""

Follow = Callable[[Board], Decision]


def gone(board: Board) -> Decision:
    """The end where nobody decides any more."""
    found = f"{len(board.findings)} findings are kept"
    return Decision(
        conclude=Concluded(
            exit_reason="stopped",
            exit_code=4,
            summary=f"stopped: the client left before it concluded; {found}",
        )
    )


class Outside:
    """``follow``: what is decided outside, once the ground is laid."""

    name = "mcp"

    def __init__(self, follow: Follow = gone) -> None:
        self._follow = follow
        self._planner: Planner | None = Planner()

    def decide(self, board: Board) -> Decision:
        if self._planner is not None and not any(one.why == ASKED for one in board.calls.values()):
            ground = self._planner.decide(board)
            if ground.conclude is None or failure(board):
                return ground
        self._planner = None
        return self._follow(board)


def asked(board: Board, tool: str, given: Mapping[str, Any]) -> Call:
    """A call as it is asked for outside, with the hypothesis on the board that it is about."""
    subject = [given.get(key) for key in ("component", "backend", "arch")]
    name = hypothesis_id(*map(str, subject))
    return Call(tool, dict(given), why=ASKED, hypothesis=name if name in board.hypotheses else None)
