"""Assignments: names, attributes, items, unpacking."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any

from tools.viability.interpreter.arithmetic import operate
from tools.viability.interpreter.attributes import set_attribute
from tools.viability.interpreter.concrete import extend
from tools.viability.interpreter.dispatch import evaluate, statement
from tools.viability.interpreter.items import elements, set_item
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import (
    RUNTIME,
    UNKNOWN,
    Instance,
    Open,
    Tensor,
    Union,
    Unknown,
    bare,
    merge_all,
    taint,
)


def assign(m: Machine, target: ast.expr, value: Any, frame: Frame) -> None:
    match target:
        case ast.Name(id=name):
            value = taint(value, frame.flow) if frame.flow.kinds else value
            if name in frame.globals_declared:
                with suppress(UnboundError):
                    global_name(m, frame.module, name)  # what it is before, for the other side of a branch
                m.store(m.globals, (frame.module.name, name), value)
            elif name in frame.nonlocals:
                scope = frame.parent
                while scope is not None and name not in scope.locals:
                    scope = scope.parent
                (scope or frame).locals[name] = value
            else:
                frame.locals[name] = value
        case ast.Attribute(value=holder, attr=attr):
            set_attribute(m, evaluate(m, holder, frame), attr, taint(value, frame.flow))
        case ast.Subscript(value=holder, slice=index):
            set_item(m, evaluate(m, holder, frame), evaluate(m, index, frame), value)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            _unpack(m, elts, value, frame)
        case ast.Starred(value=inner):
            assign(m, inner, value, frame)


def _unpack(m: Machine, targets: list[ast.expr], value: Any, frame: Frame) -> None:
    items, depends = elements(m, value)
    if items is None:
        items = _of_each(m, bare(value))
    star = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
    if items is None or (star is None and len(items) != len(targets)) or len(items) < len(targets) - 1:
        inner = bare(value)
        runtime = isinstance(inner, Unknown) and inner.runtime
        for target in targets:
            # An operator that gives several things gives several tensors.
            blank = Tensor(dtype=UNKNOWN) if isinstance(inner, Tensor) else RUNTIME if runtime else UNKNOWN
            if isinstance(inner, Unknown) and inner.fact:
                blank = Unknown(fact=inner.fact, runtime=inner.runtime, soft=inner.soft)
            assign(m, target, taint(blank, depends), frame)
        return
    if star is not None:
        tail = len(targets) - star - 1
        middle = items[star : len(items) - tail]
        items = [*items[:star], middle, *items[len(items) - tail :]]
    for target, item in zip(targets, items, strict=True):
        assign(m, target, taint(item, depends), frame)


def _of_each(m: Machine, value: Any) -> list[Any] | None:
    """What is in several rows of one length, of which it is not known which it is, place by place."""
    rows = [elements(m, option)[0] for option in value.options] if isinstance(value, Union) else []
    found = [row for row in rows if row is not None]
    if not rows or len(found) < len(rows) or len({len(row) for row in found}) > 1:
        return None
    return [merge_all(list(column)) for column in zip(*found, strict=True)]


@statement(ast.Assign)
def _assign(m: Machine, node: ast.Assign, frame: Frame) -> None:
    value = evaluate(m, node.value, frame)
    for target in node.targets:
        assign(m, target, value, frame)


@statement(ast.AnnAssign)
def _annotated(m: Machine, node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is not None:
        assign(m, node.target, evaluate(m, node.value, frame), frame)


@statement(ast.AugAssign)
def _augmented(m: Machine, node: ast.AugAssign, frame: Frame) -> None:
    read = ast.copy_location(_loading(node.target), node)
    before = evaluate(m, read, frame)
    value = evaluate(m, node.value, frame)
    held = bare(before)
    if isinstance(held, (list, set)) and isinstance(node.op, (ast.Add, ast.BitOr)):
        extend(m, held, value)  # in place: other names see it too
        return
    assign(m, node.target, operate(node.op, before, value), frame)


def _loading(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name(id=name):
            return ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=attr):
            return ast.copy_location(ast.Attribute(value, attr, ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value, index, ast.Load()), target)
    return target


@statement(ast.Delete)
def _delete(m: Machine, node: ast.Delete, frame: Frame) -> None:
    for target in node.targets:
        match target:
            case ast.Name(id=name):
                frame.locals.pop(name, None)
            case ast.Attribute(value=holder, attr=attr):
                owner = bare(evaluate(m, holder, frame))
                if isinstance(owner, (Instance, Open, Tensor)):
                    m.drop(owner.attrs, attr)
