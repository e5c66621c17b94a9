"""Python's builtins and the methods of concrete values, as the interpreter sees them."""

from __future__ import annotations

import builtins
from typing import Any

from tools.viability.evaluate import CONCRETE, SCALARS, deep, operate, plain, truth
from tools.viability.machine import Frame, Machine
from tools.viability.modules import Module
from tools.viability.values import (
    CLEAN,
    UNKNOWN,
    Bound,
    ClassValue,
    Descriptor,
    EnumMember,
    External,
    Function,
    Instance,
    Native,
    Open,
    Partial,
    Super,
    Taint,
    Tensor,
    Union,
    Unknown,
    bare,
    merge,
    strip,
    taint,
)


def elements(m: Machine, value: Any) -> tuple[list[Any] | None, Taint]:
    """What iterating gives, or None where that is not known."""
    v, t = strip(value)
    if isinstance(v, Instance):
        if v.items is not None:
            v = v.items
        elif v.closed and any(path.endswith("NamedTuple") for path in v.cls.external_bases):
            return list(v.attrs.values()), t
        else:
            from tools.viability.calls import call_method, has_method

            if has_method(v, "__iter__"):
                return elements(m, taint(call_method(m, v, "__iter__", []), t))
            return None, t
    if isinstance(v, ClassValue):
        from tools.viability.calls import enum_members

        members = enum_members(m, v)
        return (list(members.values()) if members is not None else None), t
    if isinstance(v, range):
        return (list(v) if len(v) <= 4096 else None), t
    if isinstance(v, (list, tuple, str, dict, bytes)):
        return list(v), t
    if isinstance(v, (set, frozenset)):
        # Sorted, so that the same sources give the same steps whatever the hash seed.
        t = t | m.held_by(v)
        return sorted(v, key=lambda item: (type(item).__name__, str(getattr(item, "name", item)))), t
    return None, t


def has_attribute(m: Machine, holder: Any, name: str) -> bool | None:
    """``hasattr``: None where it is not known."""
    v = bare(holder)
    if isinstance(v, Instance):
        from tools.viability.calls import NOT_BOUND, class_attribute

        if name in v.attrs or class_attribute(m, v.cls, name)[0] is not NOT_BOUND:
            return True
        return None if v.cls.has_unknown_base else False
    if isinstance(v, Open):
        if name in v.attrs:
            return True
        return v.supply is not None and v.supply(name) is not NotImplemented
    if isinstance(v, ClassValue):
        from tools.viability.calls import NOT_BOUND, class_attribute

        return class_attribute(m, v, name)[0] is not NOT_BOUND or (None if v.external_bases else False)
    if isinstance(v, Module):
        return (
            True if name in v.bindings or m.world.locate(f"{v.name}.{name}") else (None if v.stars else False)
        )
    if isinstance(v, External):
        return m.facts.has_external(f"{v.path}.{name}")
    if isinstance(v, (Function, Bound, Partial)):
        from tools.viability.calls import NOT_BOUND_ATTR, _callable_attribute

        return _callable_attribute(v, name) is not NOT_BOUND_ATTR
    if isinstance(v, Tensor):
        return name in v.attrs or hasattr_tensor(name)
    if isinstance(v, CONCRETE):
        return hasattr(v, name)
    return None


def hasattr_tensor(name: str) -> bool:
    return name in {"shape", "dtype", "device", "data", "is_cuda", "ndim", "T", "size", "stride", "view"}


def is_instance(m: Machine, value: Any, kind: Any) -> bool | None:
    v, k = bare(value), bare(kind)
    if isinstance(k, tuple):
        sides = [is_instance(m, v, item) for item in k]
        return True if True in sides else (None if None in sides else False)
    if isinstance(v, (Unknown, Union)) or isinstance(k, (Unknown, Union)):
        if isinstance(v, Union) and not isinstance(k, (Unknown, Union)):
            sides = [is_instance(m, option, k) for option in v.options]
            return sides[0] if all(side is sides[0] for side in sides) else None
        return None
    if isinstance(k, ClassValue):
        if isinstance(v, Instance):
            return True if v.cls.is_subclass(k) else (None if v.cls.has_unknown_base else False)
        if isinstance(v, EnumMember):
            return v.owner.is_subclass(k)
        return None if isinstance(v, (Open, Tensor, External)) else False
    if isinstance(k, type):
        inner = v.items if isinstance(v, Instance) and v.items is not None else plain(v)
        if isinstance(inner, CONCRETE):
            return isinstance(inner, k)
        return True if k is object else (None if isinstance(v, (Open, External, Instance)) else False)
    if isinstance(k, External):
        leaf = k.path.rsplit(".", 1)[-1]
        if isinstance(v, Tensor):
            return True if leaf in ("Tensor", "Parameter") else False
        if isinstance(v, External):
            return True if leaf == "dtype" and v.root == "torch" else None
        if isinstance(v, Instance):
            return any(path.rsplit(".", 1)[-1] == leaf for path in v.cls.external_bases) or (
                None if v.cls.has_unknown_base or leaf in ("Callable", "Mapping") else False
            )
        if isinstance(v, EnumMember):
            return leaf in ("Enum", "IntEnum", "StrEnum")
        if isinstance(v, SCALARS):
            return {"Callable": False, "Number": isinstance(v, (int, float))}.get(
                leaf, None if v is not None else False
            )
        if isinstance(v, (tuple, list)):
            return True if leaf in ("Sequence", "Iterable", "Collection") else False
        if isinstance(v, dict):
            return True if leaf in ("Mapping", "MutableMapping", "Dict") else False
    return None


def _native(function: Any) -> Native:
    return Native(function.__name__.strip("_"), function)


def _isinstance(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    result = is_instance(m, args[0], args[1]) if len(args) == 2 else None
    return UNKNOWN if result is None else taint(result, Taint(strip(args[0])[1].kinds))


def _issubclass(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    a, b = (bare(arg) for arg in args)
    if isinstance(a, ClassValue) and isinstance(b, (ClassValue, External)):
        return a.is_subclass(b) or (UNKNOWN if a.has_unknown_base else False)
    return issubclass(a, b) if isinstance(a, type) and isinstance(b, type) else UNKNOWN


def _hasattr(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    name = bare(args[1])
    known = has_attribute(m, args[0], name) if isinstance(name, str) else None
    return UNKNOWN if known is None else taint(known, m.facts.presence_taint(bare(args[0]), name))


def _getattr(
    m: Machine, args: list[Any], kw: dict[str, Any], frame: Frame | None = None, node: Any = None
) -> Any:
    from tools.viability.calls import get_attribute

    name = bare(args[1])
    if not isinstance(name, str):
        return UNKNOWN
    if len(args) > 2 and has_attribute(m, args[0], name) is False:
        if m.facts.option_by_name(m, name, frame, node) is NotImplemented:
            return args[2]
    return get_attribute(m, args[0], name, frame, node)


def _setattr(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    from tools.viability.calls import set_attribute

    if isinstance(bare(args[1]), str):
        set_attribute(m, args[0], bare(args[1]), args[2])


def _len(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    v, t = strip(args[0])
    if isinstance(v, Instance) and v.items is None:
        from tools.viability.calls import call_method, has_method

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
                import ast

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
    start = bare(kw.get("start", args[1] if len(args) > 1 else 0))
    return taint(UNKNOWN if items is None or not isinstance(start, int) else list(enumerate(items, start)), t)


def _zip(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    sides = [elements(m, arg)[0] for arg in args]
    if any(side is None for side in sides):
        return UNKNOWN
    return [tuple(row) for row in zip(*[side or [] for side in sides], strict=False)]


def _map(m: Machine, args: list[Any], kw: dict[str, Any], frame: Any = None, node: Any = None) -> Any:
    from tools.viability.calls import call

    items, t = elements(m, args[1]) if len(args) == 2 else (None, CLEAN)
    if items is None:
        source = bare(args[-1])
        return taint(Unknown(fact=source.fact) if isinstance(source, Unknown) else UNKNOWN, t)
    return taint([call(m, args[0], [item], {}, frame, node) for item in items], t)


def _filter(m: Machine, args: list[Any], kw: dict[str, Any], frame: Any = None, node: Any = None) -> Any:
    from tools.viability.calls import call

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
    values = [deep(item)[0] for item in items or []]
    try:
        if items is None or kw.get("key") is not None:
            return taint(items if items is not None else UNKNOWN, t)
        return taint(sorted(values, reverse=bool(bare(kw.get("reverse", False)))), t)
    except TypeError:
        return taint(UNKNOWN, t)


def _next(m: Machine, args: list[Any], kw: dict[str, Any], *_: Any) -> Any:
    items, t = elements(m, args[0])
    if items:
        return taint(items[0], t)
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


def convert(m: Machine, kind: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call of a builtin type."""
    if kind is type and len(args) == 1:
        v = bare(args[0])
        return v.cls if isinstance(v, Instance) else v.owner if isinstance(v, EnumMember) else type(v)
    if kind is object:
        return Open("object")
    if not args:
        return dict(kwargs) if kind is dict else kind() if kind in CONCRETE else UNKNOWN
    v, t = strip(args[0])
    v = plain(v)
    if kind in (list, tuple, set, frozenset):
        items, depends = elements(m, args[0])
        if items is None:
            return taint(UNKNOWN, depends)
        try:
            if kind in (set, frozenset):
                values = [deep(item) for item in items]
                for _, extra in values:
                    depends = depends | extra
                return taint(kind(value for value, _ in values), depends)
            return taint(kind(items), depends)
        except TypeError:
            return taint(UNKNOWN, depends)
    if kind is dict:
        if isinstance(v, Instance) and isinstance(v.items, dict):
            v = v.items
        if isinstance(v, dict):
            return {**v, **kwargs}
        items, _ = elements(m, args[0])
        pairs = [elements(m, item)[0] for item in items] if items is not None else None
        if pairs is not None and all(pair is not None and len(pair) == 2 for pair in pairs):
            return {deep(pair[0])[0]: pair[1] for pair in pairs if pair}
        return UNKNOWN
    if kind is bool:
        decided, why = truth(m, args[0])
        return taint(UNKNOWN if decided is None else decided, why)
    if kind is range:
        values = [plain(bare(arg)) for arg in args]
        extra = CLEAN
        for arg in args:
            extra = extra | strip(arg)[1]
        return taint(range(*values) if all(isinstance(x, int) for x in values) else UNKNOWN, extra)
    if kind is str and isinstance(bare(args[0]), EnumMember) and not isinstance(v, str):
        return taint(f"{v.owner.name}.{v.name}", t) if isinstance(v, EnumMember) else taint(str(v), t)
    if kind in (int, float, str, bytes) and isinstance(v, SCALARS):
        try:
            return taint(kind(v), t)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            return taint(UNKNOWN, t)
    if kind in (int, float, str) and hasattr(v, "release"):
        return taint(str(v), t) if kind is str else UNKNOWN
    return taint(Unknown(fact=v.fact, runtime=v.runtime) if isinstance(v, Unknown) else UNKNOWN, t)


def concrete_method(v: Any, name: str) -> Any:
    """A method of a plain value; arguments that are not known make the result unknown."""
    if isinstance(v, bool) or not hasattr(v, name):
        return UNKNOWN
    attribute = getattr(v, name)
    if not callable(attribute):
        return attribute

    def call(m: Machine, args: list[Any], kw: dict[str, Any], frame: Any = None, node: Any = None) -> Any:
        extra = CLEAN
        if isinstance(v, dict):
            return _dict_method(m, v, name, args, kw)
        if isinstance(v, (list, set)) and name in (
            "append",
            "add",
            "extend",
            "update",
            "insert",
            "remove",
            "pop",
        ):
            return _mutate(m, v, name, args)
        values = []
        for arg in args:
            value, t = deep(arg)
            extra = extra | t
            values.append(value)
        if any(isinstance(value, (Unknown, Union, Instance, Open)) for value in values):
            return taint(UNKNOWN, extra)
        try:
            return taint(attribute(*values, **{k: bare(x) for k, x in kw.items()}), extra)
        except Exception:  # noqa: BLE001 - the interpreted program's error, told as unknown
            return taint(UNKNOWN, extra)

    return Native(name, call)


def _mutate(m: Machine, v: Any, name: str, args: list[Any]) -> Any:
    if name in ("extend", "update"):
        for arg in args:
            items, _ = elements(m, arg)
            for item in items or []:
                _put(m, v, item)
        return None
    if name == "pop":
        return v.pop() if v and not args else UNKNOWN
    if name == "insert" and isinstance(bare(args[0]), int):
        v.insert(bare(args[0]), args[1])
    elif name == "append":
        v.append(args[0])
    elif name == "add":
        _put(m, v, args[0])
    elif name == "remove":
        for item in list(v):
            if deep(item)[0] == deep(args[0])[0]:
                v.remove(item)
                break
    return None


def _put(m: Machine, v: Any, item: Any) -> None:
    if isinstance(v, list):
        v.append(item)
        return
    value, t = deep(item)
    try:
        v.add(value)
    except TypeError:
        return
    m.hold(v, t)


def _dict_method(m: Machine, v: dict[Any, Any], name: str, args: list[Any], kw: dict[str, Any]) -> Any:
    if name in ("get", "pop", "setdefault"):
        key, t = deep(args[0])
        default = args[1] if len(args) > 1 else None
        try:
            if key in v:
                return taint(v.pop(key) if name == "pop" else v[key], t)
        except TypeError:
            return UNKNOWN
        if isinstance(key, (Unknown, Union)):
            result = default
            for value in list(v.values())[:4]:
                result = merge(result, value)
            return taint(result if v else default, t)
        if name == "setdefault":
            v[key] = default
        return taint(default, t)
    if name == "update":
        for arg in args:
            other = bare(arg)
            if isinstance(other, dict):
                for key, value in other.items():
                    m.store(v, key, value)
        for key, value in kw.items():
            m.store(v, key, value)
        return None
    if name == "items":
        return [(key, value) for key, value in v.items()]
    if name in ("keys", "values"):
        return list(getattr(v, name)())
    if name == "copy":
        return dict(v)
    if name == "clear":
        v.clear()
        return None
    return UNKNOWN


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
for _name in ("abs", "round", "divmod", "pow", "ord", "chr", "hex", "hash"):
    _FUNCTIONS[_name] = Native(
        _name,
        lambda m, args, kw, *_, f=getattr(builtins, _name): _plain_call(f, args),
    )


def _plain_call(function: Any, args: list[Any]) -> Any:
    values, extra = [], CLEAN
    for arg in args:
        v, t = strip(arg)
        values.append(plain(v))
        extra = extra | t
    if not all(isinstance(value, SCALARS) for value in values):
        return taint(UNKNOWN, extra)
    try:
        return taint(function(*values), extra)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return taint(UNKNOWN, extra)


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
}
