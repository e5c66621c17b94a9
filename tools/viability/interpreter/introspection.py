"""``isinstance``, ``hasattr`` and the builtin types as functions: what Python says of a value's kind."""

from __future__ import annotations

from typing import Any

from tools.viability.interpreter.asked import plain_type, text_of, whole
from tools.viability.interpreter.attributes import callable_attribute
from tools.viability.interpreter.classes import class_attribute
from tools.viability.interpreter.dispatch import caller
from tools.viability.interpreter.items import elements
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.records import NOT_BOUND
from tools.viability.interpreter.truth import CONCRETE, SCALARS, deep, plain, truth
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    Bound,
    ClassValue,
    EnumMember,
    External,
    FilePath,
    Function,
    Instance,
    Open,
    Partial,
    Tensor,
    Union,
    Unknown,
    bare,
    strip,
    taint,
)


def has_attribute(m: Machine, holder: Any, name: str) -> bool | None:
    """``hasattr``: None where it is not known."""
    v = bare(holder)
    known = _has(m, v, name)
    return None if not known and m.is_lost(v) else known


def _has(m: Machine, v: Any, name: str) -> bool | None:
    if isinstance(v, Instance):
        if name in v.attrs or class_attribute(m, v.cls, name)[0] is not NOT_BOUND:
            return True
        if v.tensor is not None and name in TENSOR_HAS:
            return True
        return None if v.cls.has_unknown_base else False
    if isinstance(v, Open):
        if name in v.attrs:
            return True
        if isinstance(v.made_by, ClassValue) and class_attribute(m, v.made_by, name)[0] is not NOT_BOUND:
            return True
        return v.supply is not None and v.supply(name) is not NotImplemented
    if isinstance(v, ClassValue):
        return class_attribute(m, v, name)[0] is not NOT_BOUND or (None if v.external_bases else False)
    if isinstance(v, Module):
        return (
            True if name in v.bindings or m.world.locate(f"{v.name}.{name}") else (None if v.stars else False)
        )
    if isinstance(v, External):
        return m.facts.has_external(f"{v.path}.{name}")
    if isinstance(v, (Function, Bound, Partial)):
        return callable_attribute(v, name) is not NOT_BOUND
    if isinstance(v, Tensor):
        return name in v.attrs or name in TENSOR_HAS
    if isinstance(v, CONCRETE):
        return hasattr(v, name)
    return None


TENSOR_HAS = frozenset({"shape", "dtype", "device", "data", "is_cuda", "ndim", "T", "size", "stride", "view"})


PATHS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath", "PathLike"})


def is_instance(m: Machine, value: Any, kind: Any) -> bool | None:
    v, k = bare(value), bare(kind)
    if isinstance(k, tuple):
        sides = [is_instance(m, v, item) for item in k]
        return True if True in sides else (None if None in sides else False)
    if isinstance(v, (Unknown, Union)) or isinstance(k, (Unknown, Union)):
        if isinstance(v, Union) and not isinstance(k, (Unknown, Union)):
            sides = [is_instance(m, option, k) for option in v.options]
            return sides[0] if all(side is sides[0] for side in sides) else None
        given = isinstance(v, Unknown) and v.runtime and v.fact  # what a kernel gives
        return True if given and isinstance(k, External) and k.path == "torch.Tensor" else None
    if isinstance(v, Open) and v.made_by is not None:
        return _is_made_by(m, v.made_by, k)
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
    return _is_of_outside(v, k) if isinstance(k, External) else None


def _is_of_outside(v: Any, k: External) -> bool | None:
    """Whether a value is of a class outside the sources."""
    leaf = k.path.rsplit(".", 1)[-1]
    if isinstance(v, (FilePath, Tensor)):
        return leaf in (PATHS if isinstance(v, FilePath) else ("Tensor", "Parameter"))
    if isinstance(v, External):
        return True if leaf == "dtype" and v.root == "torch" else None
    if isinstance(v, Instance):
        return any(path.rsplit(".", 1)[-1] == leaf for path in v.cls.external_bases) or (
            None if v.cls.has_unknown_base or leaf in ("Callable", "Mapping") else False
        )
    if isinstance(v, EnumMember):
        return leaf in ("Enum", "IntEnum", "StrEnum")
    if isinstance(v, ClassValue):
        return None if leaf in ("Callable", "Hashable", "type") or "Meta" in leaf else False
    if isinstance(v, SCALARS):
        return {"Callable": False, "Number": isinstance(v, (int, float))}.get(
            leaf, None if v is not None else False
        )
    if isinstance(v, (tuple, list)):
        return leaf in ("Sequence", "Iterable", "Collection")
    if isinstance(v, dict):
        return leaf in ("Mapping", "MutableMapping", "Dict")
    return None


def _is_made_by(m: Machine, made_by: ClassValue | External, kind: Any) -> bool | None:
    """Whether what a class makes is of another class.

    Nothing outside the sources derives from what is in them; but what is known by a base that all have may be
    anything that derives from it.
    """
    if not isinstance(kind, (ClassValue, External)):
        return None if kind is object else False
    common = m.facts.common_bases
    if isinstance(made_by, External):
        leaf = made_by.path.rsplit(".", 1)[-1]
        if leaf in common or (isinstance(kind, ClassValue) and leaf in _leaves(kind)):
            return None
        return False if isinstance(kind, ClassValue) else True if kind == made_by else None
    if isinstance(kind, ClassValue):
        return True if made_by.is_subclass(kind) else (None if made_by.has_unknown_base else False)
    leaves = _leaves(made_by)
    if kind.path.rsplit(".", 1)[-1] in leaves:
        return True
    return False if leaves <= common and not made_by.has_unknown_base else None


def _leaves(cls: ClassValue) -> set[str]:
    return {path.rsplit(".", 1)[-1] for path in cls.external_bases}


def convert(m: Machine, kind: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call of a builtin type. ``kind`` is the type itself."""
    if kind is type and len(args) == 1:
        v = bare(args[0])
        return v.cls if isinstance(v, Instance) else v.owner if isinstance(v, EnumMember) else plain_type(v)
    if kind is object:
        return Open("object")
    if not args:
        return m.made(dict(kwargs) if kind is dict else kind()) if kind in CONCRETE else UNKNOWN
    if kind in (list, tuple, set, frozenset):
        return _to_container(m, kind, args[0])
    if kind is dict:
        return _to_dict(m, args[0], kwargs)
    if kind is bool:
        decided, why = truth(m, args[0])
        return taint(UNKNOWN if decided is None else decided, why)
    if kind is range:
        bounds = [whole(plain(bare(arg))) for arg in args]
        extra = CLEAN
        for arg in args:
            extra = extra | strip(arg)[1]
        return taint(range(*bounds) if all(isinstance(x, int) for x in bounds) else UNKNOWN, extra)
    v, t = strip(args[0])
    v = plain(v)
    if kind is str and isinstance(v, EnumMember):
        return taint(f"{v.owner.name}.{v.name}", t)
    if kind in (int, float, str, bytes) and isinstance(v, SCALARS):
        try:
            if plain_type(v) is kind:
                return taint(v, t)
            return taint(text_of(v) if kind is str else kind(whole(v)), t)
        except (TypeError, ValueError):
            return taint(UNKNOWN, t)
    if kind in (int, float, str) and hasattr(v, "release"):
        return taint(str(v), t) if kind is str else UNKNOWN
    return taint(
        Unknown(fact=v.fact, runtime=v.runtime, soft=v.soft) if isinstance(v, Unknown) else UNKNOWN, t
    )


def _to_container(m: Machine, kind: Any, source: Any) -> Any:
    items, depends = elements(m, source)
    if items is None:
        return taint(UNKNOWN, depends)
    if kind in (list, tuple):
        return taint(m.made(kind(items)), depends)
    values = [deep(item) for item in items]
    for _, extra in values:
        depends = depends | extra
    try:
        return taint(kind(value for value, _ in values), depends)
    except TypeError:
        return taint(UNKNOWN, depends)


def _to_dict(m: Machine, source: Any, kwargs: dict[str, Any]) -> Any:
    v = bare(source)
    if isinstance(v, Instance) and isinstance(v.items, dict):
        v = v.items
    if isinstance(v, dict):
        return {**v, **kwargs}
    items, _ = elements(m, source)
    pairs = [elements(m, item)[0] for item in items] if items is not None else None
    if pairs is not None and all(pair is not None and len(pair) == 2 for pair in pairs):
        return {deep(pair[0])[0]: pair[1] for pair in pairs if pair}
    return UNKNOWN


@caller(type)
def _type(m: Machine, f: type, args: list[Any], kwargs: dict[str, Any], *_: Any) -> Any:
    return f if issubclass(f, BaseException) else convert(m, f, args, kwargs)
