"""Who reads an option while the engine starts: what installs its value, and what checks it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property

from tools.viability.given import OptionTable
from tools.viability.interpreter.modules import Module
from tools.viability.steps import Step, find_steps

Reader = tuple[Module, ast.FunctionDef, ast.ClassDef | None]
"""A function, the module it stands in, and the class if it is a method."""


class Readers:
    """Functions that read an option's field, found in the modules that name it.

    ``table`` is the options object, ``homes`` the folders where options are declared, ``modules_with`` finds
    the engine's modules that hold some bytes, ``module_of`` one by its name.
    """

    def __init__(
        self,
        table: OptionTable,
        homes: frozenset[str],
        modules_with: Callable[[bytes], list[Module]],
        module_of: Callable[[str], Module | None],
    ) -> None:
        self.table = table
        self.homes = homes
        self.modules_with = modules_with
        self._module_of = module_of
        self._found: dict[str, list[Reader]] = {}
        self._loads: dict[str, list[tuple[ast.ClassDef | None, ast.FunctionDef, frozenset[str]]]] = {}
        self._installers: dict[str, list[tuple[str, str]]] = {}
        self._validators: dict[str, list[tuple[str, str | None, str]]] = {}

    def installers(self, field: str) -> list[tuple[str, str]]:
        """Start-up functions that hand the option's value to an object of the running engine."""
        if field not in self._installers:
            self._installers[field] = [
                (module.name, function.name)
                for module, function, owner in self.readers(field)
                if owner is None and _installs(function, field)
            ]
        return self._installers[field]

    def validators(self, field: str) -> list[tuple[str, str | None, str]]:
        """``(module, class or None, function)`` that always look at an option while options are settled.

        Methods of the options class that its ``__post_init__`` calls, functions beside the options that
        a decorator of the same package registers or that are steps of a function there, whatever else holds,
        and all steps that begin at the options class; each takes the options object and nothing else.
        """
        if field not in self._validators:
            self._validators[field] = [
                (module.name, owner.name if owner else None, function.name)
                for module, function, owner in self.readers(field)
                if (module.name, owner.name if owner else None, function.name) in self._steps
                or (self._settles(module, owner, function) if owner else self._registered(module, function))
            ]
        return self._validators[field]

    @cached_property
    def _steps(self) -> frozenset[Step]:
        """What start-up does with the options, step by step from their class on."""
        homes = {module.name: module for _, module in self.table.fields.values()}
        classes = [
            (module, part)
            for _, module in sorted(homes.items())
            for part in module.tree.body
            if isinstance(part, ast.ClassDef) and part.name in self.table.classes and self._is_whole(part)
        ]
        return find_steps(classes, self._module_of)

    def _is_whole(self, owner: ast.ClassDef) -> bool:
        """Whether a class declares many of the options, and not a few of some kind."""
        declared = {
            part.target.id
            for part in owner.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
        return len(declared & set(self.table.fields)) >= 20

    def _settles(self, module: Module, owner: ast.ClassDef, function: ast.FunctionDef) -> bool:
        if not self._is_whole(owner) or len(function.args.args) != 1 or function.decorator_list:
            return False
        settle = next(
            (
                part
                for part in owner.body
                if isinstance(part, ast.FunctionDef) and part.name == "__post_init__"
            ),
            None,
        )
        return settle is not None and calls_method(settle, function.name)

    def _registered(self, module: Module, function: ast.FunctionDef) -> bool:
        folder = module.file.rpartition("/")[0]
        beside = any(home.startswith(folder) and folder.count("/") >= 2 for home in self.homes)
        if not beside or len(function.args.args) != 1:
            return False
        if function.decorator_list:
            return any(isinstance(decorator, ast.Name) for decorator in function.decorator_list)
        return any(
            _is_step(other, function.name)
            for home in self.modules_with(f"{function.name}, ".encode())
            if home.file.startswith(folder) and home is not module
            for _, other in functions_of(home.tree)
        )

    def readers(self, field: str) -> list[Reader]:
        """Functions and methods that read an option's field directly."""
        if field not in self._found:
            self._found[field] = [
                (module, function, owner)
                for module in self.modules_with(f".{field}".encode())
                for owner, function, loads in self._loading(module)
                if field in loads
            ]
        return self._found[field]

    def _loading(self, module: Module) -> list[tuple[ast.ClassDef | None, ast.FunctionDef, frozenset[str]]]:
        """The module's functions, each with the attributes that it reads: asked for once for each option."""
        if module.name not in self._loads:
            self._loads[module.name] = [
                (owner, function, frozenset(_loads(function)))
                for owner, function in functions_of(module.tree)
            ]
        return self._loads[module.name]


def _loads(function: ast.FunctionDef) -> Iterator[str]:
    return (
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


def _is_step(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function hands another one, called ``name``, what it was given itself, in any case."""
    given = {a.arg for a in function.args.args[:1]}
    for statement in function.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            handed = [arg.id for arg in statement.value.args if isinstance(arg, ast.Name)]
            if name in handed and given & set(handed):
                return True
    return False


def _installs(function: ast.FunctionDef, field: str) -> bool:
    """Whether a function puts the field's value into an attribute of something that is not its parameter."""
    parameters = {a.arg for a in function.args.args}
    if function.decorator_list or len(parameters) > 1:
        return False
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(
            isinstance(part, ast.Attribute) and part.attr == field for part in ast.walk(node.value)
        ):
            for target in node.targets:
                holder = target
                while isinstance(holder, ast.Attribute):
                    holder = holder.value
                if isinstance(target, ast.Attribute) and getattr(holder, "id", None) not in parameters:
                    return True
    return False


def functions_of(tree: ast.Module) -> list[tuple[ast.ClassDef | None, ast.FunctionDef]]:
    found: list[tuple[ast.ClassDef | None, ast.FunctionDef]] = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            found.append((None, statement))
        elif isinstance(statement, ast.ClassDef):
            found.extend((statement, part) for part in statement.body if isinstance(part, ast.FunctionDef))
    return found


def calls_method(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == name
        for part in ast.walk(node)
    )
