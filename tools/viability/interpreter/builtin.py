"""Python's builtin functions, as the interpreter sees them."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from tools.viability.interpreter.arithmetic import operate
from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.attributes import set_attribute
from tools.viability.interpreter.dispatch import call, call_method, get_attribute, has_method
from tools.viability.interpreter.introspection import has_attribute, is_instance
from tools.viability.interpreter.items import elements
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.truth import (
    CONCRETE,
    SCALARS,
    deep,
    has_unknown,
    plain,
    truth,
)
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    Bound,
    ClassValue,
    Descriptor,
    External,
    Function,
    Instance,
    Kind,
    Native,
    Open,
    Partial,
    Super,
    Taint,
    Unknown,
    bare,
    of,
    strip,
    taint,
    whichever,
)


def _isinstance(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    result = is_instance(m, args[0], args[1]) if len(args) == 2 else None
    return UNKNOWN if result is None else taint(result, Taint(whichever(*strip(args[0])).kinds))


def _issubclass(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    a, b = (bare(arg) for arg in args)
    if isinstance(a, ClassValue) and isinstance(b, (ClassValue, External)):
        return a.is_subclass(b) or (UNKNOWN if a.has_unknown_base else False)
    return issubclass(a, b) if isinstance(a, type) and isinstance(b, type) else UNKNOWN


def _hasattr(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    name = whole(bare(args[1]))
    known = has_attribute(m, args[0], name) if isinstance(name, str) else None
    if known is None:
        return UNKNOWN
    return taint(known, m.facts.presence_taint(bare(args[0]), name) | (CLEAN if known else _lacking(args[0])))


def _lacking(holder: Any) -> Taint:
    """What the lack of an attribute depends on: what stands in for any model's may have it."""
    inner = bare(holder)
    return of(Kind.SOFT, Kind.MODEL) if isinstance(inner, Open) and inner.nominal else CLEAN


def _getattr(
    m: Machine, args: list[Any], kw: dict[str, Any], frame: Frame | None = None, node: Any = None
) -> Any:
    name = whole(bare(args[1]))
    if not isinstance(name, str):
        return UNKNOWN
    absent = len(args) > 2 and has_attribute(m, args[0], name) is False
    if absent and m.facts.option_by_name(m, name, frame, node) is NotImplemented:
        return taint(args[2], _lacking(args[0]))
    return get_attribute(m, args[0], name, frame, node)


def _setattr(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    if isinstance(bare(args[1]), str):
        set_attribute(m, args[0], whole(bare(args[1])), args[2])
    else:
        m.lose(bare(args[0]))  # it may have any attribute from now on


def _len(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    v, t = strip(args[0])
    if isinstance(v, Instance) and v.items is None:
        return call_method(m, v, "__len__", []) if has_method(v, "__len__") else UNKNOWN
    items, _t = elements(m, v)
    return taint(UNKNOWN if items is None else len(items), t)


def _reduce(kind: str) -> Any:
    def fold(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
        if len(args) == 1:
            items, t = elements(m, args[0])
        else:
            items, t = list(args), CLEAN
        if items is None:
            return taint(UNKNOWN, t)
        values = []
        for item in items:
            v, extra = strip(item)
            t = t | extra
            values.append(plain(v))
        if not values and "default" in kw:
            return kw["default"]
        try:
            if kind == "sum":
                total: Any = 0
                for value in values:
                    total = bare(operate(ast.Add(), total, value))
                return taint(total, t)
            if any(not isinstance(value, (int, float, str, tuple)) for value in values) or kw or not values:
                return taint(UNKNOWN, t)
            return taint(max(values) if kind == "max" else min(values), t)
        except (TypeError, ValueError):
            return taint(UNKNOWN, t)

    return Native(kind, fold)


def _any_all(stop: bool) -> Any:
    def fold(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
        items, t = elements(m, args[0])
        if items is None:
            return taint(UNKNOWN, t)
        unsure = False
        for item in items:
            decided, why = truth(m, item)
            t = t | why
            if decided is stop:
                return taint(stop, t)
            unsure = unsure or decided is None
        return taint(UNKNOWN if unsure else not stop, t)

    return Native("any" if stop else "all", fold)


def _enumerate(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    items, t = elements(m, args[0])
    start = whole(bare(kw.get("start", args[1] if len(args) > 1 else 0)))
    return taint(UNKNOWN if items is None or not isinstance(start, int) else list(enumerate(items, start)), t)


def _zip(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    sides = [elements(m, arg)[0] for arg in args]
    if any(side is None for side in sides):
        return UNKNOWN
    return [tuple(row) for row in zip(*[side or [] for side in sides], strict=False)]


def _map(m: Machine, args: list[Any], kw: dict[str, Any], frame: Any = None, node: Any = None) -> Any:
    items, t = elements(m, args[1]) if len(args) == 2 else (None, CLEAN)
    if items is None:
        source = bare(args[-1])
        return taint(Unknown(fact=source.fact) if isinstance(source, Unknown) else UNKNOWN, t)
    return taint([call(m, args[0], [item], {}, frame, node) for item in items], t)


def _filter(m: Machine, args: list[Any], kw: dict[str, Any], frame: Any = None, node: Any = None) -> Any:
    items, t = elements(m, args[1])
    if items is None:
        return taint(UNKNOWN, t)
    kept = []
    for item in items:
        decided, why = truth(m, item if bare(args[0]) is None else call(m, args[0], [item], {}, frame, node))
        t = t | why
        if decided is None:
            return taint(UNKNOWN, t)
        if decided:
            kept.append(item)
    return taint(kept, t)


def _sorted(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    items, t = elements(m, args[0])
    key, backwards = kw.get("key"), bool(bare(kw.get("reverse", False)))
    if items is None:
        return taint(UNKNOWN, t)
    by = [deep(item if bare(key) is None else call(m, key, [item], {}, None, None)) for item in items]
    for _, why in by:
        t = t | why
    order = [value for value, _ in by]
    try:
        if has_unknown(order) and len(items) > 1:
            return taint(UNKNOWN, t)
        places = sorted(range(len(items)), key=order.__getitem__, reverse=backwards)
        return taint(m.made([items[place] for place in places]), t)
    except TypeError:
        return taint(UNKNOWN, t)


def _next(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    items, t = elements(m, args[0])
    if items:
        key = id(bare(args[0]))
        first = key not in m.iterated
        m.iterated[key] = bare(args[0])
        return taint(items[0] if first or len(items) == 1 else UNKNOWN, t)
    return taint(args[1] if len(args) > 1 and items is not None else UNKNOWN, t)


def _same(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return args[0] if args else UNKNOWN


def _nothing(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return None


def _unknown(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return UNKNOWN


def _callable(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    v = bare(args[0])
    if isinstance(v, (Function, Bound, Native, Partial, ClassValue)):
        return True
    return False if isinstance(v, CONCRETE) else UNKNOWN


def _super(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    values = [bare(arg) for arg in args]
    return Super(values[0], values[1]) if len(values) == 2 and isinstance(values[0], ClassValue) else UNKNOWN


def _property(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    return Descriptor("property", args[0]) if args else UNKNOWN


def _plain(name: str) -> Native:
    """A builtin that computes one plain value from others."""
    function = getattr(builtins, name)
    return Native(name, lambda m, args, kw, *_: _plain_call(function, args))


def _plain_call(function: Any, args: list[Any]) -> Any:
    values, extra = [], CLEAN
    for arg in args:
        v, t = strip(arg)
        values.append(whole(plain(v)))
        extra = extra | t
    if not all(isinstance(value, SCALARS) for value in values):
        return taint(UNKNOWN, extra)
    try:
        return taint(function(*values), extra)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return taint(UNKNOWN, extra)


def _native(function: Any) -> Native:
    return Native(function.__name__.strip("_"), function)


_FUNCTIONS: dict[str, Any] = {
    "isinstance": _native(_isinstance),
    "issubclass": _native(_issubclass),
    "hasattr": _native(_hasattr),
    "getattr": _native(_getattr),
    "setattr": _native(_setattr),
    "len": _native(_len),
    "sum": _reduce("sum"),
    "max": _reduce("max"),
    "min": _reduce("min"),
    "any": _any_all(True),
    "all": _any_all(False),
    "enumerate": _native(_enumerate),
    "zip": _native(_zip),
    "map": _native(_map),
    "filter": _native(_filter),
    "sorted": _native(_sorted),
    "reversed": Native("reversed", lambda m, a, k, *_: (elements(m, a[0])[0] or [])[::-1]),
    "iter": _native(_same),
    "next": _native(_next),
    "print": _native(_nothing),
    "callable": _native(_callable),
    "super": _native(_super),
    "property": _native(_property),
    "id": _native(_unknown),
    "repr": Native(
        "repr", lambda m, a, k, *_: repr(bare(a[0])) if isinstance(bare(a[0]), SCALARS) else UNKNOWN
    ),
    "staticmethod": Native("staticmethod", lambda m, a, k, *_: Descriptor("static", a[0])),
    "classmethod": Native("classmethod", lambda m, a, k, *_: Descriptor("class", a[0])),
}


BUILTINS: dict[str, Any] = {
    **{
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, type) and (issubclass(value, BaseException) or value in CONCRETE)
    },
    "type": type,
    "object": object,
    "NotImplemented": External("builtins.NotImplemented"),
    "Ellipsis": ...,
    "__debug__": True,
    **_FUNCTIONS,
    **{name: _plain(name) for name in ("abs", "round", "divmod", "pow", "ord", "chr", "hex", "hash")},
}
