"""How a tool says that it cannot do what was asked. No pydantic: read paths use it."""

from __future__ import annotations


class ToolError(Exception):
    """An expected failure: what happened, what was expected, what to do next. ``missing`` marks a
    prerequisite that is not there (exit code 3 at the command line), else the input was wrong (2). ``whole``:
    of calls that were to run together it holds for each, so that none need be tried by itself."""

    def __init__(self, message: str, *, missing: bool = False, whole: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.whole = whole
