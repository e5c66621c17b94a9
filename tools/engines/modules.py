"""Modules of an unpacked package as syntax: what a name means where it stands, without importing anything."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tools.source.files import PARSE_LIMIT, read_bytes
from tools.source.parse import parse_python
from tools.source.tree import SourceTree

Function = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = ast.Module | ast.ClassDef | Function


@dataclass(frozen=True)
class Imported:
    """``from module import name`` (``name`` is None for ``import module``)."""

    module: str
    name: str | None


Binding = ast.expr | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | Imported


@dataclass
class Module:
    """One parsed file. ``names`` are its top-level bindings, the last assignment winning."""

    file: str
    dotted: str
    is_package: bool
    syntax: ast.Module
    names: dict[str, Binding] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    """Modules that are imported from with ``*``."""


@dataclass(frozen=True)
class Scope:
    """Where an expression stands: a module and the classes and functions around it, outermost first."""

    module: Module
    around: tuple[ast.ClassDef | Function, ...] = ()

    def inside(self, node: ast.ClassDef | Function) -> Scope:
        return Scope(self.module, (*self.around, node))


@dataclass(frozen=True)
class Found:
    """What a name is bound to, and the scope in which that binding is to be read."""

    node: ast.expr | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | Module
    scope: Scope


class Modules:
    """The Python modules of a tree, parsed when first asked for. What does not parse is no module."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.unreadable: dict[str, str] = {}
        """File → why it could not be parsed."""
        self._by_file: dict[str, Module | None] = {}
        self._files: dict[str, str | None] = {}
        self._local_names: dict[ast.ClassDef | Function, dict[str, Binding]] = {}

    def load(self, file: str, data: bytes | None = None) -> Module | None:
        """The module in ``file``, or None if it cannot be parsed (``unreadable`` says why)."""
        if file not in self._by_file:
            self._by_file[file] = self._parse(file, read_bytes(self.tree, file) if data is None else data)
        return self._by_file[file]

    def named(self, dotted: str) -> Module | None:
        """The module called ``dotted`` in this tree, if it is there."""
        file = self.path_of(dotted)
        return self.load(file) if file else None

    def path_of(self, dotted: str) -> str | None:
        """The file of the module called ``dotted``, if it is in this tree."""
        if dotted not in self._files:
            path = dotted.replace(".", "/")
            self._files[dotted] = next(
                (f for f in (f"{path}.py", f"{path}/__init__.py") if (self.tree.root / f).is_file()), None
            )
        return self._files[dotted]

    def class_named(self, file: str, name: str) -> tuple[ast.ClassDef, Scope] | None:
        """The class that ``name`` means in ``file``, and where it stands; None if it is none."""
        module = self.load(file)
        found = self.member(module, name) if module else None
        return (found.node, found.scope) if found and isinstance(found.node, ast.ClassDef) else None

    def look_up(self, name: str, scope: Scope) -> Found | None:
        """What ``name`` means at ``scope``: locals of the functions around, then the module's."""
        for depth in range(len(scope.around), 0, -1):
            node = scope.around[depth - 1]
            if isinstance(node, ast.ClassDef) and depth != len(scope.around):
                continue  # a class body is not a scope for the functions in it
            binding = self._locals(node, scope.module).get(name)
            if binding is not None:
                return self._follow(binding, Scope(scope.module, scope.around[:depth]), set())
        return self.member(scope.module, name)

    def member(self, module: Module, name: str, seen: set[tuple[str, str]] | None = None) -> Found | None:
        """Top-level ``name`` of ``module``, following imports and re-exports."""
        # One set for all ways: modules that import from each other with stars have more ways than time.
        seen = set() if seen is None else seen
        if (module.file, name) in seen:
            return None
        seen.add((module.file, name))
        binding = module.names.get(name)
        if binding is not None:
            return self._follow(binding, Scope(module), seen)
        for star in module.stars:
            other = self.named(star)
            found = self.member(other, name, seen) if other else None
            if found:
                return found
        submodule = self.named(f"{module.dotted}.{name}") if module.is_package else None
        return Found(submodule, Scope(submodule)) if submodule else None

    def class_member(self, node: ast.ClassDef, name: str, scope: Scope) -> Found | None:
        """What ``name`` is in the body of class ``node`` (which stands at ``scope``), bases included."""
        seen: set[ast.ClassDef] = set()
        pending = [(node, scope)]
        while pending:
            node, scope = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            binding = self._locals(node, scope.module).get(name)
            if binding is not None:
                return self._follow(binding, scope.inside(node), set())
            bases = [self.look_up(base.id, scope) for base in node.bases if isinstance(base, ast.Name)]
            pending += [
                (found.node, found.scope)
                for found in reversed(bases)
                if found is not None and isinstance(found.node, ast.ClassDef)
            ]
        return None

    def _locals(self, node: ast.ClassDef | Function, module: Module) -> dict[str, Binding]:
        if node not in self._local_names:
            self._local_names[node] = _bindings(node.body, module).names
        return self._local_names[node]

    def _follow(self, binding: Binding, scope: Scope, seen: set[tuple[str, str]]) -> Found | None:
        if not isinstance(binding, Imported):
            return Found(binding, scope)
        module = self.named(binding.module)
        if binding.name is None:
            return Found(module, Scope(module)) if module else None
        found = self.member(module, binding.name, seen) if module else None
        if found is None:
            submodule = self.named(f"{binding.module}.{binding.name}")
            found = Found(submodule, Scope(submodule)) if submodule else None
        return found

    def _parse(self, file: str, data: bytes) -> Module | None:
        if len(data) > PARSE_LIMIT:
            self.unreadable[file] = f"{len(data)} bytes, more than {PARSE_LIMIT}"
            return None
        try:
            syntax = parse_python(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.unreadable[file] = str(error)
            return None
        parts = file.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        dotted = ".".join(parts[:-1] if is_package else parts)
        module = Module(file, dotted, is_package, syntax)
        collected = _bindings(syntax.body, module)
        module.names, module.stars = collected.names, collected.stars
        return module


@dataclass
class _Collected:
    names: dict[str, Binding] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


def _bindings(body: list[ast.stmt], module: Module) -> _Collected:
    """Names bound by statements, blocks of ``if``/``try``/``with`` included, nested definitions not entered.

    The last assignment wins, but what an ``except`` or ``else`` binds only stands in for what is not bound
    otherwise: ``try: import x`` / ``except ImportError: x = None`` means the module.
    """
    found = _Collected()
    pending: list[tuple[ast.stmt, bool]] = [(node, False) for node in reversed(body)]
    while pending:
        node, weak = pending.pop()
        for name, binding in _bound(node, module, found.stars):
            if not (weak and name in found.names):
                found.names[name] = binding
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inner: list[tuple[ast.stmt, bool]] = [(child, weak) for child in getattr(node, "body", [])]
        inner += [(child, True) for handler in getattr(node, "handlers", []) for child in handler.body]
        inner += [(child, True) for child in getattr(node, "orelse", [])]
        inner += [(child, weak) for child in getattr(node, "finalbody", [])]
        pending.extend(reversed(inner))
    return found


def _bound(node: ast.stmt, module: Module, stars: list[str]) -> list[tuple[str, Binding]]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [(node.name, node)]
        case ast.Assign():
            return [(target.id, node.value) for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [(name, value)]
        case ast.Import():
            return [
                (alias.asname, Imported(alias.name, None))
                if alias.asname
                else (alias.name.split(".", 1)[0], Imported(alias.name.split(".", 1)[0], None))
                for alias in node.names
            ]
        case ast.ImportFrom():
            source = _absolute(node, module)
            stars.extend(source for alias in node.names if alias.name == "*")
            return [
                (alias.asname or alias.name, Imported(source, alias.name))
                for alias in node.names
                if alias.name != "*"
            ]
    return []


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    parts = module.dotted.split(".")
    keep = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([node.module] if node.module else [])])
