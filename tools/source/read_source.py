"""Read lines of a file of an environment."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from memory.vocabulary import Effect, Sha256
from tools.base import ToolError, tool
from tools.source._open import locate, open_tree, refuse_binary
from tools.source.tree import SourceError, span_sha256

LINES = 400
CHARACTERS = 40_000
"""One reading gives at most so much; ``next_start`` says where to go on."""


class ReadInput(BaseModel):
    environment: str = Field(description="Name or folder of the environment")
    file: str = Field(description="Path below the environment, e.g. sglang/srt/server_args.py")
    start: int = Field(default=1, ge=1, description="First line, 1-based")
    end: int | None = Field(default=None, ge=1, description="Last line, inclusive")


class ReadResult(BaseModel):
    package: str
    version: str
    file: str
    start: int
    end: int
    total_lines: int
    sha256: Sha256
    """Over lines ``start``..``end`` as evidence hashes them."""
    text: str
    next_start: int | None
    """Where to go on, if lines of what was asked for are left."""


@tool(effect=Effect.READS)
def read_source(args: ReadInput, context: Any) -> ReadResult:
    """Read lines of a source file, at most 400 at once, with its package, version and number of lines."""
    tree = open_tree(args.environment, context)
    file, path = locate(tree, args.file)
    if path.is_dir():
        raise ToolError(f"{file or 'the top'!r} is a folder; list it with list_source")
    refuse_binary(file, path)
    try:
        lines = tree.lines(file)
    except (SourceError, OSError) as error:
        raise ToolError(f"cannot read {file!r}: {error}") from error
    total = len(lines) - 1 if len(lines) > 1 and not lines[-1] else len(lines)
    if args.end is not None and args.end < args.start:
        raise ToolError(f"line {args.start} to {args.end} is no span; end must not be before start")
    if args.start > total:
        raise ToolError(f"{file} has {total} lines; there is no line {args.start}")
    asked = min(args.end or total, total)
    end, room = args.start - 1, CHARACTERS
    while end < min(asked, args.start + LINES - 1) and room >= len(lines[end]):
        room -= len(lines[end]) + 1
        end += 1
    # A line longer than the cap is given by itself: the central cap cuts it and keeps the whole.
    end = max(end, args.start)
    span = lines[args.start - 1 : end]
    package, version = tree.owner(file)
    return ReadResult(
        package=package,
        version=version,
        file=file,
        start=args.start,
        end=end,
        total_lines=total,
        sha256=span_sha256(span),
        text="\n".join(span),
        next_start=end + 1 if end < asked else None,
    )
