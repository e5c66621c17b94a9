"""``read_artifact``: more of a result than the cap let through, or one that was seen long ago."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agent.board import Board
from agent.board_tools.context import BoardContext
from memory.artifacts import ArtifactError, Artifacts
from memory.canonical import canonical
from memory.vocabulary import Effect
from tools.base import ToolError, tool

MOST = 20_000
"""Characters of one reading."""


class ReadArtifact(BaseModel):
    model_config = ConfigDict(extra="forbid")

    of: str = Field(max_length=64, description="A call (c12), or the sha256 of a whole result.")
    start: int = Field(default=0, ge=0, description="First character.")
    length: int = Field(default=8000, ge=1, le=MOST, description="Characters to show.")
    containing: str = Field(
        default="",
        max_length=200,
        description="Start at the first place, from start on, that has these words.",
    )


class ArtifactShown(BaseModel):
    of: str
    start: int
    characters: int
    """Of the whole."""
    text: str
    next_start: int | None


@tool(effect=Effect.READS, alone=True)
def read_artifact(args: ReadArtifact, context: BoardContext) -> ArtifactShown:
    """Show a part of what a call of this investigation gave, however long it was."""
    text = _whole(args.of, context)
    start = args.start
    if args.containing:
        start = text.find(args.containing, args.start)
        if start < 0:
            raise ToolError(f"{args.of} has no {args.containing!r} from character {args.start} on")
    if start >= len(text):
        raise ToolError(f"{args.of} has {len(text)} characters; there is none at {start}")
    end = min(len(text), start + args.length)
    return ArtifactShown(
        of=args.of,
        start=start,
        characters=len(text),
        text=text[start:end],
        next_start=end if end < len(text) else None,
    )


def _whole(of: str, context: BoardContext) -> str:
    board: Board = context.board
    returned = board.calls.result(of)
    if returned is None and of not in board.artifacts:
        raise ToolError(
            f"{of!r} is no call of this investigation that has returned, nor a result it points to"
        )
    sha256 = of if returned is None else returned.artifact
    if sha256 is None:
        assert returned is not None
        return returned.error or canonical(returned.output)
    try:
        return Artifacts(context.home.artifacts).get(sha256).decode("utf-8", "replace")
    except ArtifactError as error:
        raise ToolError(str(error)) from error
