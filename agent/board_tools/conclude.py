"""``conclude``: the end, if the board carries it; else the reason why not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.board import Board
from agent.board_tools.context import BoardContext, hypothesis, understood
from agent.drivers.planner import conclusion_of
from memory.canonical import canonical
from memory.vocabulary import Effect, HypothesisState, Verdict
from tools.base import ToolError, tool
from transcripts.events import Concluded

ACCOUNT = 8000
"""Characters of an account."""

_FIGURE = re.compile(r"(?<![\w.])\d[\d_,]*(?:\.\d+)*(?![\w.]*\w)|\b[0-9a-f]{12,64}\b")
_RAN = re.compile(
    r"\b(?:was|were|is|are|been|has|have|I|we)\s+(?:confirmed|verified|tested|benchmarked|measured|works?|ran)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:no|not|nothing|none|never|nobody|neither|until|once|if)\b", re.IGNORECASE)


class Conclude(BaseModel):
    model_config = ConfigDict(extra="forbid")

    result: Literal["answered", "none_viable", "stopped"] = Field(
        description="answered: there is a candidate. none_viable: a component has none. stopped: undecided."
    )
    choices: dict[str, str] = Field(
        default_factory=dict, description="Component to backend: what you would run, where you would choose."
    )
    account: str = Field(
        min_length=20,
        max_length=ACCOUNT,
        description="For the engineer: what to run, what is ruled out and where, what is open, what to test.",
    )


class Ended(BaseModel):
    change: Concluded


@tool(effect=Effect.READS, alone=True)
def conclude(args: Conclude, context: BoardContext) -> Ended:
    """End the investigation. What the board does not carry is refused, with the reason."""
    board = context.board
    understood(board)
    if left := [one for one in board.hypotheses.values() if one.state is HypothesisState.OPEN]:
        names = ", ".join(f"{one.component} {one.backend}" for one in left[:5])
        raise ToolError(f"still open: {names}; test and update them, or say inconclusive")
    end = conclusion_of(board)
    if end.exit_reason != args.result:
        raise ToolError(
            f"the board says {end.exit_reason}, not {args.result}: {end.summary}; "
            "record what is missing, or conclude what the board carries"
        )
    for component, backend in args.choices.items():
        _check_choice(board, component, backend)
    if not _something_ran(board) and (words := _says_that_it_ran(args.account)):
        raise ToolError(f"the account says {words!r}, and nothing ran here: reading predicts")
    figures = dict.fromkeys(match[0] for match in _FIGURE.finditer(args.account) if len(match[0]) > 2)
    if missing := list(_nowhere(figures, board)):
        raise ToolError(
            f"the account has figures that stand in no result here: {', '.join(missing[:8])}; "
            "leave them out, or look them up first"
        )
    return Ended(change=conclusion_of(board, args.choices))


def _check_choice(board: Board, component: str, backend: str) -> None:
    """Raise :class:`ToolError` where what was found speaks against running it, or says nothing."""
    row = hypothesis(board, component, backend, None).row
    verdict = row.verdict if row is not None else Verdict.UNKNOWN
    if verdict not in {Verdict.NO_STATIC_OBSTACLE, Verdict.REROUTED}:
        lines = (
            f" ({row.evidence[0].file}:{row.evidence[0].line})" if row is not None and row.evidence else ""
        )
        raise ToolError(
            f"{component} {backend} is {verdict}{lines}; choose what nothing refuses, or leave it out"
        )


def _says_that_it_ran(account: str) -> str | None:
    for sentence in re.split(r"[.;\n]", account):
        if (found := _RAN.search(sentence)) and not _DENIED.search(sentence):
            return found[0]
    return None


def _something_ran(board: Board) -> bool:
    return any(one.row is not None and one.row.observed is not None for one in board.hypotheses.values())


def _nowhere(figures: Iterable[str], board: Board) -> Iterator[str]:
    """Figures that neither the question, the board, nor any result holds."""
    left = set(figures)
    for text in _texts(board):
        left -= {figure for figure in left if figure in text}
        if not left:
            return
    yield from (figure for figure in figures if figure in left)


def _texts(board: Board) -> Iterator[str]:
    assert board.opened is not None
    yield canonical(board.opened.model_dump(mode="json"))
    yield canonical([one.model_dump(mode="json") for one in board.hypotheses.values()])
    yield " ".join(board.findings)
    for name in reversed(list(board.calls)):
        if board.calls[name].tool == "read_source":
            # Its lines are numbers that were seen, though they stand nowhere.
            output = board.output(name)
            if isinstance(output, dict):
                yield " ".join(map(str, range(output["start"], output["end"] + 1)))
        returned = board.calls.result(name)
        if returned is not None and returned.status == "ok":
            yield f"{board.calls.seq(name)} {canonical(board.output(name))}"
