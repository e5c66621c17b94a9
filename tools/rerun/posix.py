"""Regular expressions of ``grep`` and ``sed`` as Python's: the same letters mean other things there."""

from __future__ import annotations

_CLASSES = {
    "[:space:]": r"\s",
    "[:blank:]": r" \t",
    "[:digit:]": "0-9",
    "[:alpha:]": "A-Za-z",
    "[:alnum:]": "A-Za-z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:xdigit:]": "0-9A-Fa-f",
}
_SWAPPED = "(){}|+?"
"""Plain in a basic expression, and special behind a backslash."""


def to_python(pattern: str, *, extended: bool) -> str:
    """A POSIX expression as one of :mod:`re`. ``extended``: as ``grep -E`` reads it."""
    out: list[str] = []
    place = 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\" and place + 1 < len(pattern):
            after = pattern[place + 1]
            place += 2
            if after in "<>":
                out.append(r"\b")
            elif after in _SWAPPED and not extended:
                out.append(after)
            else:
                out.append("\\" + after)
        elif sign == "[":
            made, place = _bracket(pattern, place)
            out.append(made)
        elif sign in _SWAPPED and not extended:
            out.append("\\" + sign)
            place += 1
        elif sign == "*" and (not out or out[-1] in {"(", "|", "^"}):
            out.append(r"\*")
            place += 1
        else:
            out.append(sign)
            place += 1
    return "".join(out)


def _bracket(pattern: str, place: int) -> tuple[str, int]:
    """A set of characters; a backslash in it is one."""
    end = place + 1
    if pattern[end : end + 1] == "^":
        end += 1
    if pattern[end : end + 1] == "]":
        end += 1
    while end < len(pattern) and pattern[end] != "]":
        closing = pattern.find(":]", end) if pattern.startswith("[:", end) else -1
        end = closing + 2 if closing >= 0 else end + 1
    if end >= len(pattern):
        return r"\[", place + 1
    inner = pattern[place + 1 : end].replace("\\", "\\\\")
    for name, made in _CLASSES.items():
        inner = inner.replace(name, made)
    negated = inner.startswith("^")
    inner = inner.removeprefix("^")
    if inner.startswith("]"):
        inner = "\\" + inner
    inner = inner.replace("[", "\\[").replace("\\\\[", "\\[") if "[" in inner else inner
    return f"[{'^' if negated else ''}{inner}]", end + 1
