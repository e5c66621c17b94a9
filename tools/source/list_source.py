"""List what lies in an environment."""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import BaseModel, Field

from memory.vocabulary import Effect
from tools.base import ToolError, tool
from tools.source._open import locate, open_tree
from tools.source.files import glob_filter, is_part, walk
from tools.source.tree import SourceTree


class ListInput(BaseModel):
    environment: str = Field(description="Name or folder of the environment")
    path: str = Field(default="", description="Folder below the environment; empty for its top")
    include: str | None = Field(
        default=None,
        description="Glob: list all matching files below, e.g. '*.py' or 'sglang/srt/**/moe*.py'",
    )
    limit: int = Field(default=500, ge=1, le=5000)


class Entry(BaseModel):
    path: str
    kind: Literal["file", "folder"]
    bytes: int | None = None


class ListResult(BaseModel):
    packages: dict[str, str]
    path: str
    entries: list[Entry]
    total: int
    truncated: bool


@tool(effect=Effect.READS)
def list_source(args: ListInput, context: Any) -> ListResult:
    """List the files and folders of an environment, or all files below a folder that match a glob."""
    tree = open_tree(args.environment, context)
    relative, path = locate(tree, args.path)
    if args.include is not None:
        keep = glob_filter(args.include)
        found = [_entry(tree, file) for file in walk(tree, relative) if keep(file)]
    elif path.is_dir():
        try:
            with os.scandir(path) as entries:
                names = sorted((not entry.is_dir(), entry.name) for entry in entries if is_part(entry))
        except OSError as error:
            raise ToolError(f"cannot list {relative!r} ({error.strerror or error})") from error
        found = [_entry(tree, f"{relative}/{name}" if relative else name) for _, name in names]
    else:
        raise ToolError(f"{relative!r} is a file, not a folder; read it with read_source")
    return ListResult(
        packages=tree.packages,
        path=relative,
        entries=found[: args.limit],
        total=len(found),
        truncated=len(found) > args.limit,
    )


def _entry(tree: SourceTree, file: str) -> Entry:
    path = tree.root / file
    if path.is_dir():
        return Entry(path=file, kind="folder")
    try:
        return Entry(path=file, kind="file", bytes=path.stat().st_size)
    except OSError:  # gone since it was listed
        return Entry(path=file, kind="file")
