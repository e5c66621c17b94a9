"""Configuration objects of the running engine: what their fields hold before anybody sets them.

An engine may hand its options on to a tree of configuration classes, some under another name or in another
form. The tree itself is built at start-up, from a model that is not here; so a field is told by the name of
the attribute that holds its object, and by the annotations that say of which class that is.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.viability.interpreter.modules import Module, World

CLASSES = 3
"""A folder with so many classes that hold options is where the engine keeps its configuration."""


OPTIONS = 3
"""A class that is built with so many options is one of a configuration."""
CLASS = re.compile(rb"^class (\w+)", re.M)
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True)
class ConfigField:
    """A declared field: its annotation as written, its default, and where both stand."""

    annotation: str
    default: ast.expr | None
    module: Module

    @property
    def optional(self) -> bool:
        return bool(re.search(r"\bNone\b|\bOptional\b", self.annotation))


@dataclass(frozen=True)
class Configs:
    """Attribute that holds a configuration object → class, and class → its fields."""

    holders: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, ConfigField]] = field(default_factory=dict)
    given: Mapping[tuple[str, str], tuple[ast.expr, Module]] = field(default_factory=dict)
    """``(class, field)`` → what start-up puts there, computed from a field of the options, ``self``."""

    def find(self, node: ast.AST | None) -> tuple[str, ConfigField] | None:
        """``(class, field)`` that ``holder.field`` or ``x.holder.field`` reads, if it is one."""
        if not isinstance(node, ast.Attribute):
            return None
        name = self.holders.get(_word(node.value).lstrip("_"))
        found = self.fields.get(name, {}).get(node.attr) if name is not None else None
        return (name, found) if name is not None and found is not None else None

    def class_of(self, annotation: str) -> tuple[str, Module] | None:
        """The configuration class that a field is annotated with, and where it stands."""
        for name in re.findall(r"\w+", annotation):
            if name in self.fields:
                return name, next(iter(self.fields[name].values())).module
        return None


def _word(holder: ast.expr) -> str:
    """The last word of what an attribute is read from; a getter's is what it gets."""
    if isinstance(holder, ast.Call):
        return re.sub(r"^_*(?:get|current)_(?:current_)?|_or_none$", "", _word(holder.func))
    return str(getattr(holder, "attr", getattr(holder, "id", "")))


def find_configs(
    world: World, texts: Mapping[str, bytes], options: Mapping[str, object], homes: set[str]
) -> Configs:
    """The configuration classes of an engine; ``homes`` are the files that declare the options themselves."""
    told = {name.encode() for name in _told(world, homes, options)}
    folders = {
        file.rpartition("/")[0]
        for file, data in texts.items()
        if file not in homes and any(match in told for match in CLASS.findall(data))
    }
    declared: dict[str, dict[str, ConfigField]] = {}
    for file in sorted(texts):
        if file.rpartition("/")[0] in folders and b"\n@" in texts[file]:
            declared.update(_declared(world.module(world.dotted(file))))
    given = _given(world, homes, declared, options)
    # Where classes lie that are given options, there all are of the tree.
    counts = Counter(_folder(declared[name]) for name in {name for name, _ in given})
    kept = {folder for folder, count in counts.items() if count >= CLASSES}
    fields = {name: own for name, own in declared.items() if _folder(own) in kept}
    return Configs(_holders(fields), fields, {key: value for key, value in given.items() if key[0] in fields})


def _told(world: World, homes: set[str], options: Mapping[str, object]) -> set[str]:
    """Classes that are built, where options are declared, with an option under its own or another name."""
    found: dict[str, int] = {}
    for file in sorted(homes):
        module = world.module(world.dotted(file))
        for node in ast.walk(module.tree) if module is not None else ():
            for name, _, value in _handed_on(node, {}):
                if _reads_option(value, options):
                    found[name] = found.get(name, 0) + 1
    return {name for name, count in found.items() if count >= OPTIONS}


def _folder(own: Mapping[str, ConfigField]) -> str:
    return next(iter(own.values())).module.file.rpartition("/")[0]


def _declared(module: Module | None) -> dict[str, dict[str, ConfigField]]:
    """The decorated classes of a module that annotate fields."""
    found: dict[str, dict[str, ConfigField]] = {}
    for statement in module.tree.body if module is not None else []:
        if isinstance(statement, ast.ClassDef) and statement.decorator_list:
            assert module is not None
            own = {
                part.target.id: ConfigField(ast.unparse(part.annotation), part.value, module)
                for part in statement.body
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            }
            if own:
                found[statement.name] = own
    return found


def _holders(fields: Mapping[str, Mapping[str, ConfigField]]) -> dict[str, str]:
    """``kernel_config`` → ``KernelConfig``: by the class's name, and by the annotations of other fields."""
    holders = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(): name for name in fields}
    for own in fields.values():
        for attribute, declared in own.items():
            named = [name for name in re.findall(r"\w+", declared.annotation) if name in fields]
            if len(named) == 1 and not re.search(r"\b(list|dict|tuple|set)\b", declared.annotation):
                holders[attribute] = named[0]
    return holders


def _given(
    world: World,
    homes: set[str],
    fields: Mapping[str, Mapping[str, ConfigField]],
    options: Mapping[str, object],
) -> dict[tuple[str, str], tuple[ast.expr, Module]]:
    """What start-up computes from the options and puts into a configuration object, first place first."""
    holders = _holders(fields)
    given: dict[tuple[str, str], tuple[ast.expr, Module]] = {}
    for file in sorted(homes):
        module = world.module(world.dotted(file))
        for node in ast.walk(module.tree) if module is not None else ():
            assert module is not None
            for name, attribute, value in _handed_on(node, holders):
                if name in fields and _reads_option(value, options):
                    given.setdefault((name, attribute), (value, module))
    return given


def _handed_on(node: ast.AST, holders: Mapping[str, str]) -> list[tuple[str, str, ast.expr]]:
    """``(class, field, value)`` of ``holder.field = value`` and of ``Class(field=value)``."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=holder, attr=attribute)], value=value):
            name = holders.get(getattr(holder, "attr", getattr(holder, "id", "")))
            return [(name, attribute, value)] if name is not None else []
        case ast.Call(func=ast.Name(id=name), keywords=keywords):
            return [(name, word.arg, word.value) for word in keywords if word.arg is not None]
    return []


def _reads_option(value: ast.expr, options: Mapping[str, object]) -> bool:
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
        and part.attr in options
        for part in ast.walk(value)
    )


def derived_settings(world: World, declaring: ast.ClassDef) -> dict[str, tuple[str, str]]:
    """What a class body declares by the dotted name of the function that computes it from the options."""
    found: dict[str, tuple[str, str]] = {}
    for statement in declaring.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=keywords)):
                for keyword in keywords:
                    text = getattr(keyword.value, "value", None)
                    path, _, function = text.rpartition(".") if isinstance(text, str) else ("", "", "")
                    module = world.module(path) if DOTTED.fullmatch(path) else None
                    if module is not None and function in module.bindings:
                        found[name] = (path, function)
    return found
