"""What a call gave, without the dressing that its tool put around it: headers, tags, numbers before lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(
    r"\A(?:(?:Exit code: \d+|Wall time:[^\n]*|Chunk ID:[^\n]*|"
    r"Process exited[^\n]*|[^\n]*token count[^\n]*)\n)+"
    r"(?:Output:\n)?"
)
_TAGS = re.compile(
    r"\A(?:<returncode>\d+</returncode>\s*)?<(?P<tag>output|file|content)>\n?(?P<inner>.*?)\n?</(?P=tag)>\s*\Z",
    re.DOTALL,
)
_AFTER = re.compile(
    r"\n*(?:<system-reminder>.*|\((?:End of file|File has more lines|Output truncated)[^\n]*\))\s*\Z",
    re.DOTALL,
)
_CUT = re.compile(
    r"\.\.\. ?\[?\d+ (?:lines|characters|chars) (?:truncated|omitted)|\(Output was truncated|"
    r"\(File has more lines|<truncated|\[truncated|output truncated",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\s*(\d+)(?:\t|→|\| ?|: )(.*)", re.DOTALL)
"""``cat -n`` and ``nl``, Claude Code, opencode, ``awk '{print NR": "$0}'``."""


@dataclass(frozen=True)
class Recorded:
    lines: list[str]
    first: int | None = None
    """The number of the first line, where the tool gave numbers."""
    cut: bool = False
    """Not all of it is on record: it proves a beginning at most."""


def recorded(text: str, *, truncated: bool = False) -> Recorded:
    """The lines of an output, as they stand. ``truncated``: the session says that it was cut."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    cut = truncated or bool(_CUT.search(text))
    text = _HEAD.sub("", text)
    inside = _TAGS.match(_AFTER.sub("", text))
    if inside:
        text = inside["inner"]
    text = _AFTER.sub("", text)
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if cut:
        place = next((number for number, line in enumerate(lines) if _CUT.search(line)), len(lines))
        lines = lines[:place]
    return Recorded(lines, None, cut)


def without_numbers(seen: Recorded) -> Recorded:
    """The same without numbers before the lines, where each has one and they go up by one."""
    found = _without_numbers(seen.lines)
    return seen if found is None else Recorded(found[1], found[0], seen.cut)


def _without_numbers(lines: list[str]) -> tuple[int, list[str]] | None:
    """Lines whose numbers go up by one, without them, and the first number; None where they do not."""
    first = None
    texts: list[str] = []
    for line in lines:
        found = _NUMBERED.fullmatch(line)
        if found is None:
            return None
        if first is None:
            first = int(found[1])
        elif int(found[1]) != first + len(texts):
            return None
        texts.append(found[2])
    return None if first is None else (first, texts)
