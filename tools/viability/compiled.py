"""Compiled code at the end of a way: whether the libraries that hold an operator have code for the device.

A machine can run only what the library was compiled for (``memory.architecture.images``). Where every library
of the environment that defines an operator has device code for other architectures alone, and the operator
starts that code and nothing else, it cannot run: that is a refusal, although no line of source says so. So it
is where all kernels that do the operator's work are hollow for the device (``tools.binaries.work``), and
where all that a library without device code has compiled is for others (``built``).
Checks in the host's compiled code are not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from memory.architecture import Architecture
from memory.vocabulary import Because, Evidence, HypothesisState, Row, Verdict
from tools.binaries.elf import BinaryError
from tools.binaries.launched import launched
from tools.binaries.operators import Operator, find_operator
from tools.binaries.work import Code, does_work
from tools.source.files import walk
from tools.source.tree import WITHIN, SourceTree
from tools.viability.built import BuiltCode
from tools.viability.cell import Cell, Judgement, RunCell
from tools.viability.evidence import evidence_at, first_gate
from tools.viability.fetched import FetchedCode
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Crossing, Fetch
from tools.viability.interpreter.values import Site
from tools.viability.profile import libraries
from tools.viability.runs import Run

OPERATORS = "torch.ops."
IDIOM = "no device code"
LIBRARY = ".so"


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
        self._kernels: dict[tuple[str, str], dict[str, Code] | None] = {}
        self._built = BuiltCode(tree)
        self.fetched = FetchedCode(tree)
        data = libraries()["compiled"]
        self._launch = tuple(data["launch"])
        self._libraries = tuple(data["elsewhere"])
        self._elsewhere = self._libraries + tuple(data["made"])

    def without_code(self, name: str, arch: tuple[int, int]) -> list[str]:
        """Where it stands that the operator ``name`` (``torch.ops.NAMESPACE.NAME``) has nothing that runs on
        ``arch``: names of listings, or of the headers that are for others, for each library that holds it.
        Empty where something may run.
        """
        here = Architecture(*arch)
        proofs = [self._dead(held, _operator(name), here) for held in self.holding(name)]
        return [file for proof in proofs for file in proof] if all(proofs) else []

    def with_code(self, name: str, arch: tuple[int, int]) -> bool:
        """Whether every library that holds the operator has kernels for it that do their work on ``arch``."""
        here = Architecture(*arch)
        held = self.holding(name)
        return bool(held) and all(self._works(one, _operator(name), here) is True for one in held)

    def starts_nothing(self, name: str) -> bool:
        """Whether the operator only sets something up or answers: it leads to no kernel."""
        held = self.holding(name)
        return bool(held) and all(self._idle(one, _operator(name)) for one in held)

    def _idle(self, held: Held, operator: str) -> bool:
        starts = any(name.startswith(self._launch + self._elsewhere) for name in held.operator.reaches)
        return held.operator.told and not starts and not self._built.headers(held.file, operator)

    def _dead(self, held: Held, operator: str, arch: Architecture) -> list[str]:
        if not held.operator.compiled.targets:
            headers = [file for file, _ in self._built.headers(held.file, operator)]
            alone = not any(name.startswith(self._libraries) for name in held.operator.reaches)
            return headers if alone and self._built.works(held.file, operator, arch) is False else []
        if not self._own(held.operator):
            return []
        if held.operator.compiled.runs_on(arch) is False:
            return [held.file]
        return [f"{held.file}{WITHIN}{operator}"] if self._works(held, operator, arch) is False else []

    def _works(self, held: Held, operator: str, arch: Architecture) -> bool | None:
        file = held.file
        if not held.operator.compiled.targets:
            return self._built.works(file, operator, arch)
        key = (file, operator)
        if key not in self._kernels:
            try:
                self._kernels[key] = launched(self.tree.resolve(file), operator)
            except BinaryError:
                self._kernels[key] = None
        code = self._kernels[key]
        return does_work(code, arch) if code else None

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
            self._files = list(walk(self.tree, suffixes=(LIBRARY,)))
        found = []
        for file in self._files:
            try:
                operator = find_operator(self.tree.resolve(file), parts[1])
            except BinaryError:
                return []  # it might be the one
            if operator is None:
                continue
            if operator.compiled.targets or operator.told or self._built.named(file, parts[1]):
                found.append(Held(file, operator))
        # Others may hold the same word among their strings; one that is named after the namespace is the one.
        told = [held for held in found if held.operator.told] or found
        return [held for held in told if _stem(held.file) == parts[0]] or told

    def cited(self, file: str) -> Evidence:
        """A listing as a whole; of a header the line that asks what it is compiled for."""
        if WITHIN not in file and not file.endswith(LIBRARY):
            return self.tree.evidence(file, self._built.guard(file), idiom=IDIOM)
        return self.tree.evidence(file, 1, len(self.tree.lines(file)), idiom=IDIOM)

    def _own(self, operator: Operator) -> bool:
        """Whether the operator starts device code of its library and none of other libraries."""
        return any(name.startswith(self._launch) for name in operator.reaches) and not any(
            name.startswith(self._elsewhere) for name in operator.reaches
        )


def _stem(file: str) -> str:
    return file.rpartition("/")[2].partition(".")[0]


def _operator(name: str) -> str:
    """``NAME`` of ``torch.ops.NAMESPACE.NAME``, with an overload or without."""
    return name.removeprefix(OPERATORS).split(".")[1]


def no_code_row(cell: Cell, run: Run, again: RunCell, code: CompiledCode) -> Judgement | None:
    """``blocked`` where the value certainly leads to operators that have no code for the device."""
    m = run.machine
    fetch = _for_others(cell, m, code, 0, range(len(m.crossings)), range(len(m.choices)))
    if fetch is not None:
        return _not_fetched(cell, run, again, fetch, code)
    found = _dead_ends(cell, m, code, 0, range(len(m.crossings)), range(len(m.choices)))
    return _blocked(cell, run, again, found, code) if found else None


def _dead_ends(
    cell: Cell, m: Machine, code: CompiledCode, doubts: int, crossings: range, choices: range
) -> list[Crossing]:
    """A call without code on every way through this part of a run; none if some way gets through.

    ``doubts``: tests on the path to this part whose outcome is not known; what is behind more of them may
    not be reached, unless all sides of a choice end.
    """
    for number in crossings:
        crossing = m.crossings[number]
        chosen = crossing.doubts == doubts and crossing.by_option and not crossing.readable
        if chosen and code.without_code(crossing.name, cell.arch):
            return [crossing]
    for number in choices:
        choice = m.choices[number]
        if choice.doubts == doubts:
            ends = [_dead_ends(cell, m, code, doubts + 1, *side) for side in choice.sides]
            if ends and all(ends):
                return [crossing for end in ends for crossing in end]
    return []


def _for_others(
    cell: Cell, m: Machine, code: CompiledCode, doubts: int, crossings: range, choices: range
) -> Fetch | None:
    """Kernels for other architectures alone that are fetched on every way through this part of a run."""
    for fetch in m.fetches:
        here = fetch.doubts == doubts and (not doubts or fetch.place - 1 in crossings)
        if here and code.fetched.runs_on(fetch, cell.arch) is False:
            return fetch
    for number in choices:
        choice = m.choices[number]
        if choice.doubts == doubts:
            ends = [_for_others(cell, m, code, doubts + 1, *side) for side in choice.sides]
            if ends and all(ends):
                return ends[0]
    return None


def _not_fetched(cell: Cell, run: Run, again: RunCell, fetch: Fetch, code: CompiledCode) -> Judgement:
    """All kernels that can be fetched on the way are for other architectures."""
    if fetch.sieve is not None:
        kept = ", ".join(fetch.targets)
        why = f"keeps of the kernels that it fetches those for {kept}: none is for {cell.arch_name}"
        hops = [(fetch.site, "fetches"), (fetch.sieve, "the targets that are kept of it")]
        evidence = (evidence_at(code.tree, fetch.sieve, "list"), evidence_at(code.tree, fetch.site, "call"))
        return Judgement(_row(cell, run, again, evidence), hops, [why])
    file = code.fetched.kept(fetch)
    assert file is not None
    why = f"runs kernels that are fetched, and of those that belong to {file} none is for {cell.arch_name}"
    hops = [(fetch.site, "fetches"), (Site(file, 1, "decides"), f"belongs to none for {cell.arch_name}")]
    evidence = (code.cited(file), evidence_at(code.tree, fetch.site, "call"))
    return Judgement(_row(cell, run, again, evidence), hops, [why])


def _row(cell: Cell, run: Run, again: RunCell, evidence: tuple[Evidence, ...]) -> Row:
    return Row(
        component=cell.component,
        backend=cell.backend,
        arch=cell.arch_name,
        verdict=Verdict.BLOCKED,
        because=Because.ARCHITECTURE,
        first_gate=first_gate(cell, run, again),
        state=HypothesisState.PREDICTED,
        evidence=evidence,
    )


def _blocked(
    cell: Cell, run: Run, again: RunCell, crossings: list[Crossing], code: CompiledCode
) -> Judgement:
    names = list(dict.fromkeys(crossing.name for crossing in crossings))
    files = list(dict.fromkeys(file for name in names for file in code.without_code(name, cell.arch)))
    calls = list(dict.fromkeys(crossing.site for crossing in crossings))
    evidence = (
        *(code.cited(file) for file in files),
        *(evidence_at(code.tree, site, "call") for site in calls),
    )
    why = f"runs compiled code, {' and '.join(names)}, and {', '.join(files)} has none for {cell.arch_name}"
    hops = [(crossing.site, f"calls {crossing.name}") for crossing in crossings]
    hops += [(Site(file, 1, "decides"), f"holds no code for {cell.arch_name}") for file in files]
    return Judgement(_row(cell, run, again, evidence), hops, [why])
