"""Expressions: one small function a node type, each returning a value that may be tainted."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tools.viability.machine import Frame, Machine
from tools.viability.values import (
    CLEAN,
    RUNTIME,
    UNKNOWN,
    ClassValue,
    EnumMember,
    External,
    Function,
    Instance,
    Kind,
    Open,
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
)

CONCRETE = (
    int,
    float,
    str,
    bytes,
    bool,
    type(None),
    tuple,
    list,
    dict,
    set,
    frozenset,
    range,
    slice,
    complex,
)
SCALARS = (int, float, str, bytes, bool, type(None))

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}


def evaluate(m: Machine, node: ast.expr, frame: Frame) -> Any:
    """The value of an expression."""
    m.step()
    handler = HANDLERS.get(type(node))
    return handler(m, node, frame) if handler else UNKNOWN


def truth(m: Machine, value: Any) -> tuple[bool | None, Taint]:
    """Whether a value is true: True, False, or None where it is not known; and what that depends on."""
    v, t = strip(value)
    if isinstance(v, Unknown):
        return None, t
    if isinstance(v, Union):
        sides = {truth(m, option)[0] for option in v.options}
        return (sides.pop() if len(sides) == 1 else None), t
    if isinstance(v, CONCRETE):
        return bool(v), t
    if isinstance(v, External):
        return (True if v.root in m.world.assumed else None), t
    if isinstance(v, Tensor):
        return None, t
    if isinstance(v, Instance):
        from tools.viability.calls import call_method, has_method

        for name in ("__bool__", "__len__"):
            if has_method(v, name):
                return truth(m, call_method(m, v, name, []))
        if v.items is not None:
            return bool(v.items), t
    if isinstance(v, EnumMember) and isinstance(bare(v.value), int) and is_int_enum(v.owner):
        return bool(bare(v.value)), t
    return True, t


def is_int_enum(cls: ClassValue) -> bool:
    return any(base.rsplit(".", 1)[-1] in ("IntEnum", "IntFlag", "int") for base in cls.external_bases)


def is_str_enum(cls: ClassValue) -> bool:
    return any(base.rsplit(".", 1)[-1] in ("StrEnum", "str") for base in cls.external_bases)


def plain(value: Any) -> Any:
    """Mixed-in enum members as the int or str they are."""
    if isinstance(value, EnumMember) and (is_int_enum(value.owner) or is_str_enum(value.owner)):
        return bare(value.value)
    return value


def deep(value: Any) -> tuple[Any, Taint]:
    """A container's concrete content without taint inside, or Unknown; and the joined taint."""
    v, t = strip(value)
    v = plain(v)
    if isinstance(v, (tuple, list, set, frozenset)):
        items = []
        for item in v:
            inner, extra = deep(item)
            t = t | extra
            items.append(inner)
        try:
            return type(v)(items), t
        except TypeError:
            return UNKNOWN, t
    return v, t


def compare(m: Machine, op: ast.cmpop, left: Any, right: Any, frame: Frame, node: ast.expr) -> Any:
    """One comparison; a decided one that looks at the scenario remembers where it stands."""
    a, ta = deep(left)
    b, tb = deep(right)
    both = ta | tb | m.held_by(bare(right))
    result = _compare(m, op, a, b)
    if Kind.OPTION in both.kinds:
        m.consulted.append(m.site(frame, node, "compare"))
    if both.decisive and isinstance(result, bool):
        # A literal list (or a declared constant) that the scenario is tested against is what decides.
        for side in (strip(right)[1], strip(left)[1]):
            for site in side.sites:
                if site.role in ("list", "declared"):
                    both = both.at(replace(site, role="decides"))
        both = both.at(m.site(frame, node, "compare"))
        if result and Kind.OPTION in both.kinds and isinstance(op, (ast.Eq, ast.Is, ast.In)):
            m.selections.append(m.site(frame, node, "compare"))
    return taint(result, both)


def _compare(m: Machine, op: ast.cmpop, a: Any, b: Any) -> Any:
    if isinstance(op, (ast.Is, ast.IsNot)):
        same = _identical(a, b)
        return UNKNOWN if same is None else same is isinstance(op, ast.Is)
    if isinstance(op, (ast.In, ast.NotIn)):
        inside = _contains(m, b, a)
        if inside is None:
            return _unknown_test(op, a, b)
        return inside is isinstance(op, ast.In)
    name, function = COMPARE[type(op)]
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return _unknown_test(op, a, b)
    if isinstance(a, Union) or isinstance(b, Union):
        options = [
            _compare(m, op, x, y)
            for x in (a.options if isinstance(a, Union) else (a,))
            for y in (b.options if isinstance(b, Union) else (b,))
        ]
        return options[0] if all(o is options[0] for o in options) else UNKNOWN
    if isinstance(a, CONCRETE) and isinstance(b, CONCRETE):
        if _has_unknown(a) or _has_unknown(b):
            return _unknown_test(op, _one_fact(a), _one_fact(b))
        try:
            return bool(function(a, b))
        except TypeError:
            return UNKNOWN
    if name in ("==", "!="):
        same = _equal(m, a, b)
        return UNKNOWN if same is None else same is (name == "==")
    special = {"<": "__lt__", ">": "__gt__", "<=": "__le__", ">=": "__ge__"}[name]
    if isinstance(a, Instance):
        from tools.viability.calls import call_method, has_method

        if has_method(a, special):
            return bare(call_method(m, a, special, [b]))
    try:
        result = function(a, b) if hasattr(a, "release") and hasattr(b, "release") else UNKNOWN
    except TypeError:
        return UNKNOWN
    return result


def _unknown_test(op: ast.cmpop, a: Any, b: Any) -> Unknown:
    names = {ast.In: "in", ast.NotIn: "not in"}
    name = names.get(type(op)) or COMPARE[type(op)][0]  # type: ignore[arg-type]
    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    runtime = any(isinstance(side, Unknown) and side.runtime for side in (a, b))
    if isinstance(a, Unknown) and a.fact and isinstance(b, (*SCALARS, tuple)):
        return Unknown(a.fact, (a.fact, name, b), runtime)
    if (
        isinstance(b, Unknown)
        and b.fact
        and isinstance(a, (*SCALARS, tuple))
        and name not in ("in", "not in")
    ):
        return Unknown(b.fact, (b.fact, flipped.get(name, name), a), runtime)
    return RUNTIME if runtime else UNKNOWN


def _one_fact(value: Any) -> Any:
    """Parts of one fact, such as the numbers of a version, as that fact."""
    if not isinstance(value, (tuple, list)) or not _has_unknown(value):
        return value
    facts = {item.fact for item in value if isinstance(item, Unknown)}
    fact = facts.pop() if len(facts) == 1 else None
    return Unknown(fact=fact.removesuffix(".split()") if fact else None)


def _has_unknown(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_unknown(item) for item in value)
    return isinstance(value, (Unknown, Union))


def _identical(a: Any, b: Any) -> bool | None:
    if isinstance(a, Union) or isinstance(b, Union):
        sides = {
            _identical(x, y)
            for x in (a.options if isinstance(a, Union) else (a,))
            for y in (b.options if isinstance(b, Union) else (b,))
        }
        return sides.pop() if len(sides) == 1 else None
    for side, other in ((a, b), (b, a)):
        if isinstance(side, Unknown):
            # A thing that exists only while serving is never None; a configuration value may be.
            return False if other is None and side.runtime else None
    if isinstance(a, External) and isinstance(b, External):
        return True if a == b else (None if a.root != "torch" else False)
    if isinstance(a, SCALARS) and isinstance(b, SCALARS):
        return type(a) is type(b) and a == b
    return a is b


def _equal(m: Machine, a: Any, b: Any) -> bool | None:
    if isinstance(a, External) and isinstance(b, External):
        return True if a == b else (False if a.root == b.root == "torch" else None)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return None
    if isinstance(a, Instance):
        from tools.viability.calls import call_method, has_method

        if has_method(a, "__eq__"):
            return truth(m, call_method(m, a, "__eq__", [b]))[0]
        if a.closed and isinstance(b, Instance) and a.cls is b.cls:
            return True if a is b else None
    if isinstance(a, Open) or isinstance(b, Open):
        return True if a is b else None
    if isinstance(a, External) or isinstance(b, External):
        return False if a is None or b is None else None
    return a is b or (not isinstance(a, (Instance, EnumMember, ClassValue, Function)) and a == b)


def _contains(m: Machine, container: Any, item: Any) -> bool | None:
    if isinstance(container, Instance) and container.items is not None:
        container = container.items
    if isinstance(container, ClassValue):
        from tools.viability.calls import enum_members

        members = enum_members(m, container)
        return item in members.values() if members is not None else None
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    if not isinstance(container, (tuple, list, set, frozenset, dict, range)):
        if isinstance(container, Instance):
            from tools.viability.calls import call_method, has_method

            if has_method(container, "__contains__"):
                return truth(m, call_method(m, container, "__contains__", [item]))[0]
        return None
    if isinstance(container, range):
        return item in container if isinstance(item, int) else None
    unsure = False
    for candidate in container:
        candidate = plain(bare(candidate))
        same: Any
        if isinstance(candidate, Unknown) or isinstance(item, Unknown):
            same = None
        elif isinstance(candidate, CONCRETE) and isinstance(item, CONCRETE):
            same = candidate == item
        else:
            same = _equal(m, plain(candidate), plain(item))
        if same:
            return True
        unsure = unsure or same is None
    return None if unsure or isinstance(item, (Unknown, Union)) and len(container) else False


# -- node handlers ----------------------------------------------------------------------------------


def _constant(m: Machine, node: ast.Constant, frame: Frame) -> Any:
    return node.value


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
    try:
        return m.global_name(frame.module, name)
    except KeyError:
        missing = name in frame.module.bindings
    from tools.viability.builtin import BUILTINS

    if name in BUILTINS:
        return BUILTINS[name]
    if name == "__name__":
        return frame.module.name
    if missing:
        # Every statement that would bind it is ruled out: an import that fails, another vendor's branch.
        site = m.site(frame, node, "raise")
        raise m.refuse(site, NameError, frame=frame, guard=of(Kind.DEPENDENCY), cause="import", message=name)
    return UNKNOWN


def _attribute(m: Machine, node: ast.Attribute, frame: Frame) -> Any:
    from tools.viability.calls import get_attribute

    return get_attribute(m, evaluate(m, node.value, frame), node.attr, frame, node)


def _sequence(m: Machine, node: ast.Tuple | ast.List | ast.Set, frame: Frame) -> Any:
    items: list[Any] = []
    extra = CLEAN
    for element in node.elts:
        if isinstance(element, ast.Starred):
            value, t = strip(evaluate(m, element.value, frame))
            extra = extra | t
            if isinstance(value, Instance) and value.items is not None:
                value = value.items
            if not isinstance(value, (list, tuple, set, frozenset, dict, range)):
                return taint(UNKNOWN, extra)
            items.extend(value)
        else:
            items.append(evaluate(m, element, frame))
    if isinstance(node, ast.Tuple):
        return taint(_marked(m, node, frame, tuple(items)), extra)
    if isinstance(node, ast.List):
        return taint(_marked(m, node, frame, items), extra)
    try:
        result: Any = {bare(item) for item in items}
    except TypeError:
        return UNKNOWN
    return taint(_marked(m, node, frame, result), extra)


def _marked(m: Machine, node: ast.expr, frame: Frame, items: Any) -> Any:
    """A literal of plain numbers or strings remembers where it stands: lists of architectures do the deciding."""
    literal = all(isinstance(element, ast.Constant) for element in getattr(node, "elts", ()))
    if items and literal and all(isinstance(bare(item), (int, str)) for item in items):
        return Tainted(items, Taint(frozenset(), (m.site(frame, node, "list"),)))
    return items


def _dict(m: Machine, node: ast.Dict, frame: Frame) -> Any:
    result: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            other = bare(evaluate(m, value, frame))
            if not isinstance(other, dict):
                return UNKNOWN
            result.update(other)
            continue
        name = deep(evaluate(m, key, frame))[0]
        try:
            result[name] = evaluate(m, value, frame)
        except TypeError:
            return UNKNOWN
    return result


def _boolean(m: Machine, node: ast.BoolOp, frame: Frame) -> Any:
    """Short circuit; a side that settles the matter does so even where the others are unknown."""
    stop = isinstance(node.op, ast.Or)
    seen = CLEAN
    unsure: list[Any] = []
    value: Any = None
    for operand in node.values:
        value = evaluate(m, operand, frame)
        decided, depends = truth(m, value)
        if decided is None:
            unsure.append(value)
            continue
        if decided is stop:
            if not unsure:
                return taint(value, seen | depends)
            if all(isinstance(bare(operand_), Unknown) for operand_ in unsure):
                return taint(stop, depends)
        seen = seen | depends
    if unsure:
        return taint(bare(unsure[0]) if len(unsure) == 1 else UNKNOWN, seen | strip(unsure[0])[1])
    return taint(value, seen)


def _unary(m: Machine, node: ast.UnaryOp, frame: Frame) -> Any:
    value = evaluate(m, node.operand, frame)
    if isinstance(node.op, ast.Not):
        decided, depends = truth(m, value)
        if decided is not None:
            return taint(not decided, depends)
        v = bare(value)
        test = v.test if isinstance(v, Unknown) else None
        if test:
            return taint(Unknown(test[0], (test[0], NEGATED[test[1]], test[2]), v.runtime), depends)
        if isinstance(v, Unknown) and v.fact:
            return taint(Unknown(v.fact, (v.fact, "==", False), v.runtime), depends)
        return taint(UNKNOWN, depends)
    v, t = strip(value)
    v = plain(v)
    if isinstance(v, (int, float)):
        if isinstance(node.op, ast.USub):
            return taint(-v, t)
        if isinstance(node.op, ast.Invert) and isinstance(v, int):
            return taint(~v, t)
        return value
    return taint(v if isinstance(v, Tensor) else UNKNOWN, t)


def _binary(m: Machine, node: ast.BinOp, frame: Frame) -> Any:
    return operate(node.op, evaluate(m, node.left, frame), evaluate(m, node.right, frame))


def operate(op: ast.operator, left: Any, right: Any) -> Any:
    a, ta = strip(left)
    b, tb = strip(right)
    a, b = plain(a), plain(b)
    both = ta | tb
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return taint(Tensor(dtype=a.dtype if isinstance(a, Tensor) else b.dtype), Taint(both.kinds))
    if isinstance(a, CONCRETE) and isinstance(b, CONCRETE) and type(op) in BINARY:
        if isinstance(op, (ast.Mult, ast.LShift)) and any(
            isinstance(s, int) and abs(s) > 1 << 40 for s in (a, b)
        ):
            return taint(UNKNOWN, both)
        try:
            return taint(BINARY[type(op)](a, b), both)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, MemoryError):
            return taint(UNKNOWN, both)
    if isinstance(op, ast.Pow) and isinstance(a, (int, float)) and isinstance(b, int) and 0 <= b < 64:
        return taint(a**b, both)
    runtime = any(isinstance(side, Unknown) and side.runtime for side in (a, b))
    return taint(RUNTIME if runtime else UNKNOWN, both)


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


def _conditional(m: Machine, node: ast.IfExp, frame: Frame) -> Any:
    decided, depends = truth(m, evaluate(m, node.test, frame))
    if decided is None:
        return taint(
            merge(_quiet(m, node.body, frame), _quiet(m, node.orelse, frame)), depends | of(Kind.UNKNOWN)
        )
    return taint(evaluate(m, node.body if decided else node.orelse, frame), Taint(depends.kinds))


def _quiet(m: Machine, node: ast.expr, frame: Frame) -> Any:
    try:
        return evaluate(m, node, frame)
    except Raised:
        return UNKNOWN


def _subscript(m: Machine, node: ast.Subscript, frame: Frame) -> Any:
    from tools.viability.calls import get_item

    return get_item(m, evaluate(m, node.value, frame), evaluate(m, node.slice, frame), frame, node)


def _slice(m: Machine, node: ast.Slice, frame: Frame) -> Any:
    parts = [
        bare(evaluate(m, part, frame)) if part is not None else None
        for part in (node.lower, node.upper, node.step)
    ]
    return slice(*parts) if all(part is None or isinstance(part, int) for part in parts) else UNKNOWN


def _joined(m: Machine, node: ast.JoinedStr, frame: Frame) -> Any:
    text, depends = "", CLEAN
    known = True
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value, t = strip(evaluate(m, part.value, frame))
            depends = depends | t
            value = plain(value)
            if isinstance(value, (tuple, list)):
                value = str(deep(value)[0]) if not _has_unknown(deep(value)[0]) else value
            if isinstance(value, SCALARS) and part.format_spec is None and part.conversion in (-1, 114, 115):
                text += str(value)
            else:
                known = False
                text += "{" + ast.unparse(part.value) + "}"
        elif isinstance(part, ast.Constant):
            text += str(part.value)
    return taint(text if known else Unknown(fact=f"f{text!r}"), depends)


def _lambda(m: Machine, node: ast.Lambda, frame: Frame) -> Any:
    return Function(node, frame.module, closure=frame, owner=frame.owner)


def _starred(m: Machine, node: ast.Starred, frame: Frame) -> Any:
    return evaluate(m, node.value, frame)


def _named(m: Machine, node: ast.NamedExpr, frame: Frame) -> Any:
    value = evaluate(m, node.value, frame)
    frame.locals[node.target.id] = value
    return value


def _comprehension(m: Machine, node: Any, frame: Frame) -> Any:
    from tools.viability.builtin import elements
    from tools.viability.execute import assign

    inner = Frame(frame.module, {}, parent=frame, function=frame.function, owner=frame.owner, base=frame.base)
    out: list[Any] = []
    depends = CLEAN
    unsure = False

    def loop(level: int) -> None:
        nonlocal depends, unsure
        if level == len(node.generators):
            if isinstance(node, ast.DictComp):
                out.append((evaluate(m, node.key, inner), evaluate(m, node.value, inner)))
            else:
                out.append(evaluate(m, node.elt, inner))
            return
        generator = node.generators[level]
        items, t = elements(m, evaluate(m, generator.iter, inner if level else frame))
        depends = depends | Taint(t.kinds, t.sites)
        if items is None:
            unsure = True
            return
        for item in items:
            assign(m, generator.target, item, inner)
            keep = True
            for test in generator.ifs:
                decided, why = truth(m, evaluate(m, test, inner))
                depends = depends | why
                if decided is None:
                    unsure = True
                    keep = False
                elif not decided:
                    keep = False
                if not keep:
                    break
            if keep:
                loop(level + 1)

    loop(0)
    if unsure:
        return taint(UNKNOWN, depends)
    if isinstance(node, ast.DictComp):
        try:
            return taint({deep(key)[0]: value for key, value in out}, depends)
        except TypeError:
            return UNKNOWN
    if isinstance(node, ast.SetComp):
        try:
            return taint({deep(item)[0] for item in out}, depends)
        except TypeError:
            return UNKNOWN
    return taint(out, depends)


def _call(m: Machine, node: ast.Call, frame: Frame) -> Any:
    from tools.viability.calls import call_node

    return call_node(m, node, frame)


def _yield(m: Machine, node: ast.Yield, frame: Frame) -> Any:
    value = evaluate(m, node.value, frame) if node.value else None
    if frame.yields is not None:
        frame.yields.append(value)
    return UNKNOWN


def _await(m: Machine, node: ast.Await, frame: Frame) -> Any:
    return evaluate(m, node.value, frame)


HANDLERS: dict[type[ast.expr], Callable[[Machine, Any, Frame], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _comparison,
    ast.IfExp: _conditional,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.JoinedStr: _joined,
    ast.Lambda: _lambda,
    ast.Starred: _starred,
    ast.NamedExpr: _named,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Call: _call,
    ast.Yield: _yield,
    ast.Await: _await,
}
