"""Changing numbers in sources and asking again: verdicts must follow the gates, and nothing else.

A *mutation* changes the number that a gate tests the device against, so that the gate says the opposite; the
verdict must move as the change implies. A *control* changes such a number where the way does not lead; then
nothing may move.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory.vocabulary import Because, Verdict
from tools.source.tree import SourceTree
from tools.viability.analysis import Analysis
from tools.viability.cell import Cell, Judgement
from tools.viability.hostcode.follow import HostCode
from tools.viability.hostcode.sources import Sources
from tools.viability.interpreter.values import Kind, Site
from tools.viability.remembered import Remembered
from tools.viability.suited import Suited

NUMBER = re.compile(r"(?<![\w.\"'])(\d+)(?![\w.\"'])")
TESTED = re.compile(r"[\[({]\s*\d|==|!=|\bin\b|\breturn \d|^\s*\d+,$")
OTHER = re.compile(r"<|>|lru_cache|minor|(?<!major_)version(?!s=\[)")
"""What a number on a line is tested for: one of some architectures, and nothing else."""
GATES = ("list", "declared", "compare", "decides", "guard")
"""Roles of places whose numbers decide about an architecture."""


@dataclass(frozen=True)
class Edit:
    """One line of a file, before and after, for one cell. ``admits`` tells which way the gate moves."""

    cell: Cell
    file: str
    line: int
    old: str
    new: str
    admits: bool | None


def linked_copy(root: Path, target: Path) -> Path:
    """A copy of a tree that shares the files' content; an edited file is written anew."""
    return Path(shutil.copytree(root, target, copy_function=os.link, symlinks=True))


@contextmanager
def edited(root: Path, edit: Edit) -> Iterator[None]:
    path = root / edit.file
    data = path.read_bytes()
    lines = data.split(b"\n")
    assert lines[edit.line - 1].decode().rstrip("\r") == edit.old
    lines[edit.line - 1] = edit.new.encode()
    _write(path, b"\n".join(lines))
    try:
        yield
    finally:
        _write(path, data)


def _write(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def admitting(analysis: Analysis, cell: Cell, judged: Judgement) -> Edit | None:
    """The change that opens the gate which refuses a cell because of its architecture."""
    row = judged.row
    if row.verdict is not Verdict.BLOCKED or row.because is not Because.ARCHITECTURE:
        return None
    first = row.evidence[0]
    return _change(
        analysis.tree, cell, Site(first.file, first.line, first.idiom, first.end_line), admits=True
    )


def refusing(analysis: Analysis, cell: Cell, scenario: dict[str, str], rng: random.Random) -> Edit | None:
    """The change that closes a gate which a cell passes on its way."""
    option = analysis.option(cell.component)
    way = analysis._way(option, lambda *_: scenario, cell) if option is not None else None
    if way is None:
        return None
    edits = []
    for gate in way(cell.backend, cell.arch).machine.gates:
        if gate.passed and Kind.ARCH in gate.taint.kinds and not _one_of_several(analysis, gate.site):
            for site in gate.taint.sites:
                edit = _change(analysis.tree, cell, site, admits=False) if site.role in GATES[:4] else None
                if edit is not None and edit not in edits:
                    edits.append(edit)
    return rng.choice(edits) if edits else None


def _one_of_several(analysis: Analysis, site: Site) -> bool:
    """Whether a test is one of a chain: what it turns down may be taken by the next."""
    module = analysis.world.module(analysis.world.dotted(site.file))
    chained = (
        (node.test.lineno, node.orelse[0].test.lineno)
        for node in (ast.walk(module.tree) if module is not None else ())
        if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
    )
    return any(site.line in lines for lines in chained)


def _change(tree: SourceTree, cell: Cell, site: Site, *, admits: bool) -> Edit | None:
    """Put the cell's own number where another stood, or another where its own stood."""
    major, minor = cell.arch
    for number in range(site.line, min(max(site.end_line, site.line), site.line + 12) + 1):
        old = tree.lines(site.file)[number - 1]
        found = [match for match in NUMBER.finditer(old.split("#")[0]) if _own(match[1], major, minor)]
        if not found or not TESTED.search(old) or OTHER.search(old):
            continue
        own = [match for match in found if int(match[1]) == _own(match[1], major, minor)]
        if admits:
            if own:
                continue
            match = found[0]
            new = old[: match.start()] + str(_own(match[1], major, minor)) + old[match.end() :]
        else:
            if not own:
                continue
            match = own[0]
            # A minimum goes up by one, so that others still pass; one of a list becomes nobody's.
            other = int(match[1]) + 1 if "return" in old else int(match[1]) * 10 + 9
            new = old[: match.start()] + str(other) + old[match.end() :]
        return Edit(cell, site.file, number, old, new, admits)
    return None


def _own(text: str, major: int, minor: int) -> int | None:
    """The architecture's number on the scale of another: 9 is a major version, 90 a capability."""
    value = int(text)
    if 7 <= value <= 13:
        return major
    return major * 10 + minor if 70 <= value <= 130 else None


def controls(analysis: Analysis, root: str) -> list[tuple[str, int, str, str]]:
    """``(file, line, old, new)`` of numbers like an architecture's in functions that no run has entered."""
    entered = {node for run in analysis.remembered.runs.values() for node in run.machine.active}
    found = []
    for file in sorted(analysis.world.texts(root)):
        module = analysis.world._modules.get(analysis.world.dotted(file))
        if module is None:
            continue
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef) or id(function) in entered:
                continue
            inside = [part for part in ast.walk(function) if isinstance(part, ast.FunctionDef)]
            if any(id(part) in entered for part in inside) or function.decorator_list:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Constant) and type(node.value) is int and _own(str(node.value), 1, 1):
                    old = analysis.tree.lines(file)[node.lineno - 1]
                    text = str(node.value)
                    if old.isascii() and old[node.col_offset :].startswith(text):
                        new = old[: node.col_offset] + f"{text}7" + old[node.col_offset + len(text) :]
                        found.append((file, node.lineno, old, new))
    return list(dict.fromkeys(found))


def judged_again(analysis: Analysis, edit: Edit, scenario: dict[str, str]) -> Judgement:
    """The cell with the edit in its file, which is read and followed anew; afterwards all is as before."""
    world, tree, dotted = analysis.world, analysis.tree, analysis.world.dotted(edit.file)
    followed = analysis.remembered, analysis.layers, analysis._misfits
    read = world._modules, world._imports, tree._lines, tree._spans
    try:
        analysis.remembered = Remembered(analysis.discovery, HostCode(Sources(tree)), analysis.sizes.tell)
        analysis.layers, analysis._misfits = Suited(analysis.discovery, analysis._run), {}
        world._modules = {name: module for name, module in read[0].items() if name != dotted}
        world._imports = {file: found for file, found in read[1].items() if file != edit.file}
        tree._lines = {file: lines for file, lines in read[2].items() if file != edit.file}
        tree._spans = {span: evidence for span, evidence in read[3].items() if span[0] != edit.file}
        with edited(tree.root, edit):
            return analysis.judge(edit.cell, scenario)
    finally:
        analysis.remembered, analysis.layers, analysis._misfits = followed
        world._modules, world._imports, tree._lines, tree._spans = read


def moved(edit: Edit, before: Judgement, after: Judgement) -> bool:
    """Whether a verdict moved as the change of its gate implies."""
    if edit.admits:
        first = after.row.evidence[0] if after.row.evidence else None
        still = first is not None and (first.file, first.line) == (
            before.row.evidence[0].file,
            before.row.evidence[0].line,
        )
        return after.row.verdict is not Verdict.BLOCKED or not still
    return after.row.verdict is Verdict.BLOCKED


def same(before: Judgement, after: Judgement) -> bool:
    """Whether nothing moved: the row (its lines and their hashes included), the hops and the notes."""
    return (before.row, before.hops, before.notes) == (after.row, after.hops, after.notes)
