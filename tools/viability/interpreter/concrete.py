"""Methods of plain Python values: containers that the interpreted program fills, and everything else."""

from __future__ import annotations

from typing import Any

from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.items import elements
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.truth import (
    deep,
    has_unknown,
)
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    Instance,
    Native,
    Open,
    Union,
    Unknown,
    bare,
    merge,
    taint,
)


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
            values.append(whole(value))
        if any(isinstance(value, (Unknown, Union, Instance, Open)) for value in values):
            return taint(UNKNOWN, extra)
        try:
            return taint(attribute(*values, **{k: whole(bare(x)) for k, x in kw.items()}), extra)
        except Exception:  # noqa: BLE001 - the interpreted program's error, told as unknown
            return taint(UNKNOWN, extra)

    return Native(name, call)


def _mutate(m: Machine, v: Any, name: str, args: list[Any]) -> Any:
    m.changing(v)
    if name in ("extend", "update"):
        for arg in args:
            items, _ = elements(m, arg)
            if items is None:
                m.lose(v)
            for item in items or []:
                _put(m, v, item)
        return None
    if name == "pop":
        where = [whole(bare(arg)) for arg in args]
        there = all(isinstance(at, int) and -len(v) <= at < len(v) for at in where)
        if v and there and not m.is_lost(v):
            return v.pop(*where)
        m.lose(v)
        return UNKNOWN
    if name == "insert" and isinstance(bare(args[0]), int):
        v.insert(whole(bare(args[0])), args[1])
    elif name == "append":
        v.append(args[0])
        if isinstance(bare(args[0]), (str, Unknown, Union)):
            m.note_reason(v, args[0])
    elif name == "add":
        _put(m, v, args[0])
    elif name == "remove":
        for item in list(v):
            if deep(item)[0] == deep(args[0])[0]:
                v.remove(item)
                break
    return None


def extend(m: Machine, v: Any, other: Any) -> None:
    """``list += other`` and ``set |= other``."""
    _mutate(m, v, "extend", [other])


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
        return _dict_entry(m, v, name, args)
    if name == "update":
        return _dict_update(m, v, args, kw)
    if m.is_lost(v):
        return UNKNOWN
    if name == "items":
        return list(v.items())
    if name in ("keys", "values"):
        return list(getattr(v, name)())
    if name == "copy":
        return dict(v)
    if name == "clear":
        m.changing(v)
        v.clear()
        return None
    return UNKNOWN


def _dict_entry(m: Machine, v: dict[Any, Any], name: str, args: list[Any]) -> Any:
    """``get``, ``pop`` and ``setdefault``; a key that is not known may be any of them, or none."""
    key, t = deep(args[0])
    default = args[1] if len(args) > 1 else None
    if m.is_lost(v):
        return taint(UNKNOWN, t)
    if name != "get":
        m.changing(v)
    if has_unknown(key):
        if name != "get":
            m.lose(v)
        result = default
        for value in v.values():
            result = merge(result, value)
        return taint(result, t)
    try:
        if key in v:
            return taint(v.pop(key) if name == "pop" else v[key], t)
    except TypeError:
        return UNKNOWN
    if name == "setdefault":
        v[key] = default
    return taint(default, t)


def _dict_update(m: Machine, v: dict[Any, Any], args: list[Any], kw: dict[str, Any]) -> None:
    for arg in args:
        other = bare(arg)
        if isinstance(other, dict) and not m.is_lost(other):
            for key, value in other.items():
                m.store(v, key, UNKNOWN if id(other) in m.maybe else value)
        else:
            m.lose(v)
    for key, value in kw.items():
        m.store(v, key, value)
