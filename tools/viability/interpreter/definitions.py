"""``def`` and ``class``: functions and classes with their decorators applied."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.dispatch import call, evaluate, statement
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import NOT_BOUND, Frame
from tools.viability.interpreter.values import (
    ClassValue,
    Descriptor,
    External,
    Function,
    Raised,
    Unknown,
    bare,
)


def define_function(
    m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame, owner: ClassValue | None = None
) -> Any:
    """A function with its decorators applied; a decorator that cannot be followed is left out."""
    function = Function(node, frame.module, closure=frame if owner is None else owner.closure, owner=owner)
    value: Any = function
    for decorator in reversed(node.decorator_list):
        name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if name in ("property", "cached_property"):
            value = Descriptor("property", value)
            continue
        if name in ("setter", "deleter", "overload"):
            return NOT_BOUND
        if name == "staticmethod":
            value = Descriptor("static", value)
            continue
        if name == "classmethod":
            value = Descriptor("class", value)
            continue
        try:
            wrapped = call(m, evaluate(m, decorator, frame), [value], {}, frame, decorator)
        except Raised:
            continue
        if not isinstance(bare(wrapped), (Unknown, External)):
            value = wrapped
    return value


@statement(ast.FunctionDef, ast.AsyncFunctionDef)
def _function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    frame.locals[node.name] = define_function(m, node, frame)


def define_class(m: Machine, node: ast.ClassDef, frame: Frame) -> Any:
    bases = tuple(bare(evaluate(m, base, frame)) for base in node.bases if not isinstance(base, ast.Starred))
    closure = frame if frame.parent is not None or frame.function is not None else None
    cls = ClassValue(node.name, node, frame.module, bases, closure=closure)
    value: Any = cls
    for decorator in reversed(node.decorator_list):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name == "dataclass":
            cls.is_dataclass = True
            continue
        try:
            wrapped = call(m, evaluate(m, decorator, frame), [value], {}, frame, decorator)
        except Raised:
            continue
        if isinstance(bare(wrapped), ClassValue):
            value = wrapped
    return value


@statement(ast.ClassDef)
def _class(m: Machine, node: ast.ClassDef, frame: Frame) -> None:
    frame.locals[node.name] = define_class(m, node, frame)
