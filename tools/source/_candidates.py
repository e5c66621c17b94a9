"""Narrowing a search to the files that can match: ``rg`` where found, else ``grep``, else Python.

The outside programs are only asked which files hold a fixed string, never to match: their dialects of
regular expressions differ. What matches is decided by one piece of code, so the result is the same
whichever of them is there.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tools.base import ToolError
from tools.source.files import read_bytes
from tools.source.tree import SourceTree

WORTH_A_PROCESS = 300
"""Files above which starting a program is cheaper than reading them here."""
SECONDS = 30.0
"""For all command lines of one search together."""
ARGUMENTS = 100_000
"""Bytes of file names that go on one command line."""

Which = Callable[[str], str | None]


def literal_in(pattern: str) -> str:
    """The longest fixed string that every match of a regular expression contains; empty if none is sure."""
    if "|" in pattern or "(?" in pattern or "\n" in pattern:
        return ""
    runs: list[str] = [""]
    index, depth = 0, 0
    while index < len(pattern):
        character = pattern[index]
        step, literal = 1, ""
        if character == "\\" and index + 1 < len(pattern):
            step, escaped = 2, pattern[index + 1]
            literal = escaped if not escaped.isalnum() else ""
        elif character == "[":
            step = _class_end(pattern, index) - index
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "{":
            step = max(pattern.find("}", index) - index + 1, 1)
        elif character not in ".^$*+?}]":
            literal = character
        following = pattern[index + step] if index + step < len(pattern) else ""
        if literal and depth == 0 and following not in ("*", "?", "{"):
            runs[-1] += literal
            if following == "+":
                runs.append("")
        else:
            runs.append("")
        index += step
    return max(runs, key=len)


def _class_end(pattern: str, start: int) -> int:
    """Index after the ``]`` that ends the character class at ``start``."""
    index = start + 1
    if pattern[index : index + 1] == "^":
        index += 1
    if pattern[index : index + 1] == "]":
        index += 1
    while index < len(pattern) and pattern[index] != "]":
        index += 2 if pattern[index] == "\\" else 1
    return index + 1


def holding(
    tree: SourceTree,
    files: list[str],
    literal: str,
    *,
    ignore_case: bool = False,
    which: Which = shutil.which,
) -> list[str]:
    """Those of ``files`` (order kept) whose bytes contain ``literal``; all of them if it is empty.

    Raises :class:`ToolError` if the search takes longer than :data:`SECONDS`.
    """
    if not literal or (ignore_case and not literal.isascii()):
        return files
    if len(files) >= WORTH_A_PROCESS:
        for name, options in (
            ("rg", ["--no-config", "--no-ignore", "--hidden", "--text", "--null", "-l", "-F"]),
            ("grep", ["-a", "-l", "-F", "--null"]),
        ):
            program = which(name)
            if program:
                command = [program, *options, *(["-i"] if ignore_case else []), "-e", literal, "--"]
                found = _ask(tree, command, files)
                if found is not None:
                    return found
    wanted = literal.encode("utf-8", "surrogatepass")
    if ignore_case:
        pattern = re.compile(re.escape(wanted), re.IGNORECASE)
        return [file for file in files if pattern.search(read_bytes(tree, file))]
    return [file for file in files if wanted in read_bytes(tree, file)]


def _ask(tree: SourceTree, command: list[str], files: list[str]) -> list[str] | None:
    """The files that a program names, or None if it cannot be used. Names are given, nothing is walked."""
    from tools.environment.child import allowed_environment, run_child

    environment = {**allowed_environment(os.environ), "LC_ALL": "C"}
    until = time.monotonic() + SECONDS
    named: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="assay-search-") as scratch:
        output, errors = Path(scratch, "found"), Path(scratch, "errors")
        for batch in _batches(files):
            try:
                ended = run_child(
                    [*command, *batch],
                    environment=environment,
                    folder=tree.root,
                    output=output,
                    errors=errors,
                    seconds=max(0.0, until - time.monotonic()),
                )
            except OSError:
                return None
            if ended.timed_out:
                raise ToolError(f"the search took more than {SECONDS:.0f} s; narrow it with path or include")
            if ended.code not in (0, 1):  # 1: nothing found
                return None
            named.update(os.fsdecode(output.read_bytes()).split("\0"))
    return [file for file in files if file in named]


def _batches(files: list[str]) -> list[list[str]]:
    batches: list[list[str]] = [[]]
    room = ARGUMENTS
    for file in files:
        size = len(os.fsencode(file)) + 9  # the pointer counts too
        if size > room:
            batches.append([])
            room = ARGUMENTS
        batches[-1].append(file)
        room -= size
    return batches
