"""Attributes, items and calls: what happens when one value meets another."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.evaluate import CONCRETE, deep, evaluate, plain, truth
from tools.viability.machine import (
    DEPTH_LIMIT,
    NOT_BOUND,
    BudgetError,
    Condition,
    Crossing,
    Frame,
    Machine,
)
from tools.viability.modules import Binding, Module, _index
from tools.viability.values import (
    CLEAN,
    RUNTIME,
    UNKNOWN,
    Bound,
    ClassValue,
    Descriptor,
    EnumMember,
    External,
    Function,
    Instance,
    Kind,
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
    merge,
    of,
    strip,
    taint,
)

RECURSION, RECURSION_UNSURE = 16, 2
RECORDS = ("NamedTuple", "Struct", "BaseModel")


# -- classes ----------------------------------------------------------------------------------------


def class_index(cls: ClassValue) -> dict[str, list[Binding]]:
    index: dict[str, list[Binding]] | None = getattr(cls.node, "_assay_index", None)
    if index is None:
        index = {}
        _index(cls.node.body, (), index, [])
        cls.node._assay_index = index  # type: ignore[attr-defined]
    return index


class _ClassScope(dict[str, Any]):
    """Names visible while a class body runs."""

    def __init__(self, m: Machine, cls: ClassValue) -> None:
        super().__init__()
        self.m, self.cls, self.busy = m, cls, set()

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (
            isinstance(name, str) and name not in self.busy and name in class_index(self.cls)
        )

    def __getitem__(self, name: str) -> Any:
        if dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        self.busy.add(name)
        try:
            value = own_attribute(self.m, self.cls, name)
        finally:
            self.busy.discard(name)
        return UNKNOWN if value is NOT_BOUND else value


def own_attribute(m: Machine, cls: ClassValue, name: str) -> Any:
    """What a class's own body binds ``name`` to, or NOT_BOUND."""
    from tools.viability.execute import define_class, define_function, run

    if name in cls.attrs:
        return cls.attrs[name]
    value: Any = NOT_BOUND
    for binding in reversed(class_index(cls).get(name, [])):
        if m._holds(cls.module, binding.guards)[0] is False or binding.mutates:
            continue
        scope = Frame(cls.module, _ClassScope(m, cls), parent=cls.closure)
        statement = binding.statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            value = define_function(m, statement, scope, owner=cls)
        elif isinstance(statement, ast.ClassDef):
            value = define_class(m, statement, scope)
        else:
            try:
                run(m, [statement], scope)
            except Raised:
                value = UNKNOWN
            else:
                value = dict.get(scope.locals, name, NOT_BOUND)
        if value is not NOT_BOUND:
            break
    if value is not NOT_BOUND:
        cls.attrs[name] = value
        _touch(m, cls.module, value)
    return value


def class_attribute(m: Machine, cls: ClassValue, name: str) -> tuple[Any, ClassValue | None]:
    for base in cls.mro():
        if isinstance(base, ClassValue):
            value = own_attribute(m, base, name)
            if value is not NOT_BOUND:
                return value, base
    return NOT_BOUND, None


def has_method(instance: Instance, name: str) -> bool:
    return any(isinstance(base, ClassValue) and name in class_index(base) for base in instance.cls.mro())


def call_method(m: Machine, instance: Any, name: str, args: list[Any]) -> Any:
    frame = Frame(instance.cls.module, {}) if isinstance(instance, Instance) else None
    return call(m, get_attribute(m, instance, name, frame, None), args, {}, frame, None)


def is_enum(cls: ClassValue) -> bool:
    return any(
        path.rsplit(".", 1)[-1] in ("Enum", "IntEnum", "StrEnum", "IntFlag", "Flag")
        for path in cls.external_bases
    )


def enum_members(m: Machine, cls: ClassValue) -> dict[str, EnumMember] | None:
    """The members of an enum class in order, or None if it is no enum."""
    if cls.members is None:
        if not is_enum(cls):
            return None
        cls.members = {}
        for base in reversed(cls.mro()):
            if not isinstance(base, ClassValue):
                continue
            count = 0
            for statement in base.node.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    name = statement.targets[0].id
                    if name.startswith("_"):
                        continue
                    frame = Frame(base.module, _ClassScope(m, base))
                    value = evaluate(m, statement.value, frame)
                    count += 1
                    if isinstance(bare(value), Unknown) and isinstance(statement.value, ast.Call):
                        value = count  # auto()
                    cls.members[name] = EnumMember(cls, name, bare(value))
    return cls.members


def _enum_call(m: Machine, cls: ClassValue, args: list[Any], frame: Frame | None, node: Any) -> Any:
    members = enum_members(m, cls) or {}
    if not args:
        return UNKNOWN
    value, t = strip(args[0])
    if isinstance(value, EnumMember):
        return args[0]
    if isinstance(value, (Unknown, Union)):
        return taint(Unknown(), t)
    for member in members.values():
        if plain(member.value) == value:
            return taint(member, t)
    missing, _ = class_attribute(m, cls, "_missing_")
    if missing is not NOT_BOUND:
        found = call(m, get_attribute(m, cls, "_missing_", frame, node), args, {}, frame, node)
        if bare(found) is not None:
            return found
    assert frame is not None
    raise m.refuse(
        m.site(frame, node, "raise"),
        ValueError,
        frame=frame,
        guard=t,
        cause="lookup",
        message=f"{value!r} is not a valid {cls.name}",
    )


def _touch(m: Machine, module: Module, value: Any) -> None:
    """First sight of an empty table: run what registers itself there with a decorator of that module."""
    if isinstance(value, (dict, list, set)) and not value and module.name not in m.touched:
        m.touched.add(module.name)
        m.facts.register_all(m, module)


# -- attributes -------------------------------------------------------------------------------------


def get_attribute(m: Machine, holder: Any, name: str, frame: Frame | None, node: Any) -> Any:
    """``holder.name``."""
    value, t = strip(holder)
    return taint(_attribute(m, value, name, frame, node, t), t)


def _attribute(m: Machine, v: Any, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if isinstance(v, Instance):
        return _instance_attribute(m, v, name, frame, node, t)
    if isinstance(v, Module):
        return _module_attribute(m, v, name)
    if isinstance(v, External):
        if name == "__setattr__":
            return Native(name, lambda m_, args, *_: _plain_setattr(m_, args))
        return m.facts.external(f"{v.path}.{name}")
    if isinstance(v, ClassValue):
        return _class_side(m, v, name, frame, node)
    if isinstance(v, EnumMember):
        if name in ("value", "_value_"):
            return v.value
        if name in ("name", "_name_"):
            return v.name
        found, _ = class_attribute(m, v.owner, name)
        if found is NOT_BOUND:
            return (
                _attribute(m, v.value, name, frame, node, t) if isinstance(v.value, (str, int)) else UNKNOWN
            )
        return _bind(m, found, v, v.owner, frame, node)
    if isinstance(v, Open):
        if name in v.attrs:
            return v.attrs[name]
        if v.supply is not None:
            given = v.supply(name)
            if given is not NotImplemented:
                return given
        if v.cls is not None:
            found, owner = class_attribute(m, v.cls, name)
            if found is not NOT_BOUND and owner is not None:
                return _bind(m, found, v, owner, frame, node)
        return _by_name(m, name, frame, node, Unknown(fact=f"{v.name}.{name}"))
    if isinstance(v, Unknown):
        if v.runtime and name in ("device", "is_cuda"):
            return m.facts.tensor_attribute(Tensor(), name)
        blank = Unknown(fact=f"{v.fact}.{name}" if v.fact else None, runtime=v.runtime)
        return _by_name(m, name, frame, node, blank)
    if isinstance(v, Union):
        values = [_attribute(m, bare(option), name, frame, node, t) for option in v.options]
        return _merge_all(values)
    if isinstance(v, Tensor):
        return m.facts.tensor_attribute(v, name)
    if isinstance(v, Super):
        mro = v.start_mro()
        for base in mro:
            if isinstance(base, ClassValue):
                found = own_attribute(m, base, name)
                if found is not NOT_BOUND:
                    return _bind(m, found, v.receiver, base, frame, node)
        if name == "__setattr__":
            return Native(name, lambda m_, args, *_: _plain_setattr(m_, [v.receiver, *args]))
        if name == "__getattribute__":
            return Native(name, lambda m_, args, *_: _plain_getattr(m_, [v.receiver, *args]))
        return Native(name, lambda *_: None) if name == "__init__" else UNKNOWN
    if isinstance(v, (Function, Bound, Partial, Native, Descriptor)):
        return _callable_attribute(v, name)
    if isinstance(v, CONCRETE):
        from tools.viability.builtin import concrete_method

        return concrete_method(v, name)
    if name == "__setattr__":
        return Native(name, lambda m_, args, *_: _plain_setattr(m_, args))
    if name == "__getattribute__":
        return Native(name, lambda m_, args, *_: _plain_getattr(m_, args))
    if isinstance(v, type) or name.startswith("_"):
        return UNKNOWN
    try:  # objects of the library model (a parsed version, a compiled pattern)
        found = getattr(v, name)
    except AttributeError:
        return UNKNOWN
    return Native(name, lambda m, args, kw, *_: _safe(found, args, kw)) if callable(found) else found


def _plain_setattr(m: Machine, args: list[Any]) -> None:
    """``object.__setattr__``: past whatever the class does on assignment."""
    holder = bare(args[0]) if len(args) == 3 else None
    if isinstance(holder, (Instance, Open)) and isinstance(bare(args[1]), str):
        m.store(holder.attrs, bare(args[1]), args[2])


def _plain_getattr(m: Machine, args: list[Any]) -> Any:
    """``object.__getattribute__``: what was stored, past ``__getattr__``."""
    holder, name = (bare(args[0]), bare(args[1])) if len(args) == 2 else (None, None)
    if isinstance(holder, (Instance, Open)) and isinstance(name, str):
        return holder.attrs.get(name, UNKNOWN)
    return UNKNOWN


def _safe(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    values = [deep(arg)[0] for arg in args]
    if any(isinstance(value, (Unknown, Union)) for value in values) or kwargs:
        return UNKNOWN
    try:
        return function(*values)
    except Exception:  # noqa: BLE001 - a library call on odd arguments is an unknown, not our failure
        return UNKNOWN


def _by_name(m: Machine, name: str, frame: Frame | None, node: Any, blank: Any) -> Any:
    """An option read through an object that could not be followed (a bag, a view): told by its name."""
    given = m.facts.option_by_name(m, name, frame, node)
    return blank if given is NotImplemented else given


def _callable_attribute(v: Any, name: str) -> Any:
    function = v.function if isinstance(v, (Bound, Descriptor)) else v
    attrs = getattr(function, "attrs", None)
    if attrs is not None and name in attrs:
        return attrs[name]
    if name in ("__name__", "__qualname__"):
        from tools.viability.library import original

        return getattr(original(bare(function)), "name", UNKNOWN)
    if name == "__self__" and isinstance(v, Bound):
        return v.receiver
    if name == "__func__" and isinstance(v, Bound):
        return v.function
    if name in ("__wrapped__", "fn", "func"):
        return function
    return NOT_BOUND_ATTR


NOT_BOUND_ATTR = Unknown(fact="<missing attribute>")
"""An attribute that a function of the sources surely does not have; ``hasattr`` says no."""


def _instance_attribute(m: Machine, v: Instance, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if name in v.attrs:
        return v.attrs[name]
    if name == "__class__":
        return v.cls
    if name == "__dict__":
        return v.attrs
    found, owner = class_attribute(m, v.cls, name)
    if found is not NOT_BOUND and owner is not None:
        return _bind(m, found, v, owner, frame, node)
    if not name.startswith("__"):
        hook, _ = class_attribute(m, v.cls, "__getattr__")
        if hook is not NOT_BOUND:
            return _ask(m, v, hook, name, frame, node)
    if v.closed and not v.cls.has_unknown_base and frame is not None and node is not None:
        raise m.refuse(
            m.site(frame, node, "raise"),
            AttributeError,
            frame=frame,
            guard=t | Taint(frame.flow.kinds),
            cause="lookup",
            message=f"{v.cls.name} has no {name}",
        )
    if v.items is not None:
        from tools.viability.builtin import concrete_method

        return concrete_method(v.items, name)
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


def _bind(m: Machine, found: Any, receiver: Any, owner: ClassValue, frame: Frame | None, node: Any) -> Any:
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


def _class_side(m: Machine, cls: ClassValue, name: str, frame: Frame | None, node: Any) -> Any:
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
    if name in ("__name__", "__qualname__"):
        return cls.name
    if name == "__init__" and cls.external_bases:
        return Native("__init__", lambda *_: None)
    return UNKNOWN


def _module_attribute(m: Machine, module: Module, name: str) -> Any:
    try:
        return m.global_name(module, name)
    except KeyError:
        pass
    child = m.world.module(f"{module.name}.{name}")
    if child is not None:
        return child
    if "__getattr__" in module.bindings:
        return call(m, m.global_name(module, "__getattr__"), [name], {}, Frame(module, {}), module.tree)
    return UNKNOWN


def set_attribute(m: Machine, holder: Any, name: str, value: Any) -> None:
    v = bare(holder)
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
            taint(values[k], both)
            if isinstance(k, int) and v.closed and -len(values) <= k < len(values)
            else UNKNOWN
        )
    if isinstance(v, ClassValue):
        members = enum_members(m, v)
        return taint(members[k], both) if members and k in members else v
    if isinstance(v, Tensor):
        return taint(Tensor(dtype=v.dtype), both)
    if isinstance(v, Function):
        return _launcher(m, v, frame, node)
    if isinstance(v, dict):
        k = plain(k) if not isinstance(k, EnumMember) else k
        try:
            if k in v:
                return taint(v[k], both)
        except TypeError:
            return taint(UNKNOWN, both)
        default = getattr(v, "default", None)
        if default is not None:
            v[k] = call(m, default, [], {}, frame, node)
            return v[k]
        if isinstance(k, (Unknown, Union)) or not isinstance(k, (str, int, tuple, EnumMember)):
            return taint(UNKNOWN, both)
        raise m.refuse(
            m.site(frame, node, "raise"), KeyError, frame=frame, guard=both, cause="lookup", message=repr(k)
        )
    if isinstance(v, (tuple, list, str, range)) and isinstance(k, (int, slice)):
        try:
            return taint(v[k], both)
        except (IndexError, ValueError, TypeError):
            return taint(UNKNOWN, both)
    if isinstance(v, External):
        return v
    return taint(Unknown(fact=v.fact, runtime=v.runtime) if isinstance(v, Unknown) else UNKNOWN, both)


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
        if isinstance(v, dict) and not isinstance(k, (Unknown, Union)):
            m.store(v, k, value)
        elif isinstance(v, list) and isinstance(k, int):
            v[k] = value
    except (TypeError, IndexError):
        return


# -- calls ------------------------------------------------------------------------------------------


def call_node(m: Machine, node: ast.Call, frame: Frame) -> Any:
    from tools.viability.builtin import elements

    if (
        isinstance(node.func, ast.Name)
        and node.func.id == "super"
        and not node.args
        and frame.owner is not None
    ):
        receiver = next(iter(frame.locals.values()), UNKNOWN)
        return Super(frame.owner, bare(receiver))
    function = evaluate(m, node.func, frame)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    unsure = False
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            items, t = elements(m, evaluate(m, arg.value, frame))
            if items is None:
                unsure = True
            else:
                args.extend(taint(item, Taint(t.kinds)) for item in items)
        else:
            args.append(evaluate(m, arg, frame))
    for keyword in node.keywords:
        value = evaluate(m, keyword.value, frame)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(bare(value), dict):
            kwargs.update({str(k): v for k, v in bare(value).items()})
        else:
            unsure = True
    if unsure:
        kwargs["**"] = UNKNOWN
    return call(m, function, args, kwargs, frame, node)


def call(
    m: Machine, function: Any, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    """Call any value; what cannot be followed gives Unknown."""
    f, t = strip(function)
    if t.decisive and frame is not None and node is not None:
        # Which function this is was chosen by the scenario: that holds for all it does.
        with m.under(frame, Condition(Taint(t.kinds), m.site(frame, node, "call"), direct=False)):
            value = _call(m, f, args, kwargs, frame, node)
    else:
        value = _call(m, f, args, kwargs, frame, node)
    return taint(value, Taint(t.kinds))


def _call(m: Machine, f: Any, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any) -> Any:
    if isinstance(f, Function):
        return call_function(m, f, args, kwargs, frame, node)
    if isinstance(f, Bound):
        return call(m, f.function, [f.receiver, *args], kwargs, frame, node)
    if isinstance(f, Native):
        kwargs.pop("**", None)
        return f.call(m, args, kwargs, frame, node)
    if isinstance(f, ClassValue):
        return instantiate(m, f, args, kwargs, frame, node)
    if isinstance(f, Partial):
        return call(m, f.function, [*f.args, *args], {**f.kwargs, **kwargs}, frame, node)
    if isinstance(f, External):
        return m.facts.call_external(m, f.path, args, kwargs, frame, node)
    if isinstance(f, Instance):
        for name in ("__call__", "forward"):
            if has_method(f, name):
                return call(m, get_attribute(m, f, name, frame, node), args, kwargs, frame, node)
        return UNKNOWN
    if isinstance(f, Union):
        return _call_each(m, f, args, kwargs, frame, node)
    if isinstance(f, Descriptor):
        return call(m, f.function, args, kwargs, frame, node)
    if isinstance(f, type):
        from tools.viability.builtin import convert

        return f if issubclass(f, BaseException) else convert(m, f, args, kwargs)
    if isinstance(f, Open):
        return Unknown(fact=f"{f.name}()")
    if isinstance(f, Unknown):
        return Unknown(fact=f"{f.fact}()" if f.fact else None, runtime=f.runtime)
    return UNKNOWN


def _call_each(
    m: Machine, f: Union, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    values: list[Any] = []
    if frame is None:
        return UNKNOWN
    for option in f.options:
        try:
            with m.under(frame, Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard"))):
                values.append(call(m, option, list(args), dict(kwargs), frame, node))
        except Raised:
            values.append(UNKNOWN)
    return _merge_all(values)


def _merge_all(values: list[Any]) -> Any:
    result = values[0] if values else UNKNOWN
    for other in values[1:]:
        result = merge(result, other)
    return result


def call_function(
    m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    m.step()
    hooked = m.facts.intercept(m, f, args, kwargs)
    if hooked is not NotImplemented:
        return hooked
    if f.module.name not in m.effects:
        m.effects.add(f.module.name)
        run_registrations(m, f.module)
    if len(m.stack) >= DEPTH_LIMIT:
        m.misfits.append(f"call depth at {f.module.file}:{f.node.lineno}")
        return UNKNOWN
    if frame is not None and node is not None:
        site = m.site(frame, node, "call")
        _note_crossing(m, f, args, kwargs, frame, site)
    else:
        from tools.viability.values import Site

        site = Site(f.module.file, f.node.lineno, "call", f.node.lineno)
    inner = Frame(
        f.module, {}, parent=f.closure, function=f, owner=f.owner, flow=frame.flow if frame else CLEAN
    )
    inner.flow = CLEAN
    inner.base = len(m.conditions)
    again = m.active.get(id(f.node), 0)
    if again >= (RECURSION_UNSURE if m.uncertain else RECURSION):
        return UNKNOWN  # a walk over something that is not known has no end
    m.active[id(f.node)] = again + 1
    bind_arguments(m, f, args, kwargs, inner)
    m.stack.append(site)
    try:
        return _run_body(m, f, inner)
    except Raised as error:
        if not _justified(m, error):
            m.misfits.append(
                f"{error.record.exception if error.record else '?'} from {f.module.file}:{f.name}"
            )
            return UNKNOWN
        raise
    finally:
        m.active[id(f.node)] = again
        m.stack.pop()
        del m.conditions[inner.base :]


def run_registrations(m: Machine, module: Module) -> None:
    """What importing a module does to tables elsewhere: its top-level ``register…(…)`` calls."""
    frame = Frame(module, {})
    conditions, m.conditions = m.conditions, []
    handlers, m.handlers = m.handlers, []
    try:
        for statement in module.tree.body:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Call):
                name = getattr(value.func, "id", getattr(value.func, "attr", ""))
                if "register" in name:
                    try:
                        evaluate(m, value, frame)
                    except Raised:
                        continue
    finally:
        m.conditions, m.handlers = conditions, handlers


def _justified(m: Machine, error: Raised) -> bool:
    """Whether a raise may travel on: the scenario justifies it, or somebody further out handles it."""
    if error.record is None or error.record.guard.decisive:
        return True
    from tools.viability.execute import catches

    # A catch-all is no witness: it would take the path of a failure that is only ours.
    return any(
        handler.type is not None
        and bare(evaluate(m, handler.type, frame)) not in (Exception, BaseException)
        and catches(m, handler, error.exception, frame)
        for node, frame in m.handlers
        for handler in node.handlers
    )


def _run_body(m: Machine, f: Function, inner: Frame) -> Any:
    from tools.viability.execute import Leave, _pop_pending, run

    if isinstance(f.node, ast.Lambda):
        return evaluate(m, f.node.body, inner)
    if is_generator(f.node):
        inner.yields = []
    try:
        run(m, f.node.body, inner)
        value: Any = None
    except Leave as leave:
        value = leave.value
    except Raised as error:
        if not inner.pending or (error.record is not None and error.record.proven):
            raise
        # An earlier exit that may have been taken: the raise is one of several ends.
        return _pop_pending(inner)
    if inner.yields is not None:
        return inner.yields
    if inner.pending:
        value = merge(_pop_pending(inner), value)
    return value


def is_generator(node: Any) -> bool:
    known: bool | None = getattr(node, "_assay_generator", None)
    if known is None:
        known = False
        todo: list[ast.AST] = list(node.body)
        while todo:
            part = todo.pop()
            if isinstance(part, (ast.Yield, ast.YieldFrom)):
                known = True
                break
            if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                todo.extend(ast.iter_child_nodes(part))
        node._assay_generator = known
    return known


def _note_crossing(
    m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], frame: Frame, site: Any
) -> None:
    here, there = frame.module.name.split(".", 1)[0], f.module.name.split(".", 1)[0]
    if here != there:
        by_option = m.by_option or any(
            Kind.OPTION in strip(value)[1].kinds for value in [*args, *kwargs.values()]
        )
        from tools.viability.library import original

        named = original(f)
        told = tuple(
            f"{key}={bare(value)}"
            for key, value in [*enumerate(args), *kwargs.items()]
            if isinstance(bare(value), (str, int)) and Kind.OPTION in strip(value)[1].kinds
        )
        name = f"{named.module.name}.{named.name}"
        m.crossings.append(Crossing(name, frame.module.file, site, by_option, True, not m.uncertain, told))


def bind_arguments(m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], inner: Frame) -> None:
    """Bind as Python does; what is missing without a default is unknown rather than an error."""
    spec = f.node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    given = dict(kwargs)
    unsure = given.pop("**", None) is not None
    values: dict[str, Any] = dict(zip(names, args, strict=False))
    extra = list(args[len(names) :])
    definition = Frame(f.module, {}, parent=f.closure)
    for name in names + [a.arg for a in spec.kwonlyargs]:
        if name in given:
            values[name] = given.pop(name)
    defaults = (
        dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
        if spec.defaults
        else {}
    )
    defaults.update(
        {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
    )
    for name in names + [a.arg for a in spec.kwonlyargs]:
        if name not in values:
            default = defaults.get(name)
            if default is None or unsure:
                values[name] = UNKNOWN
            else:
                values[name] = evaluate(m, default, definition)
    if spec.vararg:
        values[spec.vararg.arg] = UNKNOWN if unsure and not extra else tuple(extra)
    if spec.kwarg:
        values[spec.kwarg.arg] = given
    inner.locals.update(values)


# -- building objects -------------------------------------------------------------------------------


def record_fields(m: Machine, cls: ClassValue) -> list[tuple[str, ast.expr | None, ClassValue]]:
    """Annotated fields of a record class in definition order, base classes first."""
    found: dict[str, tuple[str, ast.expr | None, ClassValue]] = {}
    for base in reversed(cls.mro()):
        if isinstance(base, ClassValue):
            for statement in base.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    if "ClassVar" in ast.dump(statement.annotation):
                        continue
                    found[statement.target.id] = (statement.target.id, statement.value, base)
    return list(found.values())


def is_record(cls: ClassValue) -> bool:
    return any(isinstance(b, ClassValue) and b.is_dataclass for b in cls.mro()) or any(
        path.rsplit(".", 1)[-1] in RECORDS for path in cls.external_bases
    )


def instantiate(
    m: Machine, cls: ClassValue, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    if is_enum(cls):
        return _enum_call(m, cls, args, frame, node)
    instance = Instance(cls)
    if any(path.rsplit(".", 1)[-1] in ("dict", "OrderedDict") for path in cls.external_bases):
        instance.items = {}
    init, _ = class_attribute(m, cls, "__init__")
    if init is not NOT_BOUND:
        call(m, Bound(init, instance), args, kwargs, frame, node)
        return instance
    if is_record(cls):
        _fill_record(m, instance, args, kwargs, frame, node)
    return instance


def _fill_record(
    m: Machine, instance: Instance, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> None:
    fields = record_fields(m, instance.cls)
    unsure = "**" in kwargs
    values = dict(zip([name for name, _, _ in fields], args, strict=False))
    values.update({name: value for name, value in kwargs.items() if name != "**"})
    for name, default, owner in fields:
        if name in values:
            instance.attrs[name] = values[name]
        elif default is None or unsure:
            instance.attrs[name] = UNKNOWN
        else:
            value = evaluate(m, default, Frame(owner.module, {}, parent=owner.closure))
            v = bare(value)
            if isinstance(v, dict) and "<default>" in v:
                value = v["<default>"]
            elif isinstance(v, dict) and "<factory>" in v:
                value = call(m, v["<factory>"], [], {}, frame, node)
            instance.attrs[name] = value
    instance.closed = not instance.cls.external_bases or any(
        path.rsplit(".", 1)[-1] == "NamedTuple" for path in instance.cls.external_bases
    )
    post, _ = class_attribute(m, instance.cls, "__post_init__")
    if post is not NOT_BOUND:
        call(m, Bound(post, instance), [], {}, frame, node)


__all__ = ["BudgetError", "call", "call_method", "get_attribute", "truth"]
