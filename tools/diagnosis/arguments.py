"""Arguments as engines print them: ``Args(key='value', …)`` and ``{'key': 'value', …}``.

What is printed is Python's ``repr``, but of objects too, and a log may cut it anywhere: values that are no
literals stay text, and what is cut off is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

_OPENS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_NAME = re.compile(r"[A-Za-z_]\w*")
_ENUM = re.compile(r"<(?:\w+\.)*\w+: (.+)>")
MOST = 2000
"""Arguments that are taken."""


def call_arguments(text: str) -> Mapping[str, Any]:
    """``key=value, …)``: what follows the opening bracket of a call."""
    found = {}
    for piece in _pieces(text):
        name, equals, value = piece.partition("=")
        if equals and _NAME.fullmatch(name.strip()):
            found[name.strip()] = _value(value)
    return found


def dict_arguments(text: str) -> Mapping[str, Any]:
    """``'key': value, …}``: what follows the opening brace of a dictionary."""
    found = {}
    for piece in _pieces(text):
        name, colon, value = piece.partition(":")
        key = _value(name)
        if colon and isinstance(key, str) and _NAME.fullmatch(key):
            found[key] = _value(value)
    return found


def _pieces(text: str) -> Iterator[str]:
    """The parts between commas outside brackets and quotes, up to the bracket that closes."""
    closing: list[str] = []
    quote, start, given = "", 0, 0
    place = 0
    while place < len(text) and given < MOST:
        mark = text[place]
        if quote:
            if mark == "\\":
                place += 1
            elif mark == quote:
                quote = ""
        elif mark in "'\"":
            quote = mark
        elif mark in _OPENS:
            closing.append(_OPENS[mark])
        elif closing and mark == closing[-1]:
            closing.pop()
        elif not closing and mark in ")}]":
            yield text[start:place]
            return
        elif not closing and mark == ",":
            yield text[start:place]
            start = place + 1
            given += 1
        place += 1


def _value(text: str) -> Any:
    text = text.strip()
    if enum := _ENUM.fullmatch(text):
        text = enum[1]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
