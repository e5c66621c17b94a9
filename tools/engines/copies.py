"""Other places that spell an option's values: registries filled by calls, ``Enum`` classes that mirror it.

Found with byte patterns, not by parsing: these stand in hundreds of files, and all that is wanted is
which words are registered under one name, and where.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tools.engines.folding import LiteralValue

# Quantifiers are possessive (``++``): no file, whatever is written in it, may take more than linear time.
REGISTRATION = re.compile(rb"(?<![\w.])((?:\w++\.)*+\w++)\(\s*+((?:[\"'][\w.+-]++[\"']\s*+(?:,\s*+)?+)++)")
"""``@register_x("name")`` and ``register_x("name", …)``; the strings that come first are the keys."""
WORD = re.compile(rb"[\"']([\w.+-]++)[\"']")
ENUM = re.compile(rb"^class[ \t]++(\w++)\(([^)\n]*+)\):[ \t]*+(?:#.*)?$", re.M)
MEMBER = re.compile(rb"^[ \t]+(\w+)[ \t]*=[ \t]*[\"']([\w.+-]+)[\"']", re.M)
OUTSIDE = re.compile(rb"^[^\s#]", re.M)

MIN_SHARED = 2
ENOUGH_SHARED = 3
"""Fewer shared words are chance unless the copy has no others."""
MIN_OF_COPY = 0.6
MIN_OF_OPTION = 0.4
"""A copy shares at least this part of its own words, and of the option's."""


@dataclass(frozen=True)
class Copy:
    """Words that belong together: all keys of one registry, or all members of one ``Enum``."""

    name: str
    values: tuple[LiteralValue, ...]

    def mirrors(self, words: frozenset[str]) -> bool:
        """Whether this is a second spelling of an option with these values."""
        own = {str(value.value) for value in self.values}
        shared = len(own & words)
        return (
            shared >= MIN_SHARED
            and (shared >= ENOUGH_SHARED or own <= words)
            and shared >= MIN_OF_COPY * len(own)
            and shared >= MIN_OF_OPTION * len(words)
        )


class Copies:
    """Collects registrations and ``Enum`` members file by file."""

    def __init__(self) -> None:
        self._registered: dict[tuple[str, int], list[LiteralValue]] = {}
        self._enums: list[Copy] = []

    def scan(self, file: str, data: bytes) -> None:
        """Add what ``file`` registers and enumerates."""
        lines = Lines(data)
        if b"regist" in data:
            for match in REGISTRATION.finditer(data):
                name = match[1].decode()
                if "regist" not in name.rsplit(".", 1)[-1]:
                    continue
                for position, word in enumerate(WORD.finditer(match[2])):
                    value = _value(word[1], file, lines.of(match.start(2) + word.start()), "registry")
                    self._registered.setdefault((name, position), []).append(value)
        if b"Enum" in data:
            for head in ENUM.finditer(data):
                if b"Enum" not in head[2]:
                    continue
                stop = OUTSIDE.search(data, head.end())
                body_end = stop.start() if stop else len(data)
                members = tuple(
                    _value(member[2], file, lines.of(member.start(2)), "enum", member[1].decode())
                    for member in MEMBER.finditer(data, head.end(), body_end)
                )
                if len(members) >= MIN_SHARED:
                    self._enums.append(Copy(head[1].decode(), members))

    def registered(self, names: Iterable[str]) -> tuple[LiteralValue, ...]:
        """Keys registered by calls of a function with one of these names, first argument only."""
        wanted = set(names)
        return tuple(
            value
            for (name, position), values in sorted(self._registered.items())
            if position == 0 and name.rsplit(".", 1)[-1] in wanted
            for value in values
        )

    def of(self, words: frozenset[str]) -> dict[str, list[LiteralValue]]:
        """For each of an option's values, the other places that spell it."""
        groups = [
            *self._enums,
            *(Copy(name, tuple(values)) for (name, _), values in sorted(self._registered.items())),
        ]
        found: dict[str, list[LiteralValue]] = {}
        for group in groups:
            if group.mirrors(words):
                for value in group.values:
                    found.setdefault(str(value.value), []).append(value)
        return found


class Lines:
    """Line numbers (1-based) of offsets into ``data``, which is looked through once, when first asked."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def _ends(self) -> list[int]:
        return [match.start() for match in re.finditer(rb"\n", self._data)]

    def of(self, offset: int) -> int:
        return bisect_left(self._ends, offset) + 1


def _value(word: bytes, file: str, line: int, idiom: str, key: str | None = None) -> LiteralValue:
    return LiteralValue(word.decode("utf-8", "replace"), file, line, idiom, key)
