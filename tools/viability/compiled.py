"""Compiled code at the end of a way: whether the libraries that hold an operator have code for the device.

A machine can run only what the library was compiled for (``memory.architecture.images``). Where every library
of the environment that defines an operator has device code for other architectures alone, and the operator
starts that code and nothing else, it cannot run: that is a refusal, although no line of source says so. The
reverse is no promise: code for an architecture may be a stub, and checks in compiled code are not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from memory.architecture import Architecture
from memory.vocabulary import Because, Evidence, HypothesisState, Row, Verdict
from tools.binaries.elf import BinaryError
from tools.binaries.operators import Operator, find_operator
from tools.source.files import walk
from tools.source.tree import SourceTree
from tools.viability.cell import Cell, Judgement, RunCell
from tools.viability.evidence import evidence_at, first_gate
from tools.viability.interpreter.records import Crossing
from tools.viability.profile import libraries
from tools.viability.runs import Run

OPERATORS = "torch.ops."
IDIOM = "no device code"


@dataclass(frozen=True)
class Held:
    """An operator and the file of the library that holds it."""

    file: str
    operator: Operator


class CompiledCode:
    """The compiled libraries of a tree, opened when an operator is asked for."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._files: list[str] | None = None
        self._found: dict[str, tuple[Held, ...]] = {}
        data = libraries()["compiled"]
        self._launch = tuple(data["launch"])
        self._elsewhere = tuple(data["elsewhere"])

    def without_code(self, name: str, arch: tuple[int, int]) -> tuple[Held, ...]:
        """The libraries that hold the operator ``name`` (``torch.ops.NAMESPACE.NAME``), if none of them has
        code for ``arch`` and it is their code that would run; else none."""
        held = self.holding(name)
        here = Architecture(*arch)
        closed = all(one.operator.compiled.runs_on(here) is False and self._own(one.operator) for one in held)
        return held if closed else ()

    def holding(self, name: str) -> tuple[Held, ...]:
        """Every library of the tree that defines the operator; one that cannot be read counts as none."""
        if name not in self._found:
            self._found[name] = tuple(self._holding(name))
        return self._found[name]

    def _holding(self, name: str) -> list[Held]:
        parts = name.removeprefix(OPERATORS).split(".")
        if not name.startswith(OPERATORS) or len(parts) < 2:
            return []
        if self._files is None:
            self._files = list(walk(self.tree, suffixes=(".so",)))
        found = []
        for file in self._files:
            try:
                operator = find_operator(self.tree.resolve(file), parts[1])
            except BinaryError:
                return []  # it might be the one
            if operator is not None and operator.compiled.targets:
                found.append(Held(file, operator))
        return found

    def _own(self, operator: Operator) -> bool:
        """Whether the operator starts device code of its library and none of other libraries."""
        return any(name.startswith(self._launch) for name in operator.reaches) and not any(
            name.startswith(self._elsewhere) for name in operator.reaches
        )


def no_code_row(cell: Cell, run: Run, again: RunCell, code: CompiledCode) -> Judgement | None:
    """``blocked`` where an operator that the value certainly leads to has no code for the device."""
    for crossing in run.machine.crossings:
        if crossing.by_option and not crossing.readable and crossing.always:
            held = code.without_code(crossing.name, cell.arch)
            if held:
                return _blocked(cell, run, again, crossing, held, code.tree)
    return None


def _blocked(
    cell: Cell, run: Run, again: RunCell, crossing: Crossing, held: tuple[Held, ...], tree: SourceTree
) -> Judgement:
    files = [one.file for one in held]
    listings = tuple(_listing(tree, file) for file in files)
    row = Row(
        component=cell.component,
        backend=cell.backend,
        arch=cell.arch_name,
        verdict=Verdict.BLOCKED,
        because=Because.ARCHITECTURE,
        first_gate=first_gate(cell, run, again),
        state=HypothesisState.PREDICTED,
        evidence=(*listings, evidence_at(tree, crossing.site, "call")),
    )
    why = f"{crossing.name} runs compiled code, and {', '.join(files)} has none for {cell.arch_name}"
    return Judgement(
        row, [(crossing.site, f"calls {crossing.name}, without code for {cell.arch_name}")], [why]
    )


def _listing(tree: SourceTree, file: str) -> Evidence:
    return tree.evidence(file, 1, len(tree.lines(file)), idiom=IDIOM)
