"""The definitions of a Python file and where they are, told from its indentation: fast, and of any Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

_DEFINES = re.compile(r"\s*(?:async\s+def|def|class)\s+(\w+)")
_ASSIGNS = re.compile(r"(\w+)\s*(?::[^=]+)?=(?!=)")
_QUOTES = ('"""', "'''")


class Region(NamedTuple):
    """Lines ``start``..``end`` (from 0, ``end`` excluded)."""

    start: int
    end: int


class File:
    """The lines of a file, and its definitions by dotted name: functions and classes with their decorators,
    and what is assigned at the level of the module or of a class. Of one that is there twice the first."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    @cached_property
    def definitions(self) -> dict[str, Region]:
        return _definitions(self.lines)

    @cached_property
    def _owners(self) -> list[str | None]:
        """For each line the innermost definition that it stands in."""
        owners: list[str | None] = [None] * len(self.lines)
        for name, region in sorted(self.definitions.items(), key=lambda one: (one[1].start, -one[1].end)):
            owners[region.start : region.end] = [name] * (region.end - region.start)
        return owners

    def owner(self, at: int) -> str | None:
        """The dotted name of the innermost definition that line ``at`` stands in; None for the module."""
        return self._owners[at] if at < len(self.lines) else None


def _definitions(lines: Sequence[str]) -> dict[str, Region]:
    found: dict[str, Region] = {}
    open_: list[tuple[int, str, int, bool]] = []
    """Indentation, dotted name, first line, whether it is a class."""
    decorated: int | None = None
    quote: str | None = None
    last = 0

    def close(indent: int) -> None:
        while open_ and open_[-1][0] >= indent:
            _, name, start, _ = open_.pop()
            found.setdefault(name, Region(start, last))

    for at, line in enumerate(lines):
        text = line.strip()
        within = quote is not None
        if within or '"""' in text or "'''" in text:
            quote = _quoted(text, quote)
        if within or not text or text[0] in "#)]}":
            last = at + 1 if text and text[0] != "#" else last
            continue
        indent = len(line) - len(line.lstrip())
        if (
            decorated is None
            and open_
            and not open_[-1][3]
            and indent > open_[-1][0]
            and text[0] not in "@dca"
        ):
            last = at + 1  # the body of a function
            continue
        defines = _DEFINES.match(line) if text[0] in "dca" else None
        outer = next((f"{name}." for depth, name, _, _ in reversed(open_) if depth < indent), "")
        if text[0] == "@":
            if decorated is None:
                close(indent)
                decorated = at
        elif defines:
            close(indent)
            start = at if decorated is None else decorated
            open_.append((indent, outer + defines[1], start, text.startswith("class")))
            decorated = None
        elif decorated is None:
            close(indent)
            assigns = _ASSIGNS.match(text) if not open_ or open_[-1][3] else None
            if assigns:
                open_.append((indent, outer + assigns[1], at, False))
        last = at + 1
    last = len(lines)
    close(-1)
    return found


def _quoted(text: str, quote: str | None) -> str | None:
    """The kind of triple quotes that is open behind a line."""
    while True:
        if quote is not None:
            _, closed, text = text.partition(quote)
            if not closed:
                return quote
            quote = None
        places = [(at, kind) for kind in _QUOTES if (at := text.find(kind)) >= 0]
        if not places:
            return None
        at, quote = min(places)
        if "#" in text[:at] and text[:at].count('"') % 2 == 0:
            return None  # in a comment
        text = text[at + 3 :]
