"""Rules that an engine keeps in a table by the names of its models' classes, and looks up while it starts.

Such a table is told by its keys, and who asks it by what it is: a method, of a class of the engine's
configuration, that needs nothing but its own object. What a rule certainly changes there holds afterwards.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from tools.viability.configs import Configs
from tools.viability.facts import Facts
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.values import Bound
from tools.viability.runs import Run, attempt

KEYS = 3
"""A dictionary with so many names of classes, and few others, is about classes."""

TABLE = re.compile(rb"^([A-Za-z_]\w*)\b[^=\n]*= *\{[ \t]*(?:#[^\n]*)?\n\s*[\"'](\w+)[\"']", re.M)


@dataclass(frozen=True)
class ClassRule:
    """A method of a configuration class that looks the model's class up in a table."""

    owner: str
    method: str


def find_class_rules(
    texts: Mapping[str, bytes],
    modules_with: Callable[[bytes], list[Module]],
    module_of: Callable[[str], Module | None],
    configs: Configs,
    classes: Collection[str],
) -> tuple[ClassRule, ...]:
    """Every such method; one of an object that another one holds comes first, as that is made first.

    ``texts`` are the engine's files, ``classes`` the names of those that it can load models by.
    """
    tables = {
        name.decode()
        for file, data in texts.items()
        for name, first in TABLE.findall(data)
        if first.decode() in classes and _is_about(module_of(file), name.decode(), classes)
    }
    found = {
        ClassRule(owner.name, method.name): None
        for table in sorted(tables)
        for module in modules_with(table.encode())
        for owner in module.tree.body
        if isinstance(owner, ast.ClassDef) and owner.name in configs.fields
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and _alone(method) and _looks_up(method, table)
    }
    held = {rule: sum(_holds(configs, rule.owner, other.owner) for other in found) for rule in found}
    return tuple(sorted(found, key=lambda rule: (held[rule], rule.owner, rule.method)))


def follow_class_rules(m: Machine, rules: tuple[ClassRule, ...], facts: Facts, result: Run) -> None:
    """Run them on the engine's configuration; a refusal counts only where the class, and nothing that is not
    known, leads to it."""
    for rule in rules:
        holder = facts.config_object(m, rule.owner)
        if holder is None or holder.cls is None or result.refused is not None:
            continue
        method = class_attribute(m, holder.cls, rule.method)[0]
        attempt(m, result, "class", Bound(method, holder), [], {})
        last = result.passages[-1]
        if last.cut is not None or (last.raised is not None and not last.raised.proven):
            result.passages.pop()  # it says nothing of the option
    facts.keep_certain(m)


def _is_about(module: Module | None, name: str, classes: Collection[str]) -> bool:
    for keys in _dictionaries(module, name) if module is not None else ():
        known = sum(key in classes for key in keys)
        if known >= KEYS and known * 2 > len(keys):
            return True
    return False


def _dictionaries(module: Module, name: str) -> Iterator[list[str]]:
    """The words that are keys of a global that is a dictionary of names."""
    for statement in module.tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Dict(keys=keys, values=values)) | (
                ast.AnnAssign(target=ast.Name(id=bound), value=ast.Dict(keys=keys, values=values))
            ) if bound == name and all(isinstance(value, ast.Name) for value in values):
                yield [str(key.value) for key in keys if isinstance(key, ast.Constant)]


def _alone(function: ast.FunctionDef) -> bool:
    spec = function.args
    return len(spec.args) == 1 and not spec.kwonlyargs and not function.decorator_list


def _looks_up(function: ast.FunctionDef, table: str) -> bool:
    for part in ast.walk(function):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get")) if name == table:
                return True
            case ast.Subscript(value=ast.Name(id=name)) if name == table:
                return True
    return False


def _holds(configs: Configs, name: str, other: str) -> bool:
    """Whether an object of one configuration class is a part of one of another."""
    return any(other in re.findall(r"\w+", declared.annotation) for declared in configs.fields[name].values())
