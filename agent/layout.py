"""Text laid out in lines of so many columns: commands, paths, paragraphs.

A line is a list of ``(text, style)``; styles are rich's, and whoever draws may leave them out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from agent.text import squeeze
from memory.names import few

WIDTH = 80

Line = list[tuple[str, str]]


def path_of(path: str, room: int) -> str:
    """A path cut at its front, between folders: the file's name and the line are what is looked for."""
    path = squeeze(path)
    if len(path) <= room:
        return path
    folders = path.split("/")
    while len(folders) > 1 and len("/".join(folders)) + 2 > room:
        folders.pop(0)
    short = "…/" + "/".join(folders)
    return short if len(short) <= room else "…" + path[-(room - 1) :]


def command_lines(command: str, width: int = WIDTH) -> list[str]:
    """A command on lines of at most ``width`` that a shell takes as one (options stay with their values).

    A word that is longer than a line goes on at the very start of the next; in quotes it cannot.
    """
    words = squeeze(command).split(" ")
    parts: list[str] = []
    for word in words:
        pair = f"{parts[-1]} {word}" if parts else word
        if (
            len(pair) < width - 6
            and pair.startswith("-")
            and " " not in parts[-1]
            and not word.startswith("-")
        ):
            parts[-1] = pair
        else:
            parts.append(word)
    lines = ["  " + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) + 2 > width:
            lines[-1] += " \\"
            lines.append("    " + part)
        else:
            lines[-1] += f" {part}"
    return [piece for line in lines for piece in _broken(line, width)]


def _broken(line: str, width: int) -> list[str]:
    """A line that is too long, broken inside its word where the shell joins it again."""
    if "'" in line or '"' in line:
        return [line[: width - 1] + "…" if len(line) > width else line]
    pieces = []
    while len(line) > width:
        cut = width - 1
        # Not between a backslash and what it protects, nor before the space that ends the word.
        while cut > 1 and (line[cut - 1] == "\\" or line[cut] == " "):
            cut -= 1
        pieces.append(line[:cut] + "\\")
        line = line[cut:]
    return [*pieces, line]


def wrap(text: str, width: int, most: int) -> list[str]:
    """``text`` on at most ``most`` lines, the later ones indented."""
    return textwrap.wrap(
        squeeze(text), width, subsequent_indent="  ", max_lines=most, placeholder=" …", break_on_hyphens=False
    )


def versions(packages: Mapping[str, str], cited: Iterable[str] = ()) -> str:
    """Exact versions in one line. Of a whole virtual environment: those that are ``cited``, or a few, and
    how many more there are."""
    most = 8
    names = list(packages)
    if len(names) > most:
        first = [name for name in dict.fromkeys(cited) if name in packages]
        names = list(dict.fromkeys([*first, *names]))
        most = len(first) or most
    return squeeze(few([f"{name} {packages[name]}" for name in names], most))


def plain(lines: Sequence[Line]) -> str:
    """The lines without styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)
