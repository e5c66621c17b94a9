"""What tools of the board are given besides what all tools are."""

from __future__ import annotations

from typing import Any, Protocol

from agent.board import Board
from memory.clock import hypothesis_id
from tools.base import ToolError
from transcripts.events import HypothesisChanged, Understood


class BoardContext(Protocol):
    @property
    def home(self) -> Any: ...

    @property
    def board(self) -> Board: ...

    def progress(self, text: str) -> None: ...


def understood(board: Board) -> Understood:
    if board.understood is None:
        raise ToolError("nothing is understood yet: there is no target that this could be about")
    return board.understood


def hypothesis(board: Board, component: str, backend: str, arch: str | None) -> HypothesisChanged:
    """The hypothesis about a backend that is on the board. Raises :class:`ToolError`."""
    name = hypothesis_id(component, backend, arch or understood(board).target.arch)
    if name not in board.hypotheses:
        raise ToolError(
            f"{component} {backend} is not on the board; read_board shows what is, "
            "propose_hypothesis puts something there"
        )
    return board.hypotheses[name]
