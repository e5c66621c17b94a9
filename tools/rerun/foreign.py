"""Search and listing tools of other agents, said as the commands that they are."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from memory.terms import CallKind
from tools.rerun.recorded import Recorded
from transcripts.commands import Step
from transcripts.imported.model import Call

_SAID = re.compile(r"(?:No (?:files|matches|content) found.*|Found \d+ .*|Found no .*)")
_FILE = re.compile(r"(\S.*):")
_LINE = re.compile(r"\s+Line (\d+): (.*)")
_NARROWED = ("type", "multiline", "offset", "-A", "-B", "-C", "head_limit")


def as_command(call: Call, step: Step, seen: Recorded) -> tuple[Step, Recorded] | None:
    """The step and the output of a grep or glob tool as ``rg`` and a listing have them; None where they say
    less, or more."""
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    path, pattern = given.get("path") or ".", given.get("pattern")
    if (
        not isinstance(pattern, str)
        or not isinstance(path, str)
        or any(given.get(name) for name in _NARROWED)
    ):
        return None
    lines = [line for line in seen.lines if not _SAID.fullmatch(line)]
    if step.kind is CallKind.LIST_SOURCE:
        fields: dict[str, Any] = {"tool": "glob", "path": path, "glob": pattern}
        return replace(step, fields=fields), replace(seen, lines=[line for line in lines if line])
    flags = {"-r", "-n"} | {name for name in ("-i",) if given.get(name)}
    if any(_LINE.fullmatch(line) for line in lines):
        lines = _grouped(lines)
    elif given.get("output_mode", "files_with_matches") == "files_with_matches":
        flags.add("-l")
    elif given.get("output_mode") != "content" or given.get("-n") is False:
        return None
    fields = {"tool": "rg", "pattern": pattern, "paths": [path], "flags": sorted(flags)}
    glob = given.get("glob") or given.get("include")
    if isinstance(glob, str):
        fields["include"] = [glob]
    return replace(step, fields=fields), replace(seen, lines=[line for line in lines if line])


def _grouped(lines: list[str]) -> list[str]:
    """A file's name over its hits, as one line a hit."""
    file, found = "", []
    for line in lines:
        if hit := _LINE.fullmatch(line):
            found.append(f"{file}:{hit[1]}:{hit[2]}")
        elif heading := _FILE.fullmatch(line):
            file = heading[1]
    return found
