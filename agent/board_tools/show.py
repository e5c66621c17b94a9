"""``read_board``: the board as it is now."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agent.board_text import board_text
from agent.board_tools.context import BoardContext
from agent.budget import budget_of
from memory.vocabulary import Effect
from tools.base import ToolError, tool


class ReadBoard(BaseModel):
    model_config = ConfigDict(extra="forbid")

    component: str | None = Field(default=None, description="All cells of this component; else an overview.")


class BoardShown(BaseModel):
    board: str


@tool(effect=Effect.READS, alone=True)
def read_board(args: ReadBoard, context: BoardContext) -> BoardShown:
    """Show the board: verdicts, undecided cells with why, findings, and what is left to spend."""
    board = context.board
    components = dict.fromkeys(one.component for one in board.hypotheses.values())
    if args.component is not None and args.component not in components:
        raise ToolError(f"no component {args.component!r} on the board; there are {', '.join(components)}")
    budget = budget_of(board) if board.led else None
    return BoardShown(board=board_text(board, budget, args.component))
