"""Binary operators on values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tools.viability.interpreter.asked import as_plain, whole
from tools.viability.interpreter.truth import (
    CONCRETE,
    data_only,
    has_unknown,
    plain,
)
from tools.viability.interpreter.values import (
    UNKNOWN,
    ClassValue,
    External,
    Taint,
    Tensor,
    Unknown,
    bare,
    strip,
    taint,
)

SETS = (set, frozenset)

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


def operate(op: ast.operator, left: Any, right: Any) -> Any:
    a, ta = strip(left)
    b, tb = strip(right)
    a, b = plain(a), plain(b)
    both = ta | tb
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return taint(Tensor(dtype=a.dtype if isinstance(a, Tensor) else b.dtype), Taint(both.kinds))
    if isinstance(op, ast.Mod) and isinstance(a, str) and has_unknown(b):
        return taint(UNKNOWN, both)
    if isinstance(a, SETS) and isinstance(b, SETS) and (has_unknown(a) or has_unknown(b)):
        return taint(UNKNOWN, both)  # what is in both, or in one alone, is not known
    if isinstance(a, CONCRETE) and isinstance(b, CONCRETE) and type(op) in BINARY:
        if isinstance(op, (ast.Mult, ast.LShift)) and any(
            isinstance(s, int) and abs(as_plain(s)) > 1 << 40 for s in (a, b)
        ):
            return taint(UNKNOWN, both)
        try:
            if not all(isinstance(side, (int, str)) for side in (a, b)) or isinstance(op, ast.Mod):
                a, b = whole(a), whole(b)
            return taint(BINARY[type(op)](a, b), both)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, MemoryError):
            return taint(UNKNOWN, both)
    if isinstance(op, ast.Pow) and isinstance(a, (int, float)) and isinstance(b, int) and 0 <= b < 64:
        return taint(whole(a) ** whole(b), both)
    if isinstance(op, ast.BitOr) and (kinds := _kinds(a)) and (others := _kinds(b)):
        return taint((*kinds, *others), both)
    runtime = any(isinstance(side, Unknown) and side.runtime for side in (a, b))
    return taint(Unknown(runtime=runtime, soft=data_only(a, b)), both)


def _kinds(value: Any) -> tuple[Any, ...]:
    """The classes that an operand of a union of classes stands for, if it is one."""
    if isinstance(value, tuple) and all(isinstance(bare(one), (ClassValue, External, type)) for one in value):
        return value
    if value is None:
        return (type(None),)
    return (value,) if isinstance(value, (ClassValue, External, type)) else ()
