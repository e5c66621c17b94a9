"""What a program's options look like, as data (``programs.toml``), and arguments taken apart by it.

An option that is not in the data is not known to be harmless: ``Options.unknown`` says so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from transcripts.commands.words import Arg

_NUMBER = re.compile(r"-\d+")


@dataclass(frozen=True)
class Grammar:
    """``bare``: options without a value; ``values``: with one. ``-x`` and ``--word`` alike.

    ``stop``: what follows the first argument is not ours (wrappers). ``number``: ``-20`` is a count.
    ``other``: what an unknown option is taken for, ``bare`` or ``value``. ``single``: ``-word`` is one
    option. ``any``: every option is known to be harmless.
    """

    bare: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    """A value only where attached: ``--color=auto``."""
    stop: bool = False
    number: bool = False
    single: bool = False
    other: str = "bare"
    any: bool = False


@dataclass
class Options:
    given: list[tuple[str, Arg | None]] = field(default_factory=list)
    arguments: list[Arg] = field(default_factory=list)
    after: list[Arg] | None = None
    """What stood behind ``--``, which is among ``arguments`` too."""
    unknown: bool = False
    """Something is not in the grammar, or may turn into an option when it runs."""
    turns: bool = False
    """Something may turn into an option when it runs: a value that is not known stands where one can."""

    def value(self, *names: str) -> Arg | None:
        """The last value of an option by any of its names."""
        return next(reversed(self.values(*names)), None)

    def values(self, *names: str) -> list[Arg]:
        return [value for name, value in self.given if name in names and value is not None]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.given)


def parse_options(arguments: Sequence[Arg], grammar: Grammar) -> Options:
    """Options and arguments of a program. Never raises; what is not understood sets ``unknown``."""
    found = Options()
    rest = list(arguments)
    while rest:
        place = len(arguments) - len(rest)
        word = rest.pop(0)
        found.turns |= word.unsure or (word.open and word.startswith(("$", "`")))
        if word == "--":
            found.after = list(rest)
            found.arguments += rest
            break
        if not word.startswith("-") or word == "-":
            found.arguments.append(word)
            found.unknown |= word.unsure and not grammar.any
            if grammar.stop:
                found.arguments += rest
                break
        elif grammar.number and _NUMBER.fullmatch(word):
            found.given.append(("-#", Arg(word[1:])))
        elif word.startswith("--"):
            _long(word, rest, grammar, found)
        elif grammar.single:
            _single(word, rest, grammar, found)
        else:
            _short(word, rest, grammar, found)
        found.turns |= any(one.unsure for one in arguments[place : len(arguments) - len(rest)])
    return found


def _long(word: Arg, rest: list[Arg], grammar: Grammar, found: Options) -> None:
    name, equals, value = word.partition("=")
    known = name in grammar.bare or name in grammar.values or name in grammar.optional
    found.unknown |= not known and not grammar.any
    if equals:
        found.given.append((name, Arg(value, word.unsure, word.open)))
    elif (name in grammar.values or (not known and grammar.other == "value")) and rest:
        found.given.append((name, rest.pop(0)))
    else:
        found.given.append((name, None))


def _single(word: Arg, rest: list[Arg], grammar: Grammar, found: Options) -> None:
    name, equals, value = word.partition("=")
    found.unknown |= name not in grammar.bare and name not in grammar.values and not grammar.any
    if equals and name not in grammar.bare:
        found.given.append((name, Arg(value, word.unsure, word.open)))
    elif (name in grammar.values or (name not in grammar.bare and grammar.other == "value")) and rest:
        found.given.append((name, rest.pop(0)))
    else:
        found.given.append((name, None))


def _short(word: Arg, rest: list[Arg], grammar: Grammar, found: Options) -> None:
    """``-abc``: letters until one takes a value, which is the rest of the word or the next."""
    if word in grammar.bare or word in grammar.values:  # -help, -tp: one option
        found.given.append((word, rest.pop(0) if word in grammar.values and rest else None))
        return
    place = 1
    while place < len(word):
        name = "-" + word[place]
        place += 1
        if grammar.number and name[1].isdigit():
            digits = re.match(r"\d+", word[place - 1 :])
            assert digits is not None
            found.given.append(("-#", Arg(digits[0])))
            place += len(digits[0]) - 1
        elif name in grammar.values or (name not in grammar.bare and grammar.other == "value"):
            found.unknown |= name not in grammar.values and not grammar.any
            if place < len(word):
                found.given.append((name, Arg(word[place:], word.unsure, word.open)))
            else:
                found.given.append((name, rest.pop(0) if rest else None))
            return
        elif name in grammar.optional:
            found.given.append((name, Arg(word[place:]) if place < len(word) else None))
            return
        else:
            found.unknown |= name not in grammar.bare and not grammar.any
            found.given.append((name, None))


@dataclass(frozen=True)
class Program:
    """A row of ``programs.toml``: what kind of program it is, and its harmless options."""

    family: str
    grammar: Grammar
    subcommands: dict[str, Program]
    most: int | None
    """Arguments beyond so many are not known to be harmless (the second of ``uniq`` is written to)."""
    facts: dict[str, Any]
    """What else its family needs to know."""


@cache
def programs() -> dict[str, Program]:
    """By name; several names share a row."""
    with (Path(__file__).parent / "programs.toml").open("rb") as file:
        rows = tomllib.load(file)
    return _by_name(rows)


def _by_name(rows: dict[str, Any]) -> dict[str, Program]:
    return {name: made for key, row in rows.items() for made in [_program(row)] for name in key.split()}


_GRAMMAR = {"bare", "values", "optional", "stop", "number", "single", "other", "any"}


def _program(row: dict[str, Any]) -> Program:
    row = dict(row)
    inner = row.pop("sub", {})
    grammar: dict[str, Any] = {name: row.pop(name) for name in _GRAMMAR & row.keys()}
    for name in ("bare", "values", "optional"):
        grammar[name] = frozenset(_names(grammar.get(name, "")))
    return Program(
        family=row.pop("family", ""),
        grammar=Grammar(**grammar),
        subcommands=_by_name(inner),
        most=row.pop("most", None),
        facts=row,
    )


def _names(written: str) -> list[str]:
    """``-abc`` in the data is three options; ``-=word`` is one with a single dash."""
    found: list[str] = []
    for name in written.split():
        if name.startswith("--"):
            found.append(name)
        elif name.startswith("-="):
            found.append("-" + name[2:])
        else:
            found += ["-" + letter for letter in name[1:]]
    return found
