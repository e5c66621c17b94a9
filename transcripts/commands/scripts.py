"""Scripts of ``sed`` and ``awk``: which lines they show, and whether they do nothing but show.

:func:`sed_script` and :func:`awk_script` give None for what is not known to be harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass
class Shown:
    """What a script shows: ``spans`` of lines, or lines from one pattern to another, or matches of one.

    ``all``: every line, changed perhaps, so that the numbers of lines stay.
    """

    spans: list[tuple[int, int | None]] = field(default_factory=list)
    patterns: tuple[str | None, str | None] | None = None
    match: str | None = None
    all: bool = False
    plain: bool = True
    """Lines are shown as they are, or with their numbers before them."""


@dataclass
class SedCommand:
    first: str | None
    second: str | None
    negated: bool
    letter: str
    inner: list[SedCommand]


_ADDRESS = re.compile(r"\d+(?:~\d+)?|\$")
_SECOND = re.compile(r"\d+|\$|[+~]\d+")
_QUIET = "pPdDnNhHgGx=lqQFz"


LONGEST = 5_000
"""Characters of a script that are looked at."""


class _UnknownScriptError(Exception):
    pass


def sed_script(script: str, *, quiet: bool) -> Shown | None:
    """What a sed script shows, ``quiet`` with ``-n``. None: it writes, runs something, or might."""
    if len(script) > LONGEST:
        return None
    try:
        commands, rest = _sed_commands(script, 0)
    except (_UnknownScriptError, IndexError, RecursionError):
        return None
    if rest < len(script):
        return None
    return _shown_quiet(commands) if quiet else _shown(commands)


def _shown_quiet(commands: list[SedCommand]) -> Shown:
    shown = Shown(plain=all(command.letter in "pqQd{" for command in commands))
    for command in commands:
        prints = command.letter == "p" or (
            command.letter == "{" and any(one.letter == "p" and one.first is None for one in command.inner)
        )
        if not prints or command.negated:
            continue
        span = _span(command)
        if span is not None:
            shown.spans.append(span)
        elif command.first is None:
            shown.all = True
        elif command.second is None:
            shown.match = command.first[1:]
        else:
            first, second = command.first, command.second
            start = first[1:] if first.startswith("/") else None
            end = second[1:] if second.startswith("/") else None if second == "$" else second
            shown.patterns = (start, end)
    return shown


def _shown(commands: list[SedCommand]) -> Shown:
    letters = [command.letter for command in commands]
    if letters == ["q", "d"] and (commands[0].first or "").isdigit() and commands[1].first is None:
        return Shown(spans=[(int(commands[0].first or "1"),) * 2])  # 5q;d
    for command in commands:
        if letters == ["d"] and not command.negated and (span := _span(command)) is not None and span[0] == 1:
            return Shown(spans=[(span[1] + 1, None)] if span[1] else [])
        if command.letter == "d" and command.negated and (span := _span(command)) is not None:
            return Shown(spans=[span])
        if command.letter in "qQ" and command.first is not None and command.first.isdigit():
            return Shown(spans=[(1, int(command.first) - (command.letter == "Q"))])
        if command.letter == "d" and command.second == "$" and (command.first or "").isdigit():
            return Shown(spans=[(1, int(command.first or "1") - 1)])
    if all(command.letter in "sy" for command in commands):
        return Shown(all=True, plain=not commands)
    return Shown(plain=False)


def _span(command: SedCommand) -> tuple[int, int | None] | None:
    first, second = command.first, command.second
    if first is None or first.startswith("/") or "~" in first:
        return None
    if second is None:
        return (-1, None) if first == "$" else (int(first), int(first))
    if first == "$" or second.startswith(("/", "~")):
        return None
    if second == "$":
        return (int(first), None)
    if second.startswith("+"):
        return (int(first), int(first) + int(second[1:]))
    return (int(first), max(int(second), int(first)))


def _sed_commands(script: str, place: int, *, braces: bool = False) -> tuple[list[SedCommand], int]:
    found: list[SedCommand] = []
    while place < len(script):
        if script[place] in " \t\n;":
            place += 1
            continue
        if script[place] == "}":
            if braces:
                return found, place + 1
            raise _UnknownScriptError
        if script[place] == "#":
            place = _line_end(script, place)
            continue
        command, place = _sed_command(script, place)
        found.append(command)
    if braces:
        raise _UnknownScriptError
    return found, place


def _sed_command(script: str, place: int) -> tuple[SedCommand, int]:
    first, place = _sed_address(script, place, _ADDRESS)
    second = None
    if first is not None:
        place = _blanks(script, place)
        if script[place] == ",":
            second, place = _sed_address(script, _blanks(script, place + 1), _SECOND)
            if second is None:
                raise _UnknownScriptError
            place = _blanks(script, place)
    negated = False
    while script[place] in "! ":
        negated |= script[place] == "!"
        place += 1
    letter = script[place]
    place += 1
    inner: list[SedCommand] = []
    if letter == "{":
        inner, place = _sed_commands(script, place, braces=True)
    elif letter in "sy":
        place = _sed_substitution(script, place, flags=letter == "s")
    elif letter in "qQl":
        while place < len(script) and script[place] in " 0123456789":
            place += 1
    elif letter in "btT:aic":
        # Labels and text: neither runs anything, both go to the end of the line.
        place = _line_end(script, place)
    elif letter not in _QUIET:
        raise _UnknownScriptError  # w, W, e, r, R and what sed does not know
    place = _blanks(script, place)
    if place < len(script) and script[place] not in ";\n}#" and letter != "{":
        raise _UnknownScriptError
    return SedCommand(first, second, negated, letter, inner), place


def _sed_address(script: str, place: int, numbers: re.Pattern[str]) -> tuple[str | None, int]:
    found = numbers.match(script, place)
    if found:
        return found[0], found.end()
    if script[place] == "/":
        return _sed_pattern(script, place + 1, "/")
    if script[place] == "\\":
        return _sed_pattern(script, place + 2, script[place + 1])
    return None, place


def _sed_pattern(script: str, place: int, delimiter: str) -> tuple[str, int]:
    end = _delimited(script, place, delimiter)
    text, place = script[place:end], end + 1
    while place < len(script) and script[place] in "IM":
        place += 1
    return "/" + (text.replace("\\/", "/") if delimiter == "/" else text), place


def _sed_substitution(script: str, place: int, *, flags: bool) -> int:
    delimiter = script[place]
    if delimiter in "\\\n":
        raise _UnknownScriptError
    place = _delimited(script, place + 1, delimiter, classes=flags) + 1
    place = _delimited(script, place, delimiter) + 1
    while flags and place < len(script) and script[place] in "gpiIM0123456789":
        place += 1
    return place  # `w` and `e` among the flags are left over, and refused


def _delimited(script: str, place: int, delimiter: str, *, classes: bool = False) -> int:
    while script[place] != delimiter:
        place += 2 if script[place] == "\\" else 1
    return place


def _blanks(script: str, place: int) -> int:
    while place < len(script) and script[place] in " \t":
        place += 1
    return place


def _line_end(script: str, place: int) -> int:
    end = script.find("\n", place)
    return len(script) if end < 0 else end


_AWK_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?:^|(?<=[~(,{};&|!\n]))\s*/(?:[^/\\\n]|\\.)+/')
"""Texts, and patterns where one can stand, whichever begins first."""
_AWK_CALLS = re.compile(r"\b(?:system|getline)\b|@")
_AWK_WRITES = re.compile(r"(?<!\|)\|(?!\|)|>>|\bprintf?\b[^;}\n]*>")
_AWK_NUMBER = r"(?:F?NR)\s*(==|>=|<=|>|<)\s*(\d+)"
_AWK_ONE = re.compile(_AWK_NUMBER)
_AWK_TWO = re.compile(rf"\(?\s*{_AWK_NUMBER}\s*(&&|,)\s*{_AWK_NUMBER}\s*\)?")
_AWK_RULE = re.compile(r"([^{}]*)(\{[^{}]*\})?")
_AWK_LINE = re.compile(r'\{\s*print\s*(?:\(?\s*F?NR\s*,?\s*"[: \\t|]+"\s*,?)?\s*(?:\$0)?\s*\)?\s*;?\s*\}')
_AWK_WAYS = re.compile(r"/((?:[^/\\]|\\.)+)/(?:\s*,\s*/((?:[^/\\]|\\.)+)/)?")


def awk_script(script: str, variables: dict[str, str]) -> Shown | None:
    """What an awk program shows. None: it writes, runs something, or might."""
    if len(script) > LONGEST or _AWK_CALLS.search(script):
        return None
    bare = _AWK_QUOTED.sub(" 0 ", script)
    # A quote that is left over, or a division beside texts: where they begin and end is not certain.
    if _AWK_WRITES.search(bare) or '"' in bare or ("/" in bare and '"' in script):
        return None
    for name, value in variables.items():
        if re.fullmatch(r"\d+", value):
            script = re.sub(rf"\b{re.escape(name)}\b", value, script)
    shown = Shown()
    last: int | None = None
    for rule in _AWK_RULE.finditer(script):
        condition, action = rule[1].strip(" ;\n"), rule[2]
        if not condition and not action:
            continue
        if action and not re.search(r"\bprint", action):
            ends = _awk_span(condition)
            if ends is not None and re.fullmatch(r"\{\s*exit\s*;?\s*\}", action):
                last = ends[0] - (not shown.spans)  # the line itself is shown where the exit comes after
            continue
        shown.plain &= not action or bool(_AWK_LINE.fullmatch(action))
        span = _awk_span(condition)
        ways = _AWK_WAYS.fullmatch(condition)
        if span is not None:
            shown.spans.append(span)
        elif ways and ways[2]:
            shown.patterns = (ways[1], ways[2])
        elif ways:
            shown.match = ways[1]
    if last is not None and len(shown.spans) == 1 and shown.spans[0][1] is None:
        shown.spans = [(shown.spans[0][0], last)]
    return shown


def _awk_span(condition: str) -> tuple[int, int | None] | None:
    two = _AWK_TWO.fullmatch(condition)
    if two:
        first, number, joined, second, other = two.groups()
        if joined == ",":
            return (int(number), int(other)) if first == second == "==" else None
        low, high = _awk_bound(first, number), _awk_bound(second, other)
        start = max(low[0], high[0])
        ends = [end for end in (low[1], high[1]) if end is not None]
        return (start, min(ends) if ends else None)
    one = _AWK_ONE.fullmatch(condition.strip("() "))
    return _awk_bound(one[1], one[2]) if one else None


def _awk_bound(operator: str, number: str) -> tuple[int, int | None]:
    value = int(number)
    return {
        "==": (value, value),
        ">=": (value, None),
        ">": (value + 1, None),
        "<=": (1, value),
        "<": (1, value - 1),
    }[operator]
