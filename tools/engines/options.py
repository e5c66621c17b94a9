"""What an engine's installed version can be told on its command line: options, their values, where declared."""

from __future__ import annotations

from typing import Any

from memory.vocabulary import Contract, Evidence
from tools.source.tree import SourceTree


class DeclaredValue(Contract):
    """One value that an option accepts, with the line that declares it."""

    value: str
    evidence: Evidence


class Option(Contract):
    """One option of the engine that chooses among implementations.

    ``component`` is the vocabulary's name (``fp4_gemm``, ``moe_runner``, ``attention`` …), derived from
    the flag, never listed. ``field`` is the attribute of the engine's options object that holds it.
    """

    component: str
    flag: str | None
    field: str
    values: tuple[DeclaredValue, ...]
    default: Any = None
    open_set: bool = False
    """More values can be added at run time (an adder function or plug-ins exist)."""
    evidence: Evidence


def discover_options(tree: SourceTree, engine: str) -> list[Option]:
    """Every option of ``engine`` with a closed set of values, in the version that lies in ``tree``."""
    raise NotImplementedError
