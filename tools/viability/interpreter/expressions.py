"""Expressions: one small function a node type, each returning a value that may be tainted."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.arithmetic import operate
from tools.viability.interpreter.asked import text_of, whole
from tools.viability.interpreter.builtin import BUILTINS
from tools.viability.interpreter.compare import NEGATED, compare
from tools.viability.interpreter.dispatch import evaluate, expression, get_attribute
from tools.viability.interpreter.items import get_item
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import Condition, Frame
from tools.viability.interpreter.truth import (
    SCALARS,
    data_only,
    deep,
    has_unknown,
    plain,
    truth,
)
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    Function,
    Instance,
    Kind,
    Raised,
    Taint,
    Tainted,
    Tensor,
    Union,
    Unknown,
    bare,
    merge,
    of,
    strip,
    taint,
    usually,
)


@expression(ast.Constant)
def _constant(m: Machine, node: ast.Constant, frame: Frame) -> Any:
    return node.value


@expression(ast.Name)
def _name(m: Machine, node: ast.Name, frame: Frame) -> Any:
    return lookup(m, node.id, frame, node)


def lookup(m: Machine, name: str, frame: Frame, node: ast.AST) -> Any:
    """A name as Python would find it: local, enclosing, global, builtin."""
    scope: Frame | None = frame
    if name not in frame.globals_declared:
        while scope is not None:
            if name in scope.locals:
                return scope.locals[name]
            scope = scope.parent
    module = frame.module
    if name in BUILTINS and not module.may_bind(name) and (module.name, name) not in m.globals:
        return BUILTINS[name]
    try:
        return global_name(m, module, name)
    except UnboundError:
        missing = name in module.bindings
    if name in BUILTINS:
        return BUILTINS[name]
    if name == "__name__":
        return module.name
    if name == "__file__":
        return f"/{module.file}"
    if missing:
        # Every statement that would bind it is ruled out: an import that fails, another vendor's branch.
        site = m.site(frame, node, "raise")
        raise m.refuse(site, NameError, frame=frame, guard=of(Kind.DEPENDENCY), cause="import", message=name)
    return UNKNOWN


@expression(ast.Attribute)
def _attribute(m: Machine, node: ast.Attribute, frame: Frame) -> Any:
    return get_attribute(m, evaluate(m, node.value, frame), node.attr, frame, node)


@expression(ast.Tuple, ast.List, ast.Set)
def _sequence(m: Machine, node: ast.Tuple | ast.List | ast.Set, frame: Frame) -> Any:
    items: list[Any] = []
    extra = CLEAN
    lost = False
    for element in node.elts:
        if isinstance(element, ast.Starred):
            value, t = strip(evaluate(m, element.value, frame))
            extra = extra | t
            if isinstance(value, Instance) and value.items is not None:
                value = value.items
            if not isinstance(value, (list, tuple, set, frozenset, dict, range)):
                if not isinstance(node, ast.List):
                    return taint(UNKNOWN, extra)
                lost = True
                continue
            lost = lost or m.is_lost(value)
            items.extend(value)
        else:
            items.append(evaluate(m, element, frame))
    if isinstance(node, ast.Tuple):
        return taint(_marked(m, node, frame, tuple(items)), extra)
    if isinstance(node, ast.List):
        if lost:  # of its items some are known
            m.lose(items)
        return taint(_marked(m, node, frame, m.made(items)), extra)
    try:
        result: Any = {bare(item) for item in items}
    except TypeError:
        return UNKNOWN
    for item in items:
        extra = extra | strip(item)[1]
    return taint(_marked(m, node, frame, result), extra)


def _marked(m: Machine, node: ast.expr, frame: Frame, items: Any) -> Any:
    """A literal of plain numbers or strings remembers where it stands: such lists do the deciding."""
    literal = all(isinstance(element, ast.Constant) for element in getattr(node, "elts", ()))
    if items and literal and all(isinstance(bare(item), (int, str)) for item in items):
        return Tainted(items, Taint(frozenset(), (m.site(frame, node, "list"),)))
    return items


@expression(ast.Dict)
def _dict(m: Machine, node: ast.Dict, frame: Frame) -> Any:
    result: dict[Any, Any] = m.made({})
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            other = bare(evaluate(m, value, frame))
            if not isinstance(other, dict):
                return UNKNOWN
            result.update(other)
            continue
        name = deep(evaluate(m, key, frame))[0]
        if has_unknown(name):
            return UNKNOWN
        try:
            result[name] = evaluate(m, value, frame)
        except TypeError:
            return UNKNOWN
    return result


@expression(ast.BoolOp)
def _boolean(m: Machine, node: ast.BoolOp, frame: Frame) -> Any:
    """Short circuit; a side that settles the matter does so even where the others are unknown."""
    stop = isinstance(node.op, ast.Or)
    seen = CLEAN
    unsure: list[Any] = []
    value: Any = None
    for index, operand in enumerate(node.values):
        value = _maybe(m, operand, frame) if unsure else evaluate(m, operand, frame)
        decided, depends = truth(m, value)
        if decided is None:
            unsure.append(value)
            continue
        if decided is stop:
            if not unsure:
                # What was passed before does not matter: this operand settles it alone. Where it is a
                # variable that nobody set, the others tell for whom it is there to be set.
                if depends.kinds == {Kind.VARIABLE}:
                    depends = depends | _also(m, node.values[index + 1 :], frame, stop)
                if Kind.SOFT in depends.kinds and isinstance(bare(value), bool):
                    harder = _harder(m, node.values[index + 1 :], frame, stop)
                    if harder is not None:
                        return taint(bare(value), harder)
                return taint(value, depends)
            if all(_one_of_two(one) for one in unsure):
                return taint(stop, depends)
        seen = seen | depends
    if len(unsure) == 1:
        return taint(bare(unsure[0]), seen | strip(unsure[0])[1])
    if unsure:
        # Any operand settles the matter alone: what data may make it, data may make the whole.
        free = any(
            data_only(operand_) or stop in [bool(one) for one in usually(operand_)] for operand_ in unsure
        )
        return taint(Unknown(ordinary=(stop,) if free else ()), seen | strip(unsure[0])[1])
    return taint(value, seen)


def _one_of_two(value: Any) -> bool:
    """Whether what is not known can be put as true or false without losing anything."""
    inner = bare(value)
    flags = isinstance(inner, Union) and all(isinstance(bare(one), bool) for one in inner.options)
    return isinstance(inner, Unknown) or flags


def _also(m: Machine, operands: list[ast.expr], frame: Frame, stop: bool) -> Taint:
    """What other operands depend on that would settle the matter as well; only names are looked at."""
    found = CLEAN
    for operand in operands:
        if isinstance(operand, ast.Name):
            decided, depends = truth(m, _maybe(m, operand, frame))
            found = found | depends if decided is stop else found
    return found


def _harder(m: Machine, operands: list[ast.expr], frame: Frame, stop: bool) -> Taint | None:
    """What an operand depends on that settles the matter too, and for every size: names and their
    attributes are looked at."""
    for operand in operands:
        if isinstance(operand, (ast.Name, ast.Attribute)):
            value = _maybe(m, operand, frame)
            decided, depends = truth(m, value)
            if decided is stop and isinstance(bare(value), bool) and not depends.kinds & _DOUBT:
                return depends
    return None


_DOUBT = frozenset({Kind.SOFT, Kind.UNKNOWN})


def _maybe(m: Machine, node: ast.expr, frame: Frame) -> Any:
    """An operand that may not be reached: what it refuses is no proof."""
    try:
        with m.under(frame, Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard"))):
            return evaluate(m, node, frame)
    except Raised:
        return UNKNOWN


@expression(ast.UnaryOp)
def _unary(m: Machine, node: ast.UnaryOp, frame: Frame) -> Any:
    value = evaluate(m, node.operand, frame)
    if isinstance(node.op, ast.Not):
        decided, depends = truth(m, value)
        if decided is not None:
            return taint(not decided, depends)
        v = bare(value)
        test = v.test if isinstance(v, Unknown) else None
        if test:
            return taint(Unknown(test[0], (test[0], NEGATED[test[1]], test[2]), soft=v.soft), depends)
        if isinstance(v, Unknown) and v.fact:
            return taint(Unknown(v.fact, (v.fact, "==", False), soft=v.soft), depends)
        usual = tuple(not one for one in usually(v))
        return taint(Unknown(soft=data_only(v), ordinary=usual), depends)
    v, t = strip(value)
    v = plain(v)
    if isinstance(v, (int, float)):
        if isinstance(node.op, ast.USub):
            return taint(-v, t)
        if isinstance(node.op, ast.Invert) and isinstance(v, int):
            return taint(~v, t)
        return value
    return taint(v if isinstance(v, Tensor) else UNKNOWN, t)


@expression(ast.BinOp)
def _binary(m: Machine, node: ast.BinOp, frame: Frame) -> Any:
    left, right = evaluate(m, node.left, frame), evaluate(m, node.right, frame)
    held = m.held_by(bare(left)) | m.held_by(bare(right))
    return taint(operate(node.op, left, right), held)


@expression(ast.Compare)
def _comparison(m: Machine, node: ast.Compare, frame: Frame) -> Any:
    left = evaluate(m, node.left, frame)
    result: Any = True
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(m, right_node, frame)
        here = compare(m, op, left, right, frame, node)
        decided, depends = truth(m, here)
        if decided is False:
            return taint(False, depends | strip(result)[1])
        result = here if decided is None else taint(bare(result), depends)
        left = right
    return result


@expression(ast.IfExp)
def _conditional(m: Machine, node: ast.IfExp, frame: Frame) -> Any:
    test = evaluate(m, node.test, frame)
    decided, depends = truth(m, test)
    if decided is None:
        sides = merge(_maybe(m, node.body, frame), _maybe(m, node.orelse, frame))
        if not data_only(test):
            return taint(sides, depends | of(Kind.UNKNOWN))
        # Some request takes either side; a flag chosen so is the data's own.
        flag = isinstance(bare(sides), Union) and all(isinstance(o, bool) for o in bare(sides).options)
        return taint(Unknown(soft=True) if flag else sides, depends | of(Kind.SOFT))
    return taint(evaluate(m, node.body if decided else node.orelse, frame), Taint(depends.kinds))


@expression(ast.Subscript)
def _subscript(m: Machine, node: ast.Subscript, frame: Frame) -> Any:
    return get_item(m, evaluate(m, node.value, frame), evaluate(m, node.slice, frame), frame, node)


@expression(ast.Slice)
def _slice(m: Machine, node: ast.Slice, frame: Frame) -> Any:
    parts = [
        whole(bare(evaluate(m, part, frame))) if part is not None else None
        for part in (node.lower, node.upper, node.step)
    ]
    return slice(*parts) if all(part is None or isinstance(part, int) for part in parts) else UNKNOWN


@expression(ast.JoinedStr)
def _joined(m: Machine, node: ast.JoinedStr, frame: Frame) -> Any:
    text, depends = "", CLEAN
    known = True
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value, t = strip(evaluate(m, part.value, frame))
            depends = depends | t
            value = plain(value)
            if isinstance(value, (tuple, list)):
                value = str(deep(value)[0]) if not has_unknown(deep(value)[0]) else value
            if isinstance(value, SCALARS) and part.format_spec is None and part.conversion in (-1, 114, 115):
                text += text_of(value)
            else:
                known = False
                text += "{" + ast.unparse(part.value) + "}"
        elif isinstance(part, ast.Constant):
            text += str(part.value)
    return taint(text if known else Unknown(fact="f" + text_of(text, repr)), depends)


@expression(ast.Lambda)
def _lambda(m: Machine, node: ast.Lambda, frame: Frame) -> Any:
    return Function(node, frame.module, closure=frame, owner=frame.owner)


@expression(ast.Starred)
def _starred(m: Machine, node: ast.Starred, frame: Frame) -> Any:
    return evaluate(m, node.value, frame)


@expression(ast.NamedExpr)
def _named(m: Machine, node: ast.NamedExpr, frame: Frame) -> Any:
    value = evaluate(m, node.value, frame)
    frame.locals[node.target.id] = value
    return value


@expression(ast.Yield)
def _yield(m: Machine, node: ast.Yield, frame: Frame) -> Any:
    value = evaluate(m, node.value, frame) if node.value else None
    if frame.yields is not None:
        frame.yields.append(value)
    return UNKNOWN


@expression(ast.Await)
def _await(m: Machine, node: ast.Await, frame: Frame) -> Any:
    return evaluate(m, node.value, frame)
