"""Tracebacks as other programs draw them: notebooks (IPython), and rich with its boxes.

Their frames say file and function, a mark before a line of source says which one it was. What ends them is
the exception on a line of its own, as in Python's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = "Traceback (most recent call last)"
_NOTEBOOK = re.compile(rf"(?P<error>[A-Za-z_][\w.]*) +{re.escape(_HEAD)}$")
_RICH = re.compile(rf"[╭┌+][─━-]* *{re.escape(_HEAD)} *[─━-]*[╮┐+]$")
_BOX = re.compile(r"[\s│┃|]+$")
_FRAME = re.compile(
    r"(?:File (?P<file>[^\s\"][^\n]*?):(?P<line>\d+)(?:, in (?P<named>.+))?"
    r"|(?P<cell>(?:Cell|Input) In ?\[\d*\])(?:, line (?P<at>\d+))?(?:, in (?P<inside>.+))?"
    r"|\[?(?P<old><ipython-input[^>]*>|[/~][^\s\]]*\.\w+)\]?(?:\([^)\s]*\))? in (?P<function>.+)"
    r"|(?P<rich>[/~][^\s:]*):(?P<number>\d+) in (?P<called>\S+))$"
)
_ALONE = re.compile(r"File [^\s\"][^\n]*\.py:\d+, in |(?:Cell|Input) In ?\[\d*\]")
_MARKED = re.compile(r"(?:[-❱]+>?|❱) +(?P<line>\d+)(?: [│┃|])?(?P<text>.*)$")


@dataclass(frozen=True)
class Place:
    """Where a frame stands. ``line`` is 0 where only the mark says it."""

    file: str
    line: int
    function: str


def head(text: str) -> str | None:
    """The exception that a drawn traceback's header names, empty for none; None for any other line."""
    if found := _NOTEBOOK.match(text):
        return found["error"]
    return "" if _RICH.match(text) else None


def place(text: str) -> Place | None:
    """The frame that a line begins."""
    found = _FRAME.match(_BOX.sub("", text).strip())
    if found is None:
        return None
    file = found["file"] or found["cell"] or found["old"] or found["rich"]
    line = found["line"] or found["at"] or found["number"] or 0
    function = found["named"] or found["inside"] or found["function"] or found["called"] or ""
    return Place(file, int(line), function.partition("(")[0])


def begins(text: str) -> bool:
    """Whether a line can only be a notebook's frame, in a log that begins in the middle of a traceback."""
    return bool(_ALONE.match(text))


def marked(text: str) -> tuple[int, str] | None:
    """Number and source of the line at which a frame stands."""
    found = _MARKED.match(text.strip())
    return (int(found["line"]), _BOX.sub("", found["text"]).strip()) if found is not None else None
