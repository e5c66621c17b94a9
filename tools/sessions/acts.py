"""The calls of a session as typed calls: what each did, whatever tool or shell it was done with."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from memory.terms import CallKind
from tools.rerun.recorded import recorded, without_numbers
from transcripts.commands import Parsed, Step, parse_command
from transcripts.imported.model import Call


@dataclass(frozen=True)
class Act:
    """A call of a session, its result, and the typed steps that it consists of."""

    call: Call

    @property
    def event(self) -> int:
        return self.call.seq

    @property
    def said(self) -> int:
        """The event that holds the output: the result's, or the call's where there is none."""
        return self.call.seq if self.call.result is None else self.call.result

    @property
    def output(self) -> str:
        """What the tool gave, whole; else what the model saw of it."""
        return self.call.returned or self.call.shown

    @cached_property
    def plain(self) -> str:
        """The output without what a tool that reads files put around it: tags, numbers before lines."""
        if self.call.command is not None:
            return self.output
        return "\n".join(without_numbers(recorded(self.output)).lines)

    @cached_property
    def parsed(self) -> Parsed:
        if self.call.command is not None:
            return parse_command(self.call.command)
        return _of_tool(self.call)

    @property
    def kind(self) -> CallKind:
        return self.parsed.kind

    def steps(self, *kinds: CallKind) -> list[Step]:
        return [step for step in self.parsed.steps if step.kind in kinds]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it read, searched, listed or changed, as they were named."""
        return tuple(dict.fromkeys(name for step in self.parsed.steps for name in files_of(step)))

    @property
    def shows_a_log(self) -> bool:
        """Whether its output is what a program wrote, rather than source or somebody's words."""
        command = self.call.command
        if command is None:
            return bool(self.files) and all(map(is_log, self.files))
        if words()["log"].search(command):
            return True
        looked = self.steps(CallKind.READ_SOURCE, CallKind.SEARCH_SOURCE)
        return any(is_log(name) for step in looked for name in files_of(step))


def acts(calls: Iterable[Call]) -> Iterator[Act]:
    return map(Act, calls)


def files_of(step: Step) -> Iterator[str]:
    for key in ("file", "path"):
        if isinstance(name := step.fields.get(key), str):
            yield name
    yield from (name for name in step.fields.get("paths") or () if isinstance(name, str))


def is_log(name: str) -> bool:
    """Whether a file is one that programs write what happened to."""
    path = PurePosixPath(name)
    if path.suffix.lower() in words()["suffixes"]:
        return False
    return path.suffix in {".log", ".out", ".err", ".txt"} or "log" in path.name.lower()


@cache
def words() -> dict[str, Any]:
    """``words.toml``, patterns compiled."""
    found = tomllib.loads((files("tools.sessions") / "words.toml").read_text("utf-8"))
    return {
        "tool": found["tool"],
        "suffixes": frozenset(found["source"]["suffixes"]),
        "log": re.compile(found["log"]["commands"]),
        "raised": frozenset(found["raised"]["classes"]),
        "frames": [
            (entry["component"], re.compile(entry.get("file", "$^")), re.compile(entry.get("function", "$^")))
            for entry in found["raised"]["frame"]
        ],
        "gpu": re.compile(found["gpu"]["commands"]),
        "capability": re.compile(found["gpu"]["capability"]),
        "gpus": re.compile(found["gpu"]["named"], re.MULTILINE),
        "ready": tuple(found["ready"]["lines"]),
        "version": [(entry["package"], re.compile(entry["pattern"])) for entry in found["version"]],
        "module": found["module"],
        "named": found["named"]["distributions"],
        "scenario": found["scenario"],
    }


def _of_tool(call: Call) -> Parsed:
    """A call of a tool that is no shell."""
    entry = words()["tool"].get(re.sub(r"[^a-z]", "", call.tool.lower()))
    given = call.input if isinstance(call.input, dict) else {}
    if entry is None:
        return Parsed(CallKind.OTHER, {}, [], mutates=True)
    kind = CallKind(entry["kind"])
    fields: dict[str, Any] = {}
    named = next((given[key] for key in entry["file"] if isinstance(given.get(key), str)), None)
    if named is not None:
        fields["paths" if kind is CallKind.SEARCH_SOURCE else "file"] = (
            [named] if kind is CallKind.SEARCH_SOURCE else named
        )
    if "pattern" in entry and isinstance(given.get(entry["pattern"]), str):
        fields["pattern"] = given[entry["pattern"]]
    start, count = (given.get(entry.get(key, "")) for key in ("start", "count"))
    if isinstance(start, int):
        fields["start"] = start
        if isinstance(count, int):
            fields["end"] = start + count - 1
    changes = bool(entry.get("changes"))
    return Parsed(kind, fields, [Step(kind, fields, not changes)], mutates=changes)
