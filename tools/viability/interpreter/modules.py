"""Modules that are never executed: names are looked up in an index of the statements that could bind them.

A module's top level is read once into ``name → [Binding]``. A binding carries the ``if`` tests and
``try`` blocks around it, so the interpreter can evaluate one name, for one architecture, without the
import's cost and side effects.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tools.source.tree import SourceTree, decode
from tools.viability.interpreter.bindings import (
    Binding,
    Guard,
    Signature,
    index_body,
    registers,
    signature_of,
    yields,
)
from tools.viability.interpreter.shelved import shelve
from tools.viability.interpreter.values import Site

BY_NAME = re.compile(r"\bglobals\(\)(\[[^\]]+\]\s*=[^=]|\.update\()|\bsetattr\(\s*sys\.modules|^\s*exec\(")
"""A module gives itself names that stand nowhere in it."""
GLOBAL = re.compile(rb"(?:^|[;:])[ \t]*global[ \t\\]", re.M)
"""Where a ``global`` statement may stand."""


@dataclass(eq=False, repr=False)
class Module:
    """One file of a package."""

    name: str
    file: str
    tree: ast.Module
    is_package: bool
    declares_globals: bool = False
    """Whether a ``global`` statement may stand anywhere in it."""
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[tuple[ast.ImportFrom, tuple[Guard, ...]]] = field(default_factory=list)
    _classes: dict[ast.ClassDef, dict[str, list[Binding]]] = field(default_factory=dict)
    _generators: dict[ast.AST, bool] = field(default_factory=dict)
    _signatures: dict[ast.AST, Signature] = field(default_factory=dict)
    _tried: dict[ast.Try, list[tuple[ast.stmt, bool]]] = field(default_factory=dict)
    sites: dict[tuple[int, int, str], Site] = field(default_factory=dict)
    """Places that runs have written down, each once."""

    def __post_init__(self) -> None:
        index_body(self.tree.body, (), self.bindings, self.stars)

    def __repr__(self) -> str:
        return f"<module {self.name}>"

    @cached_property
    def global_writers(self) -> dict[str, list[ast.FunctionDef]]:
        """Global name → functions that declare it ``global`` and assign it."""
        writers: dict[str, list[ast.FunctionDef]] = {}
        for node in ast.walk(self.tree) if self.declares_globals else ():
            if not isinstance(node, ast.FunctionDef):
                continue
            declared = {
                name for part in ast.walk(node) if isinstance(part, ast.Global) for name in part.names
            }
            if declared:
                stored = {
                    part.id
                    for part in ast.walk(node)
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
                }
                for name in declared & stored:
                    writers.setdefault(name, []).append(node)
        return writers

    def class_index(self, node: ast.ClassDef) -> dict[str, list[Binding]]:
        """Name → bindings of a class body of this module, made on first sight."""
        index = self._classes.get(node)
        if index is None:
            index = self._classes[node] = {}
            index_body(node.body, (), index, [])
        return index

    def is_generator(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a function of this module yields, itself and not in a function inside it."""
        if node not in self._generators:
            self._generators[node] = yields(node)
        return self._generators[node]

    def may_bind(self, name: str) -> bool:
        return name in self.bindings or bool(self.stars)

    def signature(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Signature:
        """The parameters of a function of this module."""
        if node not in self._signatures:
            self._signatures[node] = signature_of(node.args)
        return self._signatures[node]

    def tried(self, node: ast.Try) -> list[tuple[ast.stmt, bool]]:
        """What a ``try`` imports or raises, and whether in an inner block: that does not decide about it."""
        if node not in self._tried:
            inner = {
                inside
                for part in node.body
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.If))
                for inside in ast.walk(part)
            }
            self._tried[node] = [
                (part, part in inner)
                for part in ast.walk(ast.Module(node.body, []))
                if isinstance(part, (ast.Import, ast.ImportFrom, ast.Raise))
            ]
        return self._tried[node]

    @cached_property
    def registrations(self) -> list[ast.FunctionDef | ast.ClassDef | ast.Expr]:
        """Top-level calls and decorated definitions that enter something into a table."""
        return [
            statement
            for statement in self.tree.body
            if (isinstance(statement, ast.Expr) and registers(statement.value))
            or (
                isinstance(statement, (ast.FunctionDef, ast.ClassDef))
                and any(map(registers, statement.decorator_list))
            )
        ]

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]


Importer = tuple[Module, tuple[Guard, ...] | None]
"""A module that imports another, and what must hold for that; None where it is not done at its top."""


def _shelve(module: Module, text: str) -> None:
    _ = module.global_writers  # which looks into every function
    shelve(module.tree.body, text.split("\n"))


class World:
    """The packages of one environment as importable modules, parsed on demand and shared between runs.

    ``assumed`` are the top-level modules that are not in the tree but will be there when the engine runs
    (its declared requirements, the standard library); ``absent`` those that are for other hardware only.
    Of anything else it is not known whether it can be imported. ``versions``: distribution → version, as far
    as metadata tells.
    """

    def __init__(
        self, tree: SourceTree, assumed: frozenset[str], absent: frozenset[str], versions: dict[str, str]
    ) -> None:
        self.tree = tree
        self.versions = versions
        self.assumed = assumed
        self.absent = absent
        self.lean = False
        """Whether modules read from now on keep of their functions the text alone, until it is used."""
        self._modules: dict[str, Module | None] = {}
        self._places: dict[str, tuple[Path, bool] | None] = {}
        self._decorated: dict[str, dict[str, list[tuple[str, str]]]] = {}
        self._texts: dict[str, dict[str, bytes]] = {}
        self._importers: dict[str, list[Importer]] = {}
        self._by_name: dict[str, bool] = {}
        self._imports: dict[str, tuple[list[ast.stmt], list[str]]] = {}

    @cached_property
    def roots(self) -> frozenset[str]:
        """Top-level packages and modules in the tree."""
        return frozenset(
            entry.name.removesuffix(".py")
            for entry in self.tree.root.iterdir()
            if not entry.name.endswith((".dist-info", ".data"))
            and (entry.suffix == ".py" or (entry.is_dir() and entry.name.isidentifier()))
        )

    def exists(self, dotted: str) -> bool | None:
        """True: in the tree. None: outside, installed or not. False: would fail to import."""
        root = dotted.split(".", 1)[0]
        if root not in self.roots:
            return False if root in self.absent else None
        if self.locate(dotted) is not None:
            return True
        # A folder without __init__.py may be shared with distributions that are not in the tree.
        shared = (self.tree.root / root).is_dir() and not (self.tree.root / root / "__init__.py").exists()
        return None if shared else False

    def certain(self, dotted: str) -> bool:
        """Whether it is known if ``dotted`` can be imported: in the tree, required, or another vendor's."""
        root = dotted.split(".", 1)[0]
        return root in self.roots or root in self.assumed or root in self.absent

    def locate(self, dotted: str) -> tuple[Path, bool] | None:
        """The file or folder of a module in the tree, and whether it is a package."""
        if dotted not in self._places:
            self._places[dotted] = self._locate(dotted)
        return self._places[dotted]

    def _locate(self, dotted: str) -> tuple[Path, bool] | None:
        base = self.tree.root.joinpath(*dotted.split("."))
        if (base / "__init__.py").is_file():
            return base / "__init__.py", True
        if base.with_name(base.name + ".py").is_file():
            return base.with_name(base.name + ".py"), False
        compiled = sorted(p for p in base.parent.glob(f"{base.name}.*") if p.suffix in (".so", ".pyd"))
        if compiled and base.name.isidentifier():
            return compiled[0], False
        return (base, True) if base.is_dir() and dotted.split(".", 1)[0] in self.roots else None

    def module(self, dotted: str) -> Module | None:
        """The module, or None where it is not in the tree or cannot be parsed."""
        if dotted not in self._modules:
            self._modules[dotted] = self._load(dotted)
        return self._modules[dotted]

    def _load(self, dotted: str) -> Module | None:
        place = self.locate(dotted)
        if place is None:
            return None
        path, is_package = place
        if path.suffix in (".so", ".pyd"):
            return None
        if path.is_dir():
            return Module(dotted, path.relative_to(self.tree.root).as_posix(), ast.Module([], []), True)
        file = path.relative_to(self.tree.root).as_posix()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data = path.read_bytes()
                text = decode(data)
                parsed = ast.parse(text)
            found = Module(dotted, file, parsed, is_package, declares_globals=bool(GLOBAL.search(data)))
            if self.lean:
                _shelve(found, text)
            return found
        except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
            return None

    def shelve(self) -> None:
        """Keep of the functions of all modules the text alone, until they are used: also of those to come."""
        self.lean = True
        for module in self._modules.values():
            if module is not None and module.tree.body:
                _shelve(module, decode((self.tree.root / module.file).read_bytes()))

    def texts(self, root: str) -> dict[str, bytes]:
        """File → bytes of every Python file of a top-level package that is not hidden, kept for whoever asks
        again."""
        if root not in self._texts:
            self._texts[root] = dict(self._read(root))
        return self._texts[root]

    def _read(self, root: str) -> Iterator[tuple[str, bytes]]:
        for path in sorted((self.tree.root / root).rglob("*.py")):
            file = path.relative_to(self.tree.root).as_posix()
            if "/." not in file:
                with suppress(OSError):
                    yield file, path.read_bytes()

    def binds_by_name(self, module: Module) -> bool:
        """Whether a module gives itself names that stand nowhere in it."""
        if module.file not in self._by_name:
            lines = self.tree.lines(module.file)
            self._by_name[module.file] = any(BY_NAME.search(line) for line in lines)
        return self._by_name[module.file]

    def imports(self, module: Module) -> tuple[list[ast.stmt], list[str]]:
        """All imports in a module, those in functions as well, and the texts in it that name its package."""
        if module.file not in self._imports:
            root = module.name.split(".", 1)[0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parts = list(ast.walk(ast.parse(decode((self.tree.root / module.file).read_bytes()))))
            self._imports[module.file] = (
                [part for part in parts if isinstance(part, (ast.Import, ast.ImportFrom))],
                [
                    part.value
                    for part in parts
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and root in part.value
                ],
            )
        return self._imports[module.file]

    def importers(self, dotted: str, find: Callable[[World, str], list[Importer]]) -> list[Importer]:
        """What ``find`` says of who imports a module, found once."""
        if dotted not in self._importers:
            self._importers[dotted] = find(self, dotted)
        return self._importers[dotted]

    def dotted(self, file: str) -> str:
        return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def decorated(self, root: str, decorator: str) -> list[tuple[str, str]]:
        """``(module, definition)`` of what a package decorates with ``@decorator`` or ``@x.decorator``."""
        if root not in self._decorated:
            index: dict[str, list[tuple[str, str]]] = {}
            pattern = re.compile(
                rb"^@([\w.]+)(?:\([^\n]*(?:\n(?!@|def |class |async )[^\n]*)*?)?\n"
                rb"(?:@[^\n]*\n(?:[ )\]][^\n]*\n)*)*(?:async )?(?:def|class) (\w+)",
                re.M,
            )
            # A library is looked through once, and its text may have a hundred megabytes: it is not kept.
            for file, data in self._texts[root].items() if root in self._texts else self._read(root):
                if b"\n@" in data:
                    for match in pattern.finditer(data):
                        name = match[1].decode().rsplit(".", 1)[-1]
                        index.setdefault(name, []).append((self.dotted(file), match[2].decode()))
            self._decorated[root] = index
        return self._decorated[root].get(decorator, [])
