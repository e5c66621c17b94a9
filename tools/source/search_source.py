"""Search the text of an environment."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from memory.vocabulary import Effect
from tools.base import ToolError, tool
from tools.source import _matching
from tools.source._candidates import SECONDS, holding, literal_in
from tools.source._open import locate, open_tree
from tools.source.files import glob_filter, walk
from tools.source.tree import SourceTree

PATTERN_LIMIT = 500


class SearchInput(BaseModel):
    environment: str = Field(description="Name or folder of the environment")
    pattern: str = Field(min_length=1, max_length=PATTERN_LIMIT, description="Looked for line by line")
    regex: bool = Field(default=True, description="False: the pattern is a fixed string")
    ignore_case: bool = False
    path: str = Field(default="", description="Folder or file to search; empty for all packages")
    include: str | None = Field(
        default=None, description="Glob of files, e.g. '*.py' or 'flashinfer/**/*.cu'"
    )
    context: int = Field(default=0, ge=0, le=10, description="Lines shown before and after each hit")
    limit: int = Field(default=100, ge=1, le=1000)


class Hit(BaseModel):
    file: str
    line: int
    text: str
    before: list[str] = []
    after: list[str] = []


class SearchResult(BaseModel):
    hits: list[Hit]
    """Sorted by file, then line."""
    count: int
    """All hits, also those not shown."""
    files_with_hits: int
    files_searched: int
    truncated: bool


@tool(effect=Effect.READS)
def search_source(args: SearchInput, context: Any) -> SearchResult:
    """Search an environment's source for a regular expression or a fixed string; hits as file, line, text."""
    return search_tree(open_tree(args.environment, context), args)


def search_tree(tree: SourceTree, args: SearchInput, narrow: Any = holding) -> SearchResult:
    """The search itself. ``narrow`` is what picks the files that can match."""
    if "\n" in args.pattern or "\r" in args.pattern:
        raise ToolError("the pattern has a line break; lines are searched one by one, look for one of them")
    try:
        re.compile(args.pattern if args.regex else re.escape(args.pattern))
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(
            f"{args.pattern!r} is no regular expression ({error}); set regex to false for a fixed string"
        ) from error
    under, _ = locate(tree, args.path)
    keep = glob_filter(args.include) if args.include else None
    files = [file for file in walk(tree, under) if keep is None or keep(file)]
    literal = literal_in(args.pattern) if args.regex else args.pattern
    job = {
        "root": str(tree.root),
        "files": narrow(tree, files, literal, ignore_case=args.ignore_case),
        "pattern": args.pattern if args.regex else re.escape(args.pattern),
        "ignore_case": args.ignore_case,
        "context": args.context,
        "limit": args.limit,
    }
    # A fixed string cannot run away; a regular expression can, and then only a process can be stopped.
    found = _matching.match_files(job) if _is_plain(args) else _in_a_process(job)
    return SearchResult.model_validate(
        {**found, "files_searched": len(files), "truncated": found["count"] > len(found["hits"])}
    )


def _is_plain(args: SearchInput) -> bool:
    """Whether matching takes linear time for sure: nothing in the pattern that could be tried in two ways."""
    return not args.regex or not re.search(r"[*+?{|]", args.pattern)


def _in_a_process(job: dict[str, Any]) -> dict[str, Any]:
    from tools.environment.child import allowed_environment, run_child

    with tempfile.TemporaryDirectory(prefix="assay-search-") as scratch:
        Path(scratch, "job").write_text(json.dumps(job), encoding="utf-8")
        output = Path(scratch, "found")
        ended = run_child(
            [sys.executable, "-I", "-S", _matching.__file__, str(Path(scratch, "job"))],
            environment=allowed_environment(os.environ),
            folder=Path(scratch),
            output=output,
            errors=Path(scratch, "errors"),
            seconds=SECONDS,
        )
        if ended.timed_out:
            raise ToolError(
                f"the search took more than {SECONDS:.0f} s; simplify {job['pattern']!r} "
                "(repetition inside repetition?) or narrow it with path or include"
            )
        if ended.code != 0:
            detail = Path(scratch, "errors").read_text(encoding="utf-8", errors="replace").strip()
            raise ToolError(f"the search failed: {detail.splitlines()[-1] if detail else ended.code}")
        return dict(json.loads(output.read_text(encoding="utf-8")))
