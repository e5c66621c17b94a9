"""A JSON document member by member, each parsed when it is reached: no more is held than one of them."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

LIMIT = 64 << 20
"""Characters of one member. With a longer one the document is malformed from there on."""
_BLOCK = 1 << 20


class Walk:
    """The members of a JSON document, each parsed when it is reached. Bytes that are no UTF-8 become
    surrogates, so that places stay exact."""

    def __init__(self, file: Any, arrays: set[str]) -> None:
        self.arrays = arrays
        self.listed = False
        """The member that was yielded last is an element of one of ``arrays``."""
        self.begun: set[str] = set()
        """Those of ``arrays`` that were reached."""
        self.problem: str | None = None
        self.offset = 0
        """Bytes before the text that is held."""
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._ended = False

    def members(self) -> Iterator[tuple[str | None, Any, int, int]]:
        """Key (None in a list), value, offset and size in bytes."""
        try:
            if self._peek() == "\ufeff":
                self._at += 1
            if self._take("["):
                yield from self._elements(None)
                return
            self._expect("{")
            if self._take("}"):
                return
            while True:
                key, _, _ = self._value()
                self._expect(":")
                if str(key) in self.arrays and self._peek() == "[":
                    self._expect("[")
                    self.listed = True
                    self.begun.add(str(key))
                    yield from self._elements(str(key))
                    self.listed = False
                else:
                    yield (str(key), *self._value())
                if not self._take(","):
                    self._expect("}")
                    return
        except (ValueError, RecursionError):
            self.problem = (
                "truncated" if self._ended and self._at >= len(self._text.rstrip()) else "malformed"
            )
            if self._ended and self.problem == "malformed" and self._cut:
                self.problem = "truncated"

    _cut = False

    def _elements(self, key: str | None) -> Iterator[tuple[str | None, Any, int, int]]:
        if self._take("]"):
            return
        while True:
            yield (key, *self._value())
            if not self._take(","):
                self._expect("]")
                return

    def _value(self) -> tuple[Any, int, int]:
        """The value that begins here, its offset and size."""
        self._peek()
        want = _BLOCK
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except (ValueError, RecursionError):
                end = None
            # A number at the end of what is held may go on.
            if end is not None and (end < len(self._text) or self._ended):
                start = self.offset + _size(self._text[: self._at])
                size = _size(self._text[self._at : end])
                self._at = end
                return value, start, size
            if self._ended or len(self._text) - self._at > LIMIT:
                self._cut = self._ended
                raise ValueError("not JSON")
            self._more(want)
            want *= 2

    def _more(self, size: int) -> None:
        self.offset += _size(self._text[: self._at])
        block = self._file.read(size)
        self._ended = not block
        self._text = self._text[self._at :] + self._decode(block, not block)
        self._at = 0

    def _peek(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in " \t\r\n":
                at += 1
            self._at = at
            if at < len(text) or self._ended:
                return text[at : at + 1]
            self._more(_BLOCK)

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _expect(self, character: str) -> None:
        if not self._take(character):
            raise ValueError(character)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
