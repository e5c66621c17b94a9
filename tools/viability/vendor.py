"""Backends that are made for hardware of another vendor, told by what their code cannot do without."""

from __future__ import annotations

import ast
import re

from memory.vocabulary import Because, HypothesisState, Row, Verdict
from tools.source.tree import SourceTree
from tools.viability.cell import Cell, Judgement
from tools.viability.evidence import evidence_at
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import import_target
from tools.viability.interpreter.records import Crossing
from tools.viability.interpreter.values import ClassValue, Site
from tools.viability.profile import libraries

ELSEWHERE = frozenset(libraries()["other_hardware"])
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
DEVICES = frozenset(libraries()["vendor_attributes"]) | frozenset(libraries()["other_devices"])


def foreign_import(m: Machine, cls: ClassValue) -> tuple[Site, str] | None:
    """Where the module of a backend's class imports a package for other hardware, whatever the device is.

    An import under a test of the device is for whom the test lets through; one in a ``try`` is not.
    """
    for bindings in cls.module.bindings.values():
        for binding in bindings:
            statement = binding.statement
            if not isinstance(statement, ast.ImportFrom) or any(g.kind == "if" for g in binding.guards):
                continue
            package = import_target(cls.module, statement).split(".", 1)[0]
            if package in ELSEWHERE and m.world.exists(package) is False:
                end = statement.end_lineno or statement.lineno
                return Site(cls.module.file, statement.lineno, "import", end), package
    return None


def foreign_name(cls: ClassValue) -> tuple[Site, str] | None:
    """Where a backend's class is named after such hardware, and the word that says so."""
    words = {word.lower() for word in _WORD.findall(cls.name)}
    device = next(iter(sorted(words & DEVICES)), None)
    return (Site(cls.module.file, cls.node.lineno, "declared"), device) if device is not None else None


def foreign_call(crossings: list[Crossing]) -> Crossing | None:
    """A call of compiled code that exists in builds for other hardware only."""
    for crossing in crossings:
        parts = crossing.name.split(".")
        namespace = parts[2] if crossing.name.startswith("torch.ops.") and len(parts) > 3 else parts[0]
        device = parts[-1].rpartition("_")[2]
        if crossing.certain and not crossing.readable and (namespace in ELSEWHERE or device in DEVICES):
            return crossing
    return None


def foreign_row(cell: Cell, site: Site, what: str, tree: SourceTree) -> Judgement:
    """The row of a backend that is another vendor's; ``what`` is the package or call that it needs."""
    row = Row(
        component=cell.component,
        backend=cell.backend,
        arch=cell.arch_name,
        verdict=Verdict.NOT_APPLICABLE,
        because=Because.VENDOR,
        state=HypothesisState.PREDICTED,
        evidence=(evidence_at(tree, site, site.role),),
    )
    return Judgement(row, [(site, f"needs {what}")], [f"needs {what}, which is for other hardware"])
