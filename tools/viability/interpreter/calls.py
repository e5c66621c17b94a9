"""Calls: arguments bound, bodies run, and note taken of what leaves the package it was called in."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from tools.viability.interpreter.branches import pop_pending, without
from tools.viability.interpreter.dispatch import (
    Leave,
    call,
    caller,
    evaluate,
    expression,
    get_attribute,
    has_method,
    run,
)
from tools.viability.interpreter.items import elements
from tools.viability.interpreter.machine import DEPTH_LIMIT, Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.names import UnboundError, global_name
from tools.viability.interpreter.records import Choice, Condition, Crossing, Frame
from tools.viability.interpreter.refusals import justified
from tools.viability.interpreter.values import (
    UNKNOWN,
    Bound,
    Built,
    Descriptor,
    External,
    Function,
    Instance,
    Kind,
    Native,
    Open,
    Partial,
    Raised,
    Site,
    Super,
    Taint,
    Tensor,
    Union,
    Unknown,
    bare,
    is_built,
    merge_all,
    of,
    original,
    strip,
    taint,
)

RECURSION, RECURSION_UNSURE = 16, 2
"""How often one function may be in progress at once: more than any sane program does; fewer where what it
walks over is not known and so has no end."""


@expression(ast.Call)
def _call_node(m: Machine, node: ast.Call, frame: Frame) -> Any:
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


@caller(Bound)
def _bound(
    m: Machine, f: Bound, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    return call(m, f.function, [f.receiver, *args], kwargs, frame, node)


@caller(Native)
def _native(
    m: Machine, f: Native, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    kwargs.pop("**", None)
    return f.call(m, args, kwargs, frame, node)


@caller(Partial)
def _partial(
    m: Machine, f: Partial, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    return call(m, f.function, [*f.args, *args], {**f.kwargs, **kwargs}, frame, node)


@caller(External)
def _external(
    m: Machine, f: External, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    given = m.facts.call_external(m, f.path, args, kwargs, frame, node)
    if not m.world.certain(f.root):
        for value in map(bare, (*args, *kwargs.values())):
            if isinstance(value, (list, set, dict)):
                m.lose(value)  # what nobody has read may have changed it
    return given


@caller(Built)
def _built(
    m: Machine, f: Built, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    return m.facts.call_built(m, f, args, kwargs, frame, node)


@caller(Instance)
def _instance(
    m: Machine, f: Instance, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    for name in ("__call__", "forward"):
        if has_method(f, name):
            return call(m, get_attribute(m, f, name, frame, node), args, kwargs, frame, node)
    return UNKNOWN


@caller(Union)
def _call_each(
    m: Machine, f: Union, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    values: list[Any] = []
    if frame is None:
        return UNKNOWN
    choice, raised = Choice(m.doubts, []), list[Raised]()
    doubt = Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard"))
    for option in f.options:
        try:
            with m.way(choice), m.under(frame, doubt):
                values.append(call(m, option, list(args), dict(kwargs), frame, node))
        except Raised as error:
            raised.append(error)
            values.append(UNKNOWN)
    m.note(choice)
    if len(raised) == len(f.options):
        raise without(m, raised, (doubt,))
    return merge_all(values)


@caller(Descriptor)
def _descriptor(
    m: Machine, f: Descriptor, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    return call(m, f.function, args, kwargs, frame, node)


@caller(Open)
def _open(m: Machine, f: Open, *_: Any) -> Any:
    return Unknown(fact=f"{f.name}()")


@caller(Unknown)
def _unknown(m: Machine, f: Unknown, *_: Any) -> Any:
    return Unknown(fact=f.fact + "()" if f.fact else None, runtime=f.runtime, soft=f.soft)


@caller(Function)
def call_function(
    m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], frame: Frame | None, node: Any
) -> Any:
    m.step()
    hooked = m.facts.intercept(m, f, args, kwargs, frame, node)
    if hooked is not NotImplemented:
        return hooked
    if f.module.name not in m.effects:
        m.effects.add(f.module.name)
        _run_registrations(m, f.module)
    if len(m.stack) >= DEPTH_LIMIT:
        m.misfits.append(f"call depth at {f.module.file}:{f.node.lineno}")
        return UNKNOWN
    crossing = None
    if frame is not None and node is not None:
        site = m.site(frame, node, "call")
        crossing = _note_crossing(m, f, args, kwargs, frame, site)
    else:
        site = Site(f.module.file, f.node.lineno, "call", f.node.lineno)
    inner = Frame(f.module, {}, parent=f.closure, function=f, owner=f.owner, base=len(m.conditions))
    again = m.active.get(id(f.node), 0)
    if again >= RECURSION_UNSURE and (again >= RECURSION or m.uncertain):
        return UNKNOWN  # a walk over something that is not known has no end
    m.active[id(f.node)] = again + 1
    refuse_unexpected(m, f, kwargs, frame, site)
    bind_arguments(m, f, args, kwargs, inner)
    m.stack.append(site)
    fetched = len(m.fetches)
    try:
        value = _run_body(m, f, inner)
        return m.facts.named(value, inner.locals) if is_built(value) else value
    except Raised as error:
        if crossing is not None:
            crossing.works = False
            if error.record is not None and Kind.ARCH in error.record.guard.kinds:
                del m.fetches[fetched:]  # this device does not come to run what was fetched
        if not justified(m, error):
            _note_accident(m, f, error)
            return UNKNOWN
        raise
    finally:
        m.active[id(f.node)] = again
        m.stack.pop()
        del m.conditions[inner.base :]


def _note_accident(m: Machine, f: Function, error: Raised) -> None:
    """Nothing in the scenario makes a function end so: what we gave it does."""
    m.misfits.append(f"{error.record.exception if error.record else '?'} from {f.module.file}:{f.name}")


def _run_registrations(m: Machine, module: Module) -> None:
    """What importing a module does to tables: its top-level calls and decorators named ``register…``."""
    frame = Frame(module, {})
    with m.apart():
        for statement in module.registrations:
            try:
                if isinstance(statement, ast.Expr):
                    evaluate(m, statement.value, frame)
                else:
                    global_name(m, module, statement.name)
            except (Raised, UnboundError):
                continue


def _run_body(m: Machine, f: Function, inner: Frame) -> Any:
    if isinstance(f.node, ast.Lambda):
        return evaluate(m, f.node.body, inner)
    if f.module.is_generator(f.node):
        inner.yields = []
    try:
        run(m, f.node.body, inner)
        value: Any = None
    except Leave as leave:
        value = leave.value
    except Raised as error:
        if inner.yields is not None:
            return UNKNOWN  # raised where the items are asked for, if they are
        if not inner.pending or (error.record is not None and error.record.proven):
            raise
        if error.record is not None:
            m.doubted.append(error.record)
        # An earlier exit that may have been taken: the raise is one of several ends.
        if not justified(m, error):
            _note_accident(m, f, error)
        elif error.record is not None:
            m.avoided.append(error.record)
        return pop_pending(inner)
    if inner.yields is not None:
        return inner.yields
    if inner.pending:
        return pop_pending(inner, 0, value)
    return value


def _note_crossing(
    m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], frame: Frame, site: Any
) -> Crossing | None:
    here, there = frame.module.name.split(".", 1)[0], f.module.name.split(".", 1)[0]
    if here == there:
        return None
    by_option = m.by_option or any(
        Kind.OPTION in strip(value)[1].kinds for value in [*args, *kwargs.values()]
    )
    named = original(f)
    told = tuple(
        f"{key}={bare(value)}"
        for key, value in [*enumerate(args), *kwargs.items()]
        if isinstance(bare(value), (str, int)) and Kind.OPTION in strip(value)[1].kinds
    )
    name = f"{named.module.name}.{named.name}"
    works = any(isinstance(bare(value), (Tensor, Unknown)) for value in [*args, *kwargs.values()])
    made = Crossing(name, frame.module.file, site, by_option, True, not m.uncertain, m.doubts, told, works)
    m.crossings.append(made)
    return made


def refuse_unexpected(
    m: Machine, f: Function, kwargs: dict[str, Any], frame: Frame | None, site: Site
) -> None:
    """A library's function refuses a keyword that the version at hand does not have."""
    if frame is None or not kwargs or f.module.name.split(".", 1)[0] == m.facts.root:
        return
    spec = f.node.args
    if spec.kwarg is not None or "**" in kwargs:
        return
    known = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
    unexpected = next((name for name in kwargs if name not in known), None)
    if unexpected is not None:
        end = f.node.body[0].lineno - 1 if isinstance(f.node.body, list) else f.node.lineno
        declared = Site(f.module.file, f.node.lineno, "declared", max(end, f.node.lineno))
        raise m.refuse(
            replace(site, role="raise"),
            TypeError,
            frame=frame,
            guard=of(Kind.DEPENDENCY).at(declared),
            cause="name",
            message=f"{f.name}() got an unexpected keyword argument {unexpected!r}",
        )


def bind_arguments(m: Machine, f: Function, args: list[Any], kwargs: dict[str, Any], inner: Frame) -> None:
    """Bind as Python does; what is missing without a default is unknown rather than an error."""
    spec = f.module.signature(f.node)
    names = spec.positional
    given = dict(kwargs)
    unsure = given.pop("**", None) is not None
    values: dict[str, Any] = dict(zip(names, args, strict=False))
    extra = tuple(args[len(names) :])
    definition: Frame | None = None
    for name in (*names, *spec.by_keyword):
        if name in given:
            values[name] = given.pop(name)
    for name in (*names, *spec.by_keyword):
        if name not in values:
            default = spec.defaults.get(name)
            if default is None or unsure:
                values[name] = UNKNOWN
            else:
                definition = definition or Frame(f.module, {}, parent=f.closure)
                values[name] = evaluate(m, default, definition)
    if spec.rest:
        values[spec.rest] = UNKNOWN if unsure and not extra else extra
    if spec.keywords:
        values[spec.keywords] = given
    inner.locals.update(values)
