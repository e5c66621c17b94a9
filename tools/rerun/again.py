"""All reads of a session made again on an environment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from memory.terms import CallKind, Drift
from tools.rerun.foreign import as_command
from tools.rerun.lists import list_again
from tools.rerun.mapping import Mapping
from tools.rerun.reads import read_again
from tools.rerun.recorded import Recorded, recorded, without_numbers
from tools.rerun.searches import search_again
from tools.rerun.verdict import Verdict, not_comparable
from tools.sessions.acts import Act
from tools.source.tree import SourceTree
from transcripts.commands import Step
from transcripts.imported.model import OK, Call

READS = (CallKind.READ_SOURCE, CallKind.SEARCH_SOURCE, CallKind.LIST_SOURCE)


@dataclass(frozen=True)
class Again:
    """One read of a call, and what has become of it."""

    event: int
    """The call."""
    said: int
    """The event that holds what it gave."""
    kind: CallKind
    paths: list[str]
    """As the session named them."""
    files: list[str]
    """The environment's names of them."""
    verdict: Verdict
    command: str | None = None


@dataclass
class Rerun:
    reads: list[Again] = field(default_factory=list)
    unmapped: Counter[str] = field(default_factory=Counter)
    """Paths that are none of the environment's, and how many reads were of them."""
    not_run: Counter[str] = field(default_factory=Counter)
    """Why calls that read were not made again, and how many."""

    @property
    def counts(self) -> dict[str, int]:
        """Reads by drift, every word there."""
        found = Counter(one.verdict.drift for one in self.reads)
        return {word.value: found[word] for word in Drift}


def rerun(calls: Iterable[Call], tree: SourceTree) -> Rerun:
    """The reads among ``calls``, made again on ``tree``. What may change something is never made."""
    done = Rerun()
    mapping = Mapping(tree)
    for call in calls:
        act = Act(call)
        if not act.steps(*READS):
            continue
        if act.parsed.mutates:
            done.not_run["may change something"] += 1
        elif call.result is None:
            done.not_run["no result is on record"] += 1
        else:
            done.reads += _again(act, mapping, done.unmapped, done.not_run)
    return done


def _again(act: Act, mapping: Mapping, unmapped: Counter[str], unmade: Counter[str]) -> Iterator[Again]:
    for step, seen in sections(act):
        if act.call.command is None and step.kind is not CallKind.READ_SOURCE and seen is not None:
            said = as_command(act.call, step, seen)
            if said is None:
                unmade["a tool's output that is not understood"] += 1
                continue
            step, seen = said
        paths = _paths(step)
        cwd = step.fields.get("cwd") or act.call.cwd
        names = {path: mapping.name(path, cwd) for path in paths}
        inside = {path: name for path, name in names.items() if name is not None}
        if len(inside) < len(names) or not names:
            unmapped.update(path for path, name in names.items() if name is None)
            continue
        verdict = _verdict(act, step, inside, seen, mapping.tree)
        yield Again(act.event, act.said, step.kind, paths, list(inside.values()), verdict, act.call.command)


def _verdict(act: Act, step: Step, names: dict[str, str], seen: Recorded | None, tree: SourceTree) -> Verdict:
    if act.call.status != OK and step.kind is not CallKind.SEARCH_SOURCE:
        return not_comparable(f"the call ended {act.call.status}")
    if "rev" in step.fields:
        return not_comparable("it read another revision of a repository")
    if any("$" in path or "`" in path for path in names) or "loop" in step.fields:
        return not_comparable("what was read depends on a variable")
    if any(_is_pattern(path) and not (tree.root / names[path]).exists() for path in names):
        return not_comparable("which files were read depends on a pattern of names")
    if not step.plain:
        return not_comparable("another program changed what was shown")
    if seen is None:
        return not_comparable("several parts wrote into one output")
    path, name = next(iter(names.items()))
    if step.kind is CallKind.READ_SOURCE:
        numbered = act.call.command is None
        return read_again(tree, name, step.fields, without_numbers(seen), numbered=numbered)
    if step.kind is CallKind.SEARCH_SOURCE:
        return search_again(tree, names, step.fields, seen)
    return list_again(tree, path, name, step.fields, seen)


def _is_pattern(path: str) -> bool:
    """Whether a shell makes other names of a path, and perhaps several."""
    return bool(re.search(r"[*?\[]|\{.*(?:,|\.\.).*\}", path))


def _paths(step: Step) -> list[str]:
    fields: dict[str, Any] = step.fields
    if step.kind is CallKind.SEARCH_SOURCE:
        return [str(path) for path in fields.get("paths", [])]
    name = fields.get("file") or fields.get("path")
    return [str(name)] if name else []


def sections(act: Act) -> Iterator[tuple[Step, Recorded | None]]:
    """Each read of a call with its part of the output; None where it cannot be told from the others'.

    Lines that an ``echo`` printed part the output; what stands between two of them is one read's, if no more
    than one stands there.
    """
    output = recorded(act.output, truncated=act.call.truncated)
    parts = act.parsed.parts or act.parsed.steps
    runs: list[tuple[list[Step], list[str]]] = [([], [])]
    lines = list(output.lines)
    for part in parts:
        if part.prints is not None and part.safe and part.prints in lines:
            place = lines.index(part.prints)
            runs[-1][1].extend(lines[:place])
            lines = lines[place + 1 :]
            runs.append(([], []))
        elif part.prints is None or not part.aside:
            runs[-1][0].append(part)
    runs[-1][1].extend(lines)
    for steps, text in runs:
        for step in steps:
            if step.kind in READS:
                last = text is runs[-1][1]
                yield step, (Recorded(text, None, output.cut and last) if len(steps) == 1 else None)
