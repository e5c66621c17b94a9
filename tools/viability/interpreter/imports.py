"""Which modules an engine imports at all: what registers itself in one that nobody imports is in no table."""

from __future__ import annotations

import ast
import re

from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Importer, Module, World
from tools.viability.interpreter.names import holds, import_target


def is_imported(m: Machine, dotted: str) -> bool:
    """False where all imports of a module stand at the top of others, under conditions that do not hold."""
    here = m.world.module(dotted)
    found = m.world.importers(dotted, find_importers) if here is not None and not here.is_package else []
    if not found:
        return True  # by its name, or by something that was not read
    return any(guards is None or holds(m, module, guards)[0] is not False for module, guards in found)


def find_importers(world: World, dotted: str) -> list[Importer]:
    """Each import of a module, and what must hold for it; None where it stands in a function."""
    package, _, name = dotted.rpartition(".")
    word = re.compile(rb"\b%s\b" % re.escape(name.encode()))
    folder, home = package.replace(".", "/") + "/", package.rpartition(".")[2].encode()
    found: list[Importer] = []
    for file, data in world.texts(dotted.split(".", 1)[0]).items():
        if name.encode() not in data or not (home in data or file.startswith(folder)):
            continue  # whoever stands elsewhere names its package as well
        if not word.search(data) or world.dotted(file) == dotted:
            continue
        module = world.module(world.dotted(file))
        if module is None:
            return []
        at_top = {
            _place(binding.statement): binding.guards
            for bindings in module.bindings.values()
            for binding in bindings
        }
        imports, texts = world.imports(module)
        if any(dotted in text for text in texts):
            return []
        brought = [node for node in imports if _brings(module, node, package, name)]
        found += [(module, at_top.get(_place(node))) for node in brought]
    return found


def _place(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _brings(module: Module, node: ast.stmt, package: str, name: str) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == f"{package}.{name}" for alias in node.names)
    if not isinstance(node, ast.ImportFrom):
        return False
    target = import_target(module, node)
    return target == f"{package}.{name}" or (
        target == package and any(alias.name in (name, "*") for alias in node.names)
    )
