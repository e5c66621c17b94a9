"""Foreign text made safe to print: source, logs and names of others never instruct a terminal."""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories that a terminal obeys or hides: controls, formats (bidi among them), surrogates,
private use, line and paragraph separators."""


def safe(text: str) -> str:
    """``text`` on one line with the invisible spelled out (``\\x1b``, ``\\u202e``); tabs become spaces.

    The result holds printable characters only. It must still be drawn without markup
    (``rich.text.Text``, never ``console.print(str)``).
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def safe_block(text: str) -> str:
    """Like :func:`safe`, but line ends stay line ends."""
    return "\n".join(safe(line) for line in text.split("\n"))


def squeeze(text: str) -> str:
    """``text`` on one line with runs of white space as one space."""
    return safe(" ".join(text.split()))


def shorten(text: str, width: int) -> str:
    """``text`` squeezed and cut to ``width`` characters, with an ellipsis where something is missing."""
    line = squeeze(text)
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def _visible(character: str) -> str:
    if character == "\t":
        return " "
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
