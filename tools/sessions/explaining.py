"""An explanation of one step: statements, each with the events that it rests on."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from memory.terms import CallKind
from tools.engines.components import chooses_implementation, component_of
from transcripts.commands import Step

_DEFINED = re.compile(r"\b(?:def|class|struct|import)\s+([A-Za-z_]\w{3,})")
_NAME = re.compile(r"(?<![\w./-])[A-Za-z_]\w*(?:_\w+|[a-z][A-Z])\w*")
_LONGEST = 20_000
"""Characters of a command line that are looked at."""
_CHOICE = re.compile(r"(?<![\w-])(--[a-z][\w-]+)[= ]+['\"]?([A-Za-z][\w.-]*)")


@dataclass(frozen=True)
class Statement:
    """``about``: ``did``, ``request``, ``before``, ``first``, ``later``, ``hypothesis`` or ``assumption``."""

    about: str
    text: str
    events: tuple[int, ...]
    name: str | None = None
    """The file, symbol or backend that it is about."""


@dataclass(frozen=True)
class Explanation:
    transcript: str
    format: str
    event: int
    """That was asked about."""
    step: tuple[int, ...]
    """The events of the step that it belongs to."""
    statements: tuple[Statement, ...]


def same_file(one: str, other: str) -> bool:
    """Whether two names may be one file: the shorter is the end of the longer."""
    short, long = sorted((PurePosixPath(one).parts, PurePosixPath(other).parts), key=len)
    short = short[1:] if short[:1] in {("/",), ("~",)} and len(short) < len(long) else short
    return bool(short) and long[-len(short) :] == short


def span(step: Step) -> str:
    """``lines 30–60``, where a read names lines."""
    start, end = step.fields.get("start"), step.fields.get("end")
    if not isinstance(start, int) or (start == 1 and end is None):
        return ""
    if start < 0:
        return f"the last {-start} lines"
    return f"lines {start}–{end}" if isinstance(end, int) else f"lines from {start}"


def what(step: Step, command: str) -> str:
    """A typed step in words, for a person."""
    fields = step.fields
    match step.kind:
        case CallKind.READ_SOURCE:
            return " ".join(filter(None, ("read", str(fields.get("file")), span(step))))
        case CallKind.SEARCH_SOURCE:
            places = ", ".join(fields.get("paths") or ()) or "."
            return f"searched {places} for {fields.get('pattern')!r}"
        case CallKind.LIST_SOURCE:
            return f"listed {fields.get('path') or fields.get('file') or '.'}"
        case CallKind.UPGRADE_ENVIRONMENT:
            return f"installed {', '.join(fields.get('packages') or ()) or fields.get('image') or 'packages'}"
        case CallKind.LAUNCH_SERVER:
            chosen = [f"{name} {value}" for name, value in choices_of(fields.get("flags") or {}).items()]
            return f"launched {fields.get('engine')}" + (f" with {', '.join(chosen)}" if chosen else "")
        case CallKind.RUN_BENCHMARK:
            return f"ran the benchmark {fields.get('tool')}"
        case CallKind.GPU_STATUS:
            return f"asked for the state of the GPUs ({fields.get('tool')})"
        case _:
            if name := fields.get("file"):
                return f"changed {name}"
            return f"ran {_short(command)}"


def choices_of(flags: dict[str, Any]) -> dict[str, str]:
    """Component → backend, of flags that choose an implementation.

    A bare ``--backend`` is a load generator's: the protocol that it speaks.
    """
    return {
        component_of(flag): value
        for flag, value in flags.items()
        if isinstance(value, str) and value != "auto" and chooses_implementation(flag) and flag != "--backend"
    }


def choices_in(command: str) -> dict[str, str]:
    """The same of a command line that need not be understood as a whole."""
    return choices_of(dict(_CHOICE.findall(command[:_LONGEST])))


def symbols(text: str, most: int) -> list[str]:
    """Names in source: first those that are defined or imported, then the others, in their order."""
    found = [*_DEFINED.findall(text), *(match[0] for match in _NAME.finditer(text))]
    own = (name for name in found if len(name) > 4 and not hasattr(builtins, name))
    return list(dict.fromkeys(own))[:most]


def has_word(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def listed(numbers: list[int], most: int = 5) -> str:
    """``events 3, 8 and 12 more``."""
    shown = ", ".join(map(str, numbers[:most]))
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return f"event{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _short(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def quoted(text: str, most: int = 160) -> str:
    return f"“{_short(text, most)}”"


def lines_with(words: list[str], text: str) -> Iterator[str]:
    """Lines of a summary that hold one of ``words``."""
    for line in text.splitlines():
        if any(has_word(word, line) for word in words):
            yield line.strip(" -*#\t")
