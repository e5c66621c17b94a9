"""What a module's global name stands for: one name at a time, without running the module.

Of all statements that could bind the name, the last whose guards hold counts; several that may hold are
joined. Imports of one module by another are such bindings, so they are followed here too.
"""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.bindings import Binding, Guard
from tools.viability.interpreter.definitions import define_class, define_function
from tools.viability.interpreter.dispatch import Leave, call, evaluate, run
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.records import NOT_BOUND, Frame
from tools.viability.interpreter.truth import truth
from tools.viability.interpreter.values import (
    CLEAN,
    NOT_NONE,
    UNKNOWN,
    External,
    Kind,
    Raised,
    Taint,
    bare,
    merge,
    taint,
)


class UnboundError(Exception):
    """Nothing binds a module's name. Of its own kind, so that no error of ours is taken for it."""


def global_name(m: Machine, module: Module, name: str) -> Any:
    """Value of a module's global; raises :class:`UnboundError` where nothing binds it."""
    key = (module.name, name)
    if key in m.globals:
        return m.globals[key]
    if not module.may_bind(name):
        raise UnboundError(name)
    if key in m.resolving:
        return UNKNOWN
    m.resolving.add(key)
    # What a module holds does not depend on where its name is first asked for.
    with m.apart():
        try:
            value = _resolve(m, module, name)
        finally:
            m.resolving.discard(key)
    m.globals.setdefault(key, value)
    if isinstance(bare(value), dict) and not bare(value):
        with m.apart():  # what decorators enter into it while the package is imported
            m.facts.register_all(m, module, name)
    return m.globals[key]


def _resolve(m: Machine, module: Module, name: str) -> Any:
    found: list[Any] = []
    changes: list[Binding] = []
    for binding in reversed(module.bindings.get(name, [])):
        held, why = holds(m, module, binding.guards)
        if held is False:
            continue
        if binding.mutates:
            changes.append(binding)
            continue
        value = _bind_global(m, module, name, binding)
        if value is NOT_BOUND:
            continue
        found.append(taint(value, why))
        if held:
            break
    if not found:
        found.extend(_star(m, module, name))
    if not found:
        raise UnboundError(name)
    value = found[0]
    for other in found[1:]:
        value = merge(value, other)
    value = _singleton(m, module, name, value)
    m.globals[module.name, name] = value
    for change in reversed(changes):
        _bind_global(m, module, name, change)
    return m.globals[module.name, name]


def _star(m: Machine, module: Module, name: str) -> list[Any]:
    for statement, guards in reversed(module.stars):
        if holds(m, module, guards)[0] is False:
            continue
        target = import_target(module, statement)
        if (target, name) in m.resolving:
            continue  # a circle of stars brings nothing
        value = import_name(m, module, target, name)
        if value is not NOT_BOUND and not (isinstance(bare(value), External)):
            return [value]
    return []


def holds(m: Machine, module: Module, guards: tuple[Guard, ...]) -> tuple[bool | None, Taint]:
    why = CLEAN
    sure = True
    frame = Frame(module, {})
    for guard in guards:
        if guard.kind == "if":
            assert isinstance(guard.node, ast.expr)
            try:
                decided, depends = truth(m, evaluate(m, guard.node, frame))
            except Raised:
                decided, depends = None, CLEAN
            if decided is None:
                sure = False
            elif decided is not guard.holds:
                return False, CLEAN
            why = why | Taint(depends.kinds - {Kind.SOFT})
        else:
            assert isinstance(guard.node, ast.Try)
            fails = import_fails(m, module, guard.node)
            if fails is None:
                sure = False
            elif fails is not (guard.kind == "except"):
                return False, CLEAN
    return (True if sure else None), why


def _singleton(m: Machine, module: Module, name: str, value: Any) -> Any:
    """A global that starts as ``None`` and is assigned by some function at start-up.

    If such a function reads the engine's options, it is run (that is how an option's value reaches
    the code); if it only fills the global on first use, the global is still ``None``; else it was
    set by something not followed: unknown, but not ``None``.
    """
    # Assigning to the module's attribute from outside is no start-up.
    writers = [w for w in module.global_writers.get(name, []) if w.name != "__setattr__"]
    if bare(value) is not None or not writers:
        return value
    for writer in writers:
        if m.facts.reads_options(writer):
            if m.active.get(id(writer)):
                return value  # while it runs, what it has not come to yet is as it was
            return m.facts.initialise(m, module, name, writer)
    if all(_tests_for_none(writer, name) for writer in writers):
        return value
    return NOT_NONE


def _tests_for_none(function: ast.FunctionDef, name: str) -> bool:
    for node in ast.walk(function):
        test = node.test if isinstance(node, (ast.If, ast.IfExp)) else None
        if test is not None and any(isinstance(p, ast.Name) and p.id == name for p in ast.walk(test)):
            return True
    return False


def _bind_global(m: Machine, module: Module, name: str, binding: Binding) -> Any:
    """Run one module-level statement for the sake of one name."""
    statement = binding.statement
    frame = Frame(module, _GlobalView(m, module))
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return define_function(m, statement, Frame(module, {}))
        case ast.ClassDef():
            return define_class(m, statement, Frame(module, {}))
        case ast.Import(names=names):
            alias = next(a for a in names if (a.asname or a.name.split(".")[0]) == name)
            target = alias.name if alias.asname else alias.name.split(".")[0]
            return NOT_BOUND if m.world.exists(alias.name) is False else module_value(m, target)
        case ast.ImportFrom(names=names):
            alias = next(a for a in names if (a.asname or a.name) == name)
            return import_name(m, module, import_target(module, statement), alias.name)
        case ast.Assign() | ast.AnnAssign() if not binding.mutates:
            holder = Frame(module, {})
            try:
                run(m, [statement], holder)
            except Raised:
                return UNKNOWN
            return holder.locals.get(name, UNKNOWN)
        case _:
            try:
                run(m, [statement], frame)
            except (Raised, Leave):
                return UNKNOWN
            return m.globals.get((module.name, name), NOT_BOUND)


class _GlobalView(dict[str, Any]):
    """Locals of a module-level block: names written become the module's globals."""

    def __init__(self, m: Machine, module: Module) -> None:
        super().__init__()
        self.m, self.module = m, module

    def __contains__(self, name: object) -> bool:
        return (self.module.name, name) in self.m.globals

    def __getitem__(self, name: str) -> Any:
        return self.m.globals[self.module.name, name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.m.globals[self.module.name, name] = value


def import_target(module: Module, node: ast.ImportFrom) -> str:
    """The absolute dotted name that ``from … import`` refers to."""
    if not node.level:
        return node.module or ""
    base = module.package
    for _ in range(node.level - 1):
        base = base.rpartition(".")[0]
    return f"{base}.{node.module}" if node.module else base


def module_value(m: Machine, dotted: str) -> Any:
    module = m.world.module(dotted)
    if module is not None:
        return module
    return External(dotted) if m.world.exists(dotted) is None else UNKNOWN


def import_name(m: Machine, module: Module, target: str, name: str) -> Any:
    """``from target import name``; NOT_BOUND where that is known to fail."""
    exists = m.world.exists(target)
    if exists is None:
        return m.facts.external(f"{target}.{name}")
    if not exists:
        return NOT_BOUND
    source = m.world.module(target)
    if source is None:
        return UNKNOWN
    # A package that imports from itself the name that it is about to bind means the module of that name.
    itself = source is module and (name not in source.bindings or (target, name) in m.resolving)
    if not itself:
        try:
            return global_name(m, source, name)
        except UnboundError:
            pass
    child = m.world.module(f"{target}.{name}")
    if child is not None:
        return child
    if m.world.exists(f"{target}.{name}"):
        return m.facts.external(f"{target}.{name}")  # there, but not readable
    if "__getattr__" in source.bindings:
        return call(m, global_name(m, source, "__getattr__"), [name], {}, Frame(source, {}), source.tree)
    # A module that binds nothing at all was not read, or is filled from elsewhere.
    return UNKNOWN if _may_hold_more(m, source, set()) else NOT_BOUND


def _may_hold_more(m: Machine, module: Module, seen: set[str]) -> bool:
    """Whether a module holds names that were not read: one that a star of it brings is not readable."""
    if module.name in seen:
        return False
    seen.add(module.name)
    if not module.bindings and not module.stars:
        return True
    if m.world.binds_by_name(module):
        return True
    brought = [m.world.module(import_target(module, statement)) for statement, _ in module.stars]
    return any(source is None or _may_hold_more(m, source, seen) for source in brought)


def import_fails(m: Machine, module: Module, node: ast.Try) -> bool | None:
    """Whether a module-level ``try`` ends in its handler: one of its imports is known to fail.

    None where that depends on a package of which it is not known whether it is installed.
    """
    unsure = False
    for statement, deferred in module.tried(node):
        for dotted in _imported(module, statement):
            unsure = unsure or not (m.world.certain(dotted) or deferred)
        if isinstance(statement, ast.ImportFrom):
            target = import_target(module, statement)
            if m.world.exists(target) is False and not deferred:
                return True
            if m.world.exists(target) and not deferred:
                source = m.world.module(target)
                for alias in statement.names:
                    known = source is None or alias.name == "*" or alias.name in source.bindings
                    if not known and import_name(m, module, target, alias.name) is NOT_BOUND:
                        return True
        elif isinstance(statement, ast.Import):
            if any(m.world.exists(a.name) is False for a in statement.names) and not deferred:
                return True
        elif isinstance(statement, ast.Raise) and statement in node.body:
            return True
    return None if unsure else False


def _imported(module: Module, statement: ast.AST) -> list[str]:
    if isinstance(statement, ast.ImportFrom):
        return [import_target(module, statement)]
    return [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
