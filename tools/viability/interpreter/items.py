"""``x[key]`` and iterating."""

from __future__ import annotations

from typing import Any

from tools.viability.interpreter.asked import text_of, whole
from tools.viability.interpreter.classes import enum_members
from tools.viability.interpreter.dispatch import call, call_method, has_method
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Crossing, Frame
from tools.viability.interpreter.truth import (
    deep,
    has_unknown,
    plain,
)
from tools.viability.interpreter.values import (
    UNKNOWN,
    ClassValue,
    EnumMember,
    External,
    Function,
    Instance,
    Native,
    Open,
    Taint,
    Tensor,
    Union,
    Unknown,
    bare,
    strip,
    taint,
)


def elements(m: Machine, value: Any) -> tuple[list[Any] | None, Taint]:
    """What iterating gives, or None where that is not known."""
    v, t = strip(value)
    if m.is_lost(v):
        return None, t
    if isinstance(v, Instance):
        if v.items is not None:
            v = v.items
        elif v.closed and any(path.endswith("NamedTuple") for path in v.cls.external_bases):
            return list(v.attrs.values()), t
        else:
            if has_method(v, "__iter__"):
                return elements(m, taint(call_method(m, v, "__iter__", []), t))
            return None, t
    if isinstance(v, ClassValue):
        members = enum_members(m, v)
        return (list(members.values()) if members is not None else None), t
    if isinstance(v, range):
        return (list(v) if len(v) <= 4096 else None), t
    if isinstance(v, (list, tuple, str, dict, bytes)):
        return list(v), t
    if isinstance(v, (set, frozenset)):
        # Sorted, so that the same sources give the same steps whatever the hash seed.
        t = t | m.held_by(v)
        if len(v) < 2:
            return list(v), t
        return sorted(v, key=lambda item: (type(item).__name__, str(getattr(item, "name", item)))), t
    return None, t


def get_item(m: Machine, holder: Any, key: Any, frame: Frame, node: Any) -> Any:
    v, t = strip(holder)
    k, tk = deep(key)
    both = Taint((t | tk).kinds, (t | tk).sites)
    if isinstance(v, Instance) and v.items is not None:
        v = v.items
    if isinstance(v, Instance):
        if has_method(v, "__getitem__"):
            return taint(call_method(m, v, "__getitem__", [key]), both)
        values = list(v.attrs.values())
        return (
            taint(values[whole(k)], both)
            if isinstance(k, int) and v.closed and -len(values) <= k < len(values)
            else UNKNOWN
        )
    if isinstance(v, ClassValue):
        members = enum_members(m, v)
        return taint(members[k], both) if members and k in members else v
    if isinstance(v, Tensor):
        return taint(Tensor(dtype=v.dtype), both)
    if isinstance(v, Open) and "__getitem__" in v.attrs:
        return taint(call(m, v.attrs["__getitem__"], [key], {}, frame, node), both)
    if isinstance(v, Function):
        return _launcher(m, v, frame, node)
    if isinstance(v, dict):
        k = plain(k) if not isinstance(k, EnumMember) else k
        try:
            if k in v:
                return taint(v[k], both)
        except TypeError:
            return taint(UNKNOWN, both)
        if m.is_lost(v) or has_unknown(k):
            return taint(UNKNOWN, both)
        default = getattr(v, "default", None)
        if default is not None:
            v[k] = call(m, default, [], {}, frame, node)
            return v[k]
        if isinstance(k, (Unknown, Union)) or not isinstance(k, (str, int, tuple, EnumMember)):
            return taint(UNKNOWN, both)
        raise m.refuse(
            m.site(frame, node, "raise"),
            KeyError,
            frame=frame,
            guard=both,
            cause="lookup",
            message=text_of(k, repr),
        )
    if m.is_lost(v):
        return taint(UNKNOWN, both)
    if isinstance(v, (tuple, list, str, range)) and isinstance(k, (int, slice)):
        try:
            return taint(v[whole(k)], both)
        except (IndexError, ValueError, TypeError):
            return taint(UNKNOWN, both)
    if isinstance(v, External):
        return v
    return taint(
        Unknown(fact=v.fact, runtime=v.runtime, soft=v.soft) if isinstance(v, Unknown) else UNKNOWN, both
    )


def _launcher(m: Machine, kernel: Function, frame: Frame, node: Any) -> Any:
    """``kernel[grid]``: a kernel written in a Python DSL, compiled where it runs; calling it launches it."""

    def launch(m_: Machine, args: list[Any], kwargs: dict[str, Any], *_: Any) -> Any:
        by_option = m_.by_option
        name = f"{kernel.module.name}.{kernel.name}"
        m_.crossings.append(Crossing(name, frame.module.file, m_.site(frame, node, "call"), by_option, True))
        return None

    return Native(kernel.name, launch)


def set_item(m: Machine, holder: Any, key: Any, value: Any) -> None:
    v = bare(holder)
    k = deep(key)[0]
    if isinstance(v, Instance) and v.items is not None:
        v = v.items
    try:
        if isinstance(v, dict) and not has_unknown(k):
            m.store(v, k, value)
        elif isinstance(v, list) and isinstance(k, int):
            m.changing(v)
            v[whole(k)] = value
        elif isinstance(v, (dict, list)):
            m.lose(v)
    except (TypeError, IndexError):
        return
