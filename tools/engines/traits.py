"""What kinds of layers a model's class can build: the engine's own layers that its source leads to."""

from __future__ import annotations

import ast
import re

from memory.vocabulary import Evidence
from tools.engines.modules import Imported, Module, Modules, Scope
from tools.source.tree import SourceTree

CLASS_LIMIT = 200
"""Classes and functions looked through for one model; the largest need about sixty."""


def traits_of(
    tree: SourceTree,
    modules: Modules,
    start: ast.ClassDef,
    scope: Scope,
    models_under: tuple[str, ...],
    patterns: dict[str, str],
) -> dict[str, Evidence]:
    """Trait → the line that uses a layer whose name fits its pattern.

    Follows the names used in the class through the classes, functions and tables of the models' folders and
    holds the patterns against them; names from elsewhere in the engine are its layers and not entered.
    """
    wanted = {trait: re.compile(pattern) for trait, pattern in patterns.items()}
    found: dict[str, Evidence] = {}
    seen: set[ast.AST] = {start}
    pending: list[tuple[ast.AST, Module]] = [(start, scope.module)]
    while pending and len(seen) <= CLASS_LIMIT and len(found) < len(wanted):
        node, module = pending.pop(0)
        for name, line in _names_used(node):
            binding = module.names.get(name)
            if binding is None:
                continue
            for trait, pattern in wanted.items():
                if trait not in found and pattern.search(name):
                    found[trait] = tree.evidence(module.file, line, idiom="layer-use")
            if isinstance(binding, Imported) and not _in_models(binding.module, models_under, modules):
                continue
            target = modules.member(module, name)
            if (
                target is not None
                and isinstance(target.node, ast.ClassDef | ast.FunctionDef | ast.Dict)
                and target.node not in seen
            ):
                seen.add(target.node)
                pending.append((target.node, target.scope.module))
    return dict(sorted(found.items()))


def _names_used(node: ast.AST) -> list[tuple[str, int]]:
    names: dict[str, int] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            names.setdefault(inner.id, inner.lineno)
    return list(names.items())


def _in_models(dotted: str, models_under: tuple[str, ...], modules: Modules) -> bool:
    file = modules.path_of(dotted)
    return file is not None and any(file.startswith(f"{under}/") for under in models_under)
