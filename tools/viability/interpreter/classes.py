"""Classes of the sources: their bodies, evaluated one name at a time, and the members of enums."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.asked import text_of
from tools.viability.interpreter.definitions import define_class, define_function
from tools.viability.interpreter.dispatch import call, evaluate, get_attribute, run
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import holds
from tools.viability.interpreter.records import NOT_BOUND, Frame
from tools.viability.interpreter.truth import plain
from tools.viability.interpreter.values import (
    UNKNOWN,
    ClassValue,
    EnumMember,
    Raised,
    Union,
    Unknown,
    bare,
    strip,
    taint,
)


class ClassScope(dict[str, Any]):
    """Names visible while a class body runs."""

    def __init__(self, m: Machine, cls: ClassValue) -> None:
        super().__init__()
        self.m = m
        self.cls = cls
        self.busy: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (
            isinstance(name, str) and name not in self.busy and name in self.cls.index
        )

    def __getitem__(self, name: str) -> Any:
        if dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        self.busy.add(name)
        try:
            value = own_attribute(self.m, self.cls, name)
        finally:
            self.busy.discard(name)
        return UNKNOWN if value is NOT_BOUND else value


def own_attribute(m: Machine, cls: ClassValue, name: str) -> Any:
    """What a class's own body binds ``name`` to, or NOT_BOUND."""
    if name in cls.attrs:
        return cls.attrs[name]
    value: Any = NOT_BOUND
    for binding in reversed(cls.index.get(name, [])):
        if holds(m, cls.module, binding.guards)[0] is False or binding.mutates:
            continue
        scope = Frame(cls.module, ClassScope(m, cls), parent=cls.closure)
        statement = binding.statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            value = define_function(m, statement, scope, owner=cls)
        elif isinstance(statement, ast.ClassDef):
            value = define_class(m, statement, scope)
        else:
            try:
                run(m, [statement], scope)
            except Raised:
                value = UNKNOWN
            else:
                value = dict.get(scope.locals, name, NOT_BOUND)
        if value is not NOT_BOUND:
            break
    if value is not NOT_BOUND:
        cls.attrs[name] = value
        with m.apart():
            _touch(m, cls.module, value)
    return value


def _touch(m: Machine, module: Module, value: Any) -> None:
    """First sight of an empty table: run what registers itself there with a decorator of that module."""
    if isinstance(value, (dict, list, set)) and not value and module.name not in m.touched:
        m.touched.add(module.name)
        m.facts.register_all(m, module)


def class_attribute(m: Machine, cls: ClassValue, name: str) -> tuple[Any, ClassValue | None]:
    for base in cls.mro():
        if isinstance(base, ClassValue):
            value = own_attribute(m, base, name)
            if value is not NOT_BOUND:
                return value, base
    return NOT_BOUND, None


def is_enum(cls: ClassValue) -> bool:
    return any(
        path.rsplit(".", 1)[-1] in ("Enum", "IntEnum", "StrEnum", "IntFlag", "Flag")
        for path in cls.external_bases
    )


def enum_members(m: Machine, cls: ClassValue) -> dict[str, EnumMember] | None:
    """The members of an enum class in order, or None if it is no enum."""
    if cls.members is None:
        if not is_enum(cls):
            return None
        cls.members = {}
        for base in reversed(cls.mro()):
            if not isinstance(base, ClassValue):
                continue
            count = 0
            for statement in base.node.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    name = statement.targets[0].id
                    if name.startswith("_"):
                        continue
                    frame = Frame(base.module, ClassScope(m, base))
                    value = evaluate(m, statement.value, frame)
                    count += 1
                    if isinstance(bare(value), Unknown) and isinstance(statement.value, ast.Call):
                        value = count  # auto()
                    cls.members[name] = EnumMember(cls, name, bare(value))
    return cls.members


def enum_call(m: Machine, cls: ClassValue, args: list[Any], frame: Frame | None, node: Any) -> Any:
    members = enum_members(m, cls) or {}
    if not args:
        return UNKNOWN
    value, t = strip(args[0])
    if isinstance(value, EnumMember):
        return args[0]
    if isinstance(value, (Unknown, Union)):
        return taint(Unknown(), t)
    for member in members.values():
        if plain(member.value) == value:
            return taint(member, t)
    missing, _ = class_attribute(m, cls, "_missing_")
    if missing is not NOT_BOUND:
        found = call(m, get_attribute(m, cls, "_missing_", frame, node), args, {}, frame, node)
        if bare(found) is not None:
            return found
    assert frame is not None
    raise m.refuse(
        m.site(frame, node, "raise"),
        ValueError,
        frame=frame,
        guard=t,
        cause="lookup",
        message=text_of(value, repr) + f" is not a valid {cls.name}",
    )
