"""Kinds of models that an engine tells apart, found where it looks at the names of a model's classes.

Such a kind is an attribute of the engine's model configuration that one method sets to a member of an enum,
by tests on the checkpoint's list of classes. A backend may be made for one of them only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.viability.checkpoint import Checkpoint
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.dispatch import call
from tools.viability.interpreter.machine import BudgetError, Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import global_name
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import Bound, ClassValue, EnumMember, Open, Raised, bare
from tools.viability.profile import libraries

CLASSES: str = libraries()["checkpoint"]["classes"]
"""The checkpoint's field that names the model's classes."""


@dataclass(frozen=True)
class ModelKind:
    """One distinction: who makes it, and the names under which the engine reads it."""

    attribute: str
    module: str
    owner: str
    method: str
    enum: str
    """The enum's name as ``module`` knows it."""
    members: tuple[str, ...]
    derived: tuple[tuple[str, str], ...] = ()
    """``(attribute, member)``: attributes that say whether it is that member."""


def find_kinds(modules_with: Callable[[bytes], list[Module]]) -> tuple[ModelKind, ...]:
    """Every such distinction of an engine, in the order of its files."""
    found: list[ModelKind] = []
    for module in modules_with(f".{CLASSES}".encode()):
        for owner in (part for part in module.tree.body if isinstance(part, ast.ClassDef)):
            for method in (part for part in owner.body if isinstance(part, ast.FunctionDef)):
                for attribute, enum, members in _distinctions(method):
                    derived = _derived(attribute, enum, modules_with)
                    found.append(
                        ModelKind(attribute, module.name, owner.name, method.name, enum, members, derived)
                    )
    return tuple(found)


def kind_of(m: Machine, kind: ModelKind, model: str, told: Checkpoint | None = None) -> str | None:
    """The member that the engine gives it for a class, if that is certain: its own method settles it, for a
    checkpoint of which only the class is known, or what ``told`` says."""
    module = m.world.module(kind.module)
    if module is None:
        return None
    opened = told.opened() if told is not None else Open("checkpoint")
    config = Open("checkpoint", {**opened.attrs, CLASSES: [model]}, opened.supply)
    owner = bare(global_name(m, module, kind.owner))
    instance = Open("model config", {}, supply=lambda name: config if "config" in name else NotImplemented)
    try:
        if isinstance(owner, ClassValue):
            instance.cls = owner
            method = class_attribute(m, owner, kind.method)[0]
            call(m, Bound(method, instance), [], {}, Frame(module, {}), None)
    except (Raised, BudgetError, RecursionError):
        return None
    value = bare(instance.attrs.get(kind.attribute))
    return value.name if isinstance(value, EnumMember) else None


def _distinctions(method: ast.FunctionDef) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """``(attribute, enum, members)`` that tests on the classes' names choose in this method."""
    sets: dict[tuple[str, str], list[str]] = {}
    for test in ast.walk(method):
        if not isinstance(test, ast.If) or not _asks_for_classes(test.test):
            continue
        for node in ast.walk(test):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Attribute)
                and isinstance(node.value.value, ast.Name)
                and node.value.attr.isupper()
            ):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self":
                        sets.setdefault((target.attr, node.value.value.id), []).append(node.value.attr)
    for (attribute, enum), members in sets.items():
        different = tuple(dict.fromkeys(reversed(members)))  # the usual one first: it stands last
        if len(different) > 1:
            yield attribute, enum, different


def _asks_for_classes(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == CLASSES for node in ast.walk(test))


def _derived(
    attribute: str, enum: str, modules_with: Callable[[bytes], list[Module]]
) -> tuple[tuple[str, str], ...]:
    """Attributes that are set to whether the kind is some member, and to nothing else of that form."""
    found: dict[str, set[str]] = {}
    for module in modules_with(f".{attribute} == {enum}.".encode()):
        for node in ast.walk(module.tree):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(attr=name)],
                    value=ast.Compare(
                        left=ast.Attribute(attr=read),
                        ops=[ast.Eq()],
                        comparators=[ast.Attribute(value=ast.Name(id=of), attr=member)],
                    ),
                ) if read == attribute and of == enum:
                    found.setdefault(name, set()).add(member)
    return tuple((name, members.pop()) for name, members in sorted(found.items()) if len(members) == 1)
