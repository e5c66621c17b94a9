"""Attributes: what ``holder.name`` reads and writes, by the kind of the holder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.classes import class_attribute, enum_members, own_attribute
from tools.viability.interpreter.concrete import concrete_method
from tools.viability.interpreter.dispatch import call, read_attribute, reader
from tools.viability.interpreter.machine import Machine, describe
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import NOT_BOUND, Frame
from tools.viability.interpreter.truth import CONCRETE, deep
from tools.viability.interpreter.values import (
    UNKNOWN,
    Bound,
    Built,
    ClassValue,
    Descriptor,
    EnumMember,
    External,
    Function,
    Instance,
    Native,
    Open,
    Partial,
    Raised,
    Super,
    Taint,
    Tensor,
    Union,
    Unknown,
    bare,
    merge_all,
    original,
)


@reader(Module)
def _of_module(m: Machine, v: Module, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    try:
        return global_name(m, v, name)
    except UnboundError:
        pass
    child = m.world.module(f"{v.name}.{name}")
    if child is not None:
        return child
    if "__getattr__" in v.bindings:
        return call(m, global_name(m, v, "__getattr__"), [name], {}, Frame(v, {}), v.tree)
    return UNKNOWN


@reader(External)
def _of_external(m: Machine, v: External, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if name == "__setattr__":
        return Native(name, lambda m_, args, *_: _plain_setattr(m_, args))
    return m.facts.external(f"{v.path}.{name}")


@reader(Built)
def _of_built(m: Machine, v: Built, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    return replace(v, path=f"{v.path}.{name}")


@reader(ClassValue)
def _of_class(m: Machine, cls: ClassValue, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    members = enum_members(m, cls)
    if members is not None:
        if name in members:
            return members[name]
        if name == "__members__":
            return dict(members)
    found, owner = class_attribute(m, cls, name)
    if found is not NOT_BOUND and owner is not None:
        value = bare(found)
        if isinstance(value, Descriptor) and value.kind in ("class", "static"):
            return Bound(value.function, cls) if value.kind == "class" else value.function
        return found
    if name == "__module__":
        return cls.module.name
    if name in ("__name__", "__qualname__"):
        return cls.name
    if name == "__mro__":
        return cls.mro()
    if name == "__bases__":
        return cls.bases
    if name == "__dict__":
        own = {key: own_attribute(m, cls, key) for key in cls.index}
        return {**cls.attrs, **{key: value for key, value in own.items() if value is not NOT_BOUND}}
    if name == "apply" and any(base.endswith("autograd.Function") for base in cls.external_bases):
        # The framework calls ``forward`` with a context of its own in front.
        forward = read_attribute(m, cls, "forward", frame, node, t)
        return Partial(forward, (Open("context"),), {})
    if name == "__init__" and cls.external_bases:
        return Native("__init__", lambda *_: None)
    return UNKNOWN


@reader(EnumMember)
def _of_member(m: Machine, v: EnumMember, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if name in ("value", "_value_"):
        return v.value
    if name in ("name", "_name_"):
        return v.name
    found, _ = class_attribute(m, v.owner, name)
    if found is NOT_BOUND:
        # A mixed-in int or str has that type's methods.
        mixed = isinstance(v.value, (str, int))
        return read_attribute(m, v.value, name, frame, node, t) if mixed else UNKNOWN
    return bind(m, found, v, v.owner, frame, node)


@reader(Open)
def _of_open(m: Machine, v: Open, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if name in v.attrs:
        return v.attrs[name]
    if v.supply is not None:
        given = v.supply(name)
        if given is not NotImplemented:
            return given
    if v.cls is not None:
        found, owner = class_attribute(m, v.cls, name)
        if found is not NOT_BOUND and owner is not None:
            return bind(m, found, v, owner, frame, node)
    return _by_name(m, name, frame, node, Unknown(fact=f"{v.name}.{name}"))


@reader(Unknown)
def _of_unknown(m: Machine, v: Unknown, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if v.runtime and name in ("device", "is_cuda"):
        return m.facts.tensor_attribute(Tensor(), name)
    blank = Unknown(fact=v.fact + f".{name}" if v.fact else None, runtime=v.runtime, soft=v.soft)
    return _by_name(m, name, frame, node, blank)


@reader(Union)
def _of_union(m: Machine, v: Union, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    values: list[Any] = []
    lacking: Raised | None = None
    for option in v.options:
        try:
            values.append(read_attribute(m, bare(option), name, frame, node, t))
        except Raised as error:
            if describe(error.exception) != AttributeError.__name__:
                raise
            lacking = error  # where others have it, it is one of those
    if not values and lacking is not None:
        raise lacking
    return merge_all(values)


@reader(Tensor)
def _of_tensor(m: Machine, v: Tensor, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    return m.facts.tensor_attribute(v if name in v.attrs else _now(v, v.attrs), name)


def _now(v: Tensor, attrs: dict[str, Any]) -> Tensor:
    """The tensor that a parameter is by now: what was put into its ``data``.

    Sizes that are not known there are still the parameter's own, which are nominal anyhow; a dtype that is
    not known there, or not the same in all that may have been put there, is none.
    """
    if "data" not in attrs:
        return v
    data = bare(attrs["data"])
    held = [_held(v, bare(side)) for side in (data.options if isinstance(data, Union) else (data,))]
    if len(held) == 1:
        return held[0]
    same = all(one.dtype == held[0].dtype for one in held)
    return Tensor(v.shape, held[0].dtype if same else UNKNOWN)


def _held(v: Tensor, data: Any) -> Tensor:
    """The tensor that ``v`` is with ``data`` put into it."""
    if isinstance(data, Instance) and data.tensor is not None:
        return _now(data.tensor, data.attrs)
    if not isinstance(data, Tensor):
        return Tensor(v.shape)
    now = data if data is v else _now(data, data.attrs)
    return now if isinstance(now.shape, tuple) else replace(now, shape=v.shape)


@reader(Super)
def _of_super(m: Machine, v: Super, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    for base in v.start_mro():
        if isinstance(base, ClassValue):
            found = own_attribute(m, base, name)
            if found is not NOT_BOUND:
                return bind(m, found, v.receiver, base, frame, node)
    if name == "__setattr__":
        return Native(name, lambda m_, args, *_: _plain_setattr(m_, [v.receiver, *args]))
    if name == "__getattribute__":
        return Native(name, lambda m_, args, *_: _plain_getattr([v.receiver, *args]))
    return Native(name, lambda *_: None) if name == "__init__" else UNKNOWN


@reader(Function, Bound, Partial, Native, Descriptor)
def _of_callable(m: Machine, v: Any, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    value = callable_attribute(v, name)
    return UNKNOWN if value is NOT_BOUND else value


@reader(object)
def _of_any(m: Machine, v: Any, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if isinstance(v, CONCRETE):
        return concrete_method(v, name)
    if name == "__setattr__":
        return Native(name, lambda m_, args, *_: _plain_setattr(m_, args))
    if name == "__getattribute__":
        return Native(name, lambda m_, args, *_: _plain_getattr(args))
    if isinstance(v, type) or name.startswith("_"):
        return UNKNOWN
    try:  # objects of the library model (a parsed version, a compiled pattern)
        found = getattr(v, name)
    except AttributeError:
        return UNKNOWN
    return Native(name, lambda m_, args, kw, *_: _safe(found, args, kw)) if callable(found) else found


@reader(Instance)
def _of_instance(m: Machine, v: Instance, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if name in v.attrs:
        return v.attrs[name]
    if name == "__class__":
        return v.cls
    if name == "__dict__":
        return v.attrs
    found, owner = class_attribute(m, v.cls, name)
    if found is not NOT_BOUND and owner is not None:
        return bind(m, found, v, owner, frame, node)
    if not name.startswith("__"):
        hook, _ = class_attribute(m, v.cls, "__getattr__")
        if hook is not NOT_BOUND:
            return _ask(m, v, hook, name, frame, node)
    if name == "_asdict" and any(path.endswith("NamedTuple") for path in v.cls.external_bases):
        return Native(name, lambda *_: dict(v.attrs))
    private = name.startswith("_") or name in ("index", "count")
    if v.closed and not private and not v.cls.has_unknown_base and frame is not None and node is not None:
        raise m.refuse(
            m.site(frame, node, "raise"),
            AttributeError,
            frame=frame,
            guard=t | Taint(frame.flow.kinds),
            cause="lookup",
            message=f"{v.cls.name} has no {name}",
        )
    if v.items is not None:
        return concrete_method(v.items, name)
    if v.tensor is not None and not name.startswith("_"):
        return m.facts.tensor_attribute(_now(v.tensor, v.attrs), name)
    module_like = any(path.endswith("Module") for path in v.cls.external_bases)
    if module_like and name in m.facts.module_methods:
        return Native(name, lambda m_, args, kw, *_: m.facts.module_method(m_, v, name, args, kw))
    return _by_name(m, name, frame, node, UNKNOWN)


def _ask(m: Machine, v: Instance, hook: Any, name: str, frame: Frame | None, node: Any) -> Any:
    """``__getattr__``; where it ends in an unknown, an option's name may still tell."""
    key = (id(v), name)
    if key in m.asking:
        return UNKNOWN
    m.asking.add(key)
    try:
        value = call(m, Bound(hook, v), [name], {}, frame, node)
    finally:
        m.asking.discard(key)
    return _by_name(m, name, frame, node, value) if isinstance(bare(value), Unknown) else value


def bind(m: Machine, found: Any, receiver: Any, owner: ClassValue, frame: Frame | None, node: Any) -> Any:
    value = bare(found)
    if isinstance(value, Descriptor):
        if value.kind == "property":
            return call(m, value.function, [receiver], {}, frame, node)
        if value.kind == "static":
            return value.function
        cls = receiver if isinstance(receiver, ClassValue) else getattr(receiver, "cls", owner)
        return Bound(value.function, cls)
    if isinstance(value, (Function, Partial)) or (
        isinstance(value, Native) and not isinstance(receiver, ClassValue)
    ):
        return Bound(value, receiver)
    return found


def callable_attribute(v: Any, name: str) -> Any:
    """An attribute of a function, or NOT_BOUND where it surely has none of that name."""
    function = v.function if isinstance(v, (Bound, Descriptor)) else v
    attrs = getattr(function, "attrs", None)
    if attrs is not None and name in attrs:
        return attrs[name]
    if name in ("__name__", "__qualname__"):
        return getattr(original(bare(function)), "name", UNKNOWN)
    if name == "__self__" and isinstance(v, Bound):
        return v.receiver
    if name == "__func__" and isinstance(v, Bound):
        return v.function
    if name in ("__wrapped__", "fn", "func"):
        return function
    return NOT_BOUND


def _by_name(m: Machine, name: str, frame: Frame | None, node: Any, blank: Any) -> Any:
    """An option read through an object that could not be followed (a bag, a view): told by its name."""
    given = m.facts.option_by_name(m, name, frame, node)
    return blank if given is NotImplemented else given


def _plain_setattr(m: Machine, args: list[Any]) -> None:
    """``object.__setattr__``: past whatever the class does on assignment."""
    holder = bare(args[0]) if len(args) == 3 else None
    if isinstance(holder, (Instance, Open)) and isinstance(bare(args[1]), str):
        m.store(holder.attrs, whole(bare(args[1])), args[2])


def _plain_getattr(args: list[Any]) -> Any:
    """``object.__getattribute__``: what was stored, past ``__getattr__``."""
    holder, name = (bare(args[0]), whole(bare(args[1]))) if len(args) == 2 else (None, None)
    if isinstance(holder, (Instance, Open)) and isinstance(name, str):
        return holder.attrs.get(name, UNKNOWN)
    return UNKNOWN


def _safe(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    values = [whole(deep(arg)[0]) for arg in args]
    if any(isinstance(value, (Unknown, Union)) for value in values) or kwargs:
        return UNKNOWN
    try:
        return function(*values)
    except Exception:  # noqa: BLE001 - a library call on odd arguments is an unknown, not our failure
        return UNKNOWN


def set_attribute(m: Machine, holder: Any, name: str, value: Any) -> None:
    v = bare(holder)
    value = m.facts.kept_as(m, name, value)
    if isinstance(v, Instance):
        found, _ = class_attribute(m, v.cls, name)
        if isinstance(bare(found), Descriptor) and bare(found).kind == "property":
            name = f"_{name}" if f"_{name}" in v.attrs else name
        m.store(v.attrs, name, value)
    elif isinstance(v, (Open, Function, Tensor, ClassValue)):
        m.store(v.attrs, name, value)
    elif isinstance(v, Bound):
        set_attribute(m, v.function, name, value)
    elif isinstance(v, Module):
        m.globals[v.name, name] = value
    elif isinstance(v, Union):
        for option in v.options:
            set_attribute(m, option, name, value)
