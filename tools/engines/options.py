"""What an engine can be told on its command line: options, their values, where they are declared."""

from __future__ import annotations

import re
from typing import Any

from memory.vocabulary import Contract, Evidence
from tools.engines.adapter import require_installed
from tools.engines.components import chooses_implementation, component_of
from tools.engines.copies import Copies
from tools.engines.folding import Folder
from tools.engines.idioms import CANDIDATE, Declaration, declarations
from tools.engines.modules import Modules
from tools.source.files import read_bytes, walk
from tools.source.tree import SourceTree


class DeclaredValue(Contract):
    """One value that an option accepts, with the line that declares it."""

    value: str
    evidence: Evidence
    also: tuple[Evidence, ...] = ()
    """Other places that spell the same value: a registry's key, an ``Enum`` that mirrors the list."""


class Option(Contract):
    """One option of the engine that takes one of a closed set of values.

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


def is_backend_option(option: Option) -> bool:
    """Whether the option chooses among implementations, by the words of its flag."""
    return chooses_implementation(option.flag or option.field)


def backend_options(options: list[Option]) -> list[Option]:
    """Those of ``options`` that choose among implementations."""
    return [option for option in options if is_backend_option(option)]


def discover_options(tree: SourceTree, engine: str) -> list[Option]:
    """Every option of ``engine`` with a closed set of values, in the version that lies in ``tree``.

    Sorted by field. Raises ``ToolError`` if the engine is unknown or not in the tree. Files that cannot
    be parsed are passed over.
    """
    profile = require_installed(engine, tree)
    modules = Modules(tree)
    copies = Copies()
    folder = Folder(modules, copies.registered)
    candidates: list[str] = []
    texts: dict[str, bytes] = {}
    for under in profile.options_under:
        if not (tree.root / under).exists():
            continue
        for file in walk(tree, under, (".py",)):
            data = read_bytes(tree, file)
            copies.scan(file, data)
            if CANDIDATE.search(data):
                candidates.append(file)
                texts[file] = data
    for file in candidates:
        modules.load(file, texts[file])
    return [
        _option(tree, declared, texts, copies)
        for declared in declarations(modules, folder, candidates)
        if declared.values.values
    ]


def _option(tree: SourceTree, declared: Declaration, texts: dict[str, bytes], copies: Copies) -> Option:
    values = declared.values.values
    declared_at = {(value.file, value.line) for value in values}
    other = copies.of(frozenset(str(value.value) for value in values))
    return Option(
        component=component_of(declared.flag or declared.field),
        flag=declared.flag,
        field=declared.field,
        values=tuple(
            DeclaredValue(
                value=str(value.value),
                evidence=tree.evidence(value.file, value.line, idiom=value.idiom),
                also=tuple(
                    tree.evidence(copy.file, copy.line, idiom=copy.idiom)
                    for copy in other.get(str(value.value), [])
                    if (copy.file, copy.line) not in declared_at
                ),
            )
            for value in values
        ),
        default=declared.default,
        open_set=not declared.values.complete or _has_adder(tree, declared, texts),
        evidence=tree.evidence(declared.file, declared.line, declared.end_line, idiom=declared.idiom),
    )


def _has_adder(tree: SourceTree, declared: Declaration, texts: dict[str, bytes]) -> bool:
    """Whether something adds to a list that values are read from: ``NAME.extend``, called or handed out."""
    for file, name in declared.values.symbols:
        data = texts.get(file) or read_bytes(tree, file)
        if re.search(rb"\b%s\.(?:extend|append|insert|add|update)\b" % name.encode(), data):
            return True
    return False
