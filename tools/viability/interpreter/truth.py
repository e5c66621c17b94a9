"""Which values are plain Python, and whether a value is true."""

from __future__ import annotations

from typing import Any

from tools.viability.interpreter.dispatch import call_method, has_method
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.values import (
    UNKNOWN,
    ClassValue,
    EnumMember,
    External,
    FilePath,
    Instance,
    Kind,
    Taint,
    Tensor,
    Union,
    Unknown,
    bare,
    set_apart,
    strip,
)

CONCRETE = (
    *(int, float, str, bytes, bool, type(None), complex),
    *(tuple, list, dict, set, frozenset, range, slice),
    FilePath,
)
"""Types whose values stand for themselves."""
SCALARS = (int, float, str, bytes, bool, type(None), FilePath)


def truth(m: Machine, value: Any) -> tuple[bool | None, Taint]:
    """Whether a value is true: True, False, or None where it is not known; and what that depends on."""
    v, t = strip(value)
    if v is None:
        return False, set_apart(t)
    if isinstance(v, Unknown):
        return None, t
    if isinstance(v, Union):
        sides = {truth(m, option)[0] for option in v.options}
        return (sides.pop() if len(sides) == 1 else None), t
    if isinstance(v, list) and v and m.reasons_of(v):
        return _any_reason(m.reasons_of(v), t)
    if isinstance(v, (list, set, dict)) and m.is_lost(v):
        return None, t
    if isinstance(v, CONCRETE):
        return bool(v), t
    if isinstance(v, External):
        return (True if v.root in m.world.assumed else None), t
    if isinstance(v, Tensor):
        return None, t
    if isinstance(v, Instance):
        for name in ("__bool__", "__len__"):
            if has_method(v, name):
                return truth(m, call_method(m, v, name, []))
        if v.items is not None:
            return bool(v.items), t
    if isinstance(v, EnumMember) and isinstance(bare(v.value), int) and is_int_enum(v.owner):
        return bool(bare(v.value)), t
    return True, t


def _any_reason(reasons: list[Taint], t: Taint) -> tuple[bool | None, Taint]:
    """Whether a list of texts holds one that does not rest on nominal sizes or on what is not known."""
    sure = [why for why in reasons if not why.kinds & {Kind.SOFT, Kind.UNKNOWN}]
    if not sure:
        return None, t
    # The architecture first: that is what a list of reasons is read for.
    return True, t | next((why for why in sure if Kind.ARCH in why.kinds), sure[0])


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


def has_unknown(value: Any) -> bool:
    """Whether a value, or anything in it, is not known."""
    value = bare(value)
    if isinstance(value, (tuple, list, set, frozenset)):
        return any(has_unknown(item) for item in value)
    if isinstance(value, dict):
        return any(has_unknown(item) for pair in value.items() for item in pair)
    return isinstance(value, (Unknown, Union))


def data_only(*values: Any) -> bool:
    """Whether all that is unknown in some values is data of a request."""
    leaves: list[bool] = []

    def walk(value: Any) -> None:
        value = bare(value)
        if isinstance(value, Unknown):
            leaves.append(value.soft)
        elif isinstance(value, Tensor):
            leaves.append(True)
        elif isinstance(value, Union):
            leaves.append(False)
        elif isinstance(value, (tuple, list, set, frozenset)):
            for item in value:
                walk(item)

    for value in values:
        walk(value)
    return bool(leaves) and all(leaves)
