"""Comparisons: decided, or an unknown that remembers which fact it compares with which constant."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tools.viability.interpreter.asked import plain_type, tested, whole
from tools.viability.interpreter.classes import enum_members
from tools.viability.interpreter.dispatch import call_method, has_method
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.truth import (
    CONCRETE,
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
    ClassValue,
    EnumMember,
    External,
    Function,
    Instance,
    Kind,
    Open,
    Taint,
    Tensor,
    Union,
    Unknown,
    bare,
    set_apart,
    strip,
    taint,
    usually,
    whichever,
)

COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}


FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
ORDERING = {"<": "__lt__", ">": "__gt__", "<=": "__le__", ">=": "__ge__"}
DECLINES = External("builtins.NotImplemented")
"""What a comparing method gives that leaves it to the other operand."""
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}


def compare(m: Machine, op: ast.cmpop, left: Any, right: Any, frame: Frame, node: ast.expr) -> Any:
    """One comparison; a decided one that looks at the scenario remembers where it stands."""
    a, ta = deep(left)
    b, tb = deep(right)
    both = ta | tb | m.held_by(bare(right))
    if not isinstance(op, (ast.Is, ast.IsNot)):
        both = both | _fields(a) | _fields(b)
    elif a is None or b is None:
        both = set_apart(whichever(a, ta) | whichever(b, tb) | m.held_by(bare(right)))
    lost = m.is_lost(bare(left)) or m.is_lost(bare(right))
    result = UNKNOWN if lost and not isinstance(op, (ast.Is, ast.IsNot)) else _compare(m, op, a, b)
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
    if result is True and _picks_out(op, node):
        name = a.value if isinstance(a, EnumMember) else a
        if isinstance(name, str):
            m.matched.add(whole(name))
    return taint(result, both)


def _picks_out(op: ast.cmpop, node: ast.expr) -> bool:
    """Whether a test asks for one thing, or for some that are written there."""
    listed = isinstance(node, ast.Compare) and isinstance(
        node.comparators[-1], (ast.Tuple, ast.List, ast.Set)
    )
    return isinstance(op, (ast.Eq, ast.Is)) or (isinstance(op, ast.In) and listed)


def _fields(value: Any) -> Taint:
    """What the fields of records depend on, which are compared one by one."""
    found = CLEAN
    if isinstance(value, Instance) and (value.closed or has_method(value, "__eq__")):
        for field in value.attrs.values():
            found = found | strip(field)[1]
    elif isinstance(value, (tuple, list)):
        for item in value:
            found = found | (_fields(item) if isinstance(item, (Instance, tuple)) else CLEAN)
    return found


def _compare(m: Machine, op: ast.cmpop, a: Any, b: Any) -> Any:
    if isinstance(op, (ast.Is, ast.IsNot)):
        same = _identical(a, b)
        if same is None and usually(a) and (b is None or isinstance(b, bool)):
            return Unknown(ordinary=((usually(a)[0] is b) is isinstance(op, ast.Is),))
        return Unknown(soft=data_only(a, b)) if same is None else same is isinstance(op, ast.Is)
    if isinstance(op, (ast.In, ast.NotIn)):
        inside = contains(m, b, a)
        if inside is None:
            test = _unknown_test(op, a, b)
            if isinstance(a, tuple) and any(data_only(item) for item in a) and not has_unknown(b):
                # One entry is the request's own: most requests are not in the list, whatever the others are.
                return replace(test, ordinary=(isinstance(op, ast.NotIn),))
            return test
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
        if has_unknown(a) or has_unknown(b):
            return _unknown_test(op, _one_fact(a), _one_fact(b))
        if name in ("==", "!="):
            same = _same(m, a, b)
            return UNKNOWN if same is None else same is (name == "==")
        try:
            return bool(tested(function, a, b))
        except TypeError:
            return UNKNOWN
    if name in ("==", "!="):
        same = equal(m, a, b)
        return Unknown(soft=data_only(a, b)) if same is None else same is (name == "==")
    said = _asked(m, (a, ORDERING[name], b), (b, ORDERING[FLIPPED[name]], a))
    if said is not NotImplemented:
        return said
    a, b = _as_tuple(a), _as_tuple(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _compare(m, op, a, b)
    try:
        result = function(a, b) if hasattr(a, "release") and hasattr(b, "release") else UNKNOWN
    except TypeError:
        return UNKNOWN
    return result


def _asked(m: Machine, *sides: tuple[Any, str, Any]) -> Any:
    """What an operand's own method says of the other one, the left one's first; ``NotImplemented`` where
    neither has one that answers."""
    for one, method, other in sides:
        if isinstance(one, Instance) and has_method(one, method):
            said = bare(call_method(m, one, method, [other]))
            if said != DECLINES:
                return said
    return NotImplemented


def _as_tuple(value: Any) -> Any:
    """A named tuple as the tuple that it is."""
    named = isinstance(value, Instance) and value.closed
    if named and any(path.endswith("NamedTuple") for path in value.cls.external_bases):
        return tuple(deep(field)[0] for field in value.attrs.values())
    return value


def _unknown_test(op: ast.cmpop, a: Any, b: Any) -> Unknown:
    names = {ast.In: "in", ast.NotIn: "not in"}
    name = names.get(type(op)) or COMPARE[type(op)][0]
    soft = data_only(a, b)
    if isinstance(a, Unknown) and a.fact and isinstance(b, (*SCALARS, tuple)):
        return Unknown(a.fact, (a.fact, name, b), soft=soft)
    if (
        isinstance(b, Unknown)
        and b.fact
        and isinstance(a, (*SCALARS, tuple))
        and name not in ("in", "not in")
    ):
        return Unknown(b.fact, (b.fact, FLIPPED.get(name, name), a), soft=soft)
    return Unknown(soft=soft)


def _one_fact(value: Any) -> Any:
    """Parts of one fact, such as the numbers of a version, as that fact."""
    if not isinstance(value, (tuple, list)) or not has_unknown(value):
        return value
    facts = {item.fact for item in value if isinstance(item, Unknown)}
    fact = facts.pop() if len(facts) == 1 else None
    return Unknown(fact=fact.removesuffix(".split()") if fact else None)


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
        return plain_type(a) is plain_type(b) and bool(a == b)
    return a is b


def equal(m: Machine, a: Any, b: Any) -> bool | None:
    if isinstance(a, External) and isinstance(b, External):
        return True if a == b else (False if a.root == b.root == "torch" else None)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return None
    said = _asked(m, (a, "__eq__", b), (b, "__eq__", a))
    if said is not NotImplemented:
        return truth(m, said)[0]
    if isinstance(a, Instance) and a.closed and isinstance(b, Instance) and a.cls is b.cls:
        return True if a is b else _all_equal(m, a.attrs, b.attrs)
    a, b = _as_tuple(a), _as_tuple(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _same(m, a, b)
    if isinstance(a, Open) or isinstance(b, Open):
        return True if a is b else None
    for side, other in ((a, b), (b, a)):
        if isinstance(side, External):
            plain_thing = other is None or (side.root == "torch" and isinstance(other, SCALARS))
            return _names(other, side) if plain_thing else None
    return a is b or (not isinstance(a, (Instance, EnumMember, ClassValue, Function)) and a == b)


def _names(word: Any, thing: External) -> bool:
    """Whether a word is a dtype of torch by now, which engines make of an option's word: where both hold the
    name of one format."""
    formats = thing.path.rpartition(".")[2].split("_")
    parts = [part for part in whole(word).split("_") if len(part) > 3] if isinstance(word, str) else []
    return any(part in formats or f"{part}fn" in formats for part in parts)


def _all_equal(m: Machine, a: dict[Any, Any], b: dict[Any, Any]) -> bool | None:
    """Whether two records hold the same, field by field."""
    sides = [_same(m, bare(a[name]), bare(b[name])) for name in a if name in b]
    if False in sides:
        return False
    return None if None in sides or set(a) != set(b) else True


def _same(m: Machine, a: Any, b: Any) -> bool | None:
    """Equality of two values that may hold records and things that are not known."""
    if isinstance(a, (Unknown, Union)) or isinstance(b, (Unknown, Union)):
        return None
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        if type(a) is not type(b) or len(a) != len(b):
            return False
        if all(isinstance(item, SCALARS) for item in (*a, *b)):
            return bool(tested(operator.eq, a, b))
        return _all_equal(m, dict(enumerate(a)), dict(enumerate(b)))
    if isinstance(a, CONCRETE) and isinstance(b, CONCRETE):
        return None if has_unknown(a) or has_unknown(b) else bool(a == b)
    return equal(m, a, b)


def contains(m: Machine, container: Any, item: Any) -> bool | None:
    if isinstance(container, Instance) and container.items is not None:
        container = container.items
    if isinstance(container, ClassValue):
        members = enum_members(m, container)
        return item in members.values() if members is not None else None
    if isinstance(container, str) and isinstance(item, str):
        return whole(item) in container
    if m.is_lost(container):
        return None
    if not isinstance(container, (tuple, list, set, frozenset, dict, range)):
        if isinstance(container, Instance) and has_method(container, "__contains__"):
            return truth(m, call_method(m, container, "__contains__", [item]))[0]
        return None
    if isinstance(container, range):
        return item in container if isinstance(item, int) else None
    if id(container) in m.maybe and _contains(m, container, item) is not False:
        return None
    return _contains(m, container, item)


def _contains(m: Machine, container: Any, item: Any) -> bool | None:
    candidates = [plain(bare(one)) for one in container]
    if isinstance(item, SCALARS) and all(isinstance(one, SCALARS) for one in candidates):
        unordered = isinstance(container, (set, frozenset))
        return bool(tested(operator.contains, frozenset(candidates) if unordered else candidates, item))
    unsure = False
    for candidate in candidates:
        same: Any
        if has_unknown(candidate) or has_unknown(item):
            same = None
        else:
            same = _same(m, candidate, plain(item))
        if same:
            return True
        unsure = unsure or same is None
    return None if unsure or (isinstance(item, (Unknown, Union)) and len(container)) else False
