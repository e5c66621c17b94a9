"""Statements: branches that the scenario decides, branches that it does not, raises, and imports."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tools.viability.evaluate import deep, evaluate, operate, truth
from tools.viability.machine import NOT_BOUND, UNDO_MISSING, Condition, Frame, Machine
from tools.viability.modules import Binding, Module
from tools.viability.values import (
    CLEAN,
    RUNTIME,
    UNKNOWN,
    Bound,
    ClassValue,
    Descriptor,
    External,
    Function,
    Instance,
    Kind,
    Open,
    Raised,
    Taint,
    Tainted,
    Tensor,
    Unknown,
    bare,
    merge,
    of,
    strip,
    taint,
)

LOOP_LIMIT = 600


class Leave(Exception):
    """``return``, ``break`` or ``continue`` of the interpreted program."""

    def __init__(self, how: str, value: Any = None) -> None:
        super().__init__(how)
        self.how = how
        self.value = value


def run(m: Machine, body: list[ast.stmt], frame: Frame) -> None:
    for statement in body:
        m.step()
        handler = HANDLERS.get(type(statement))
        if handler is not None:
            handler(m, statement, frame)


# -- branches ---------------------------------------------------------------------------------------


def refuses(body: list[ast.stmt]) -> bool:
    """Whether a branch does nothing but refuse: its own last statement is a raise."""
    return bool(body) and isinstance(body[-1], ast.Raise)


def leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Raise, ast.Return, ast.Continue, ast.Break))


def _if(m: Machine, node: ast.If, frame: Frame) -> None:
    value = evaluate(m, node.test, frame)
    decided, depends = truth(m, value)
    site = m.site(frame, node.test, "guard")
    if Kind.OPTION in depends.kinds:
        m.consulted.append(site)
    if decided is None:
        _undecided(m, node, frame, bare(value), depends, site)
        return
    taken, other = (node.body, node.orelse) if decided else (node.orelse, node.body)
    if refuses(taken) and Kind.SOFT in depends.kinds:
        taken, other = other, taken  # a nominal size never refuses
    elif depends.decisive and (refuses(node.body) or refuses(node.orelse)):
        note_gate(m, site, depends, passed=not refuses(taken))
    condition = Condition(depends, site)
    if taken:
        with m.under(frame, condition):
            run(m, taken, frame)
    if other and leaves(other):
        m.assume(frame, Condition(depends, site))


def note_gate(m: Machine, site: Any, depends: Taint, *, passed: bool) -> None:
    from tools.viability.machine import GateEvent

    if not m.uncertain:
        m.gates.append(GateEvent(site, depends, passed, tuple(m.stack)))


def _undecided(m: Machine, node: ast.If, frame: Frame, value: Any, depends: Taint, site: Any) -> None:
    """A test that the sources do not decide: a pure refusal is noted as a condition, else both sides run."""
    for body, other, holds in ((node.body, node.orelse, True), (node.orelse, node.body, False)):
        if refuses(body):
            _note_conditional(m, frame, body[-1], value, holds, depends, site)
            run(m, other, frame)
            return
    soft = isinstance(value, Unknown) and value.runtime
    kinds = of(Kind.SOFT if soft else Kind.UNKNOWN) | depends
    fork(m, frame, [node.body, node.orelse], Condition(kinds, site))


def _note_conditional(
    m: Machine, frame: Frame, statement: ast.stmt, value: Any, holds: bool, depends: Taint, site: Any
) -> None:
    from tools.viability.evaluate import NEGATED
    from tools.viability.machine import RaiseRecord

    test = value.test if isinstance(value, Unknown) else None
    if test is not None:
        if holds:
            test = (test[0], NEGATED[test[1]], test[2])
        record = RaiseRecord(
            m.site(frame, statement, "raise"), "", "", tuple(m.conditions), tuple(m.stack), depends.at(site)
        )
        m.conditional.append((record, Unknown(test[0], test)))


def fork(m: Machine, frame: Frame, bodies: list[list[ast.stmt]], condition: Condition) -> None:
    """Run every side from the same start and join what they leave behind."""
    start = frame.locals
    ends: list[dict[str, Any]] = []
    writes: list[list[tuple[Any, Any, Any]]] = []
    raised: Raised | None = None
    exits = len(frame.pending)
    left: Leave | None = None
    for body in bodies:
        frame.locals = dict(start)
        m.undo.append([])
        pending = len(frame.pending)
        try:
            with m.under(frame, condition):
                run(m, body, frame)
            ends.append(frame.locals)
        except Raised as error:
            raised = error
            del frame.pending[pending:]
        except Leave as leave:
            if leave.how == "return":
                frame.pending.append(leave.value)
            else:
                left = leave
                ends.append(frame.locals)
        finally:
            writes.append(_roll_back(m))
    _join_writes(m, writes, len(bodies))
    frame.locals = start
    if not ends:
        if len(frame.pending) > exits:
            raise Leave("return", _pop_pending(frame, exits))
        assert raised is not None
        raise raised
    joined = ends[0]
    for end in ends[1:]:
        joined = {
            name: end[name] if name not in joined else merge(joined[name], end.get(name, joined[name]))
            for name in {**joined, **end}
        }
    frame.locals.clear()
    frame.locals.update(joined)
    if left is not None and len(ends) == 1:
        raise left
    if len(frame.pending) > exits:
        # Whatever follows runs only if the exit was not taken.
        m.assume(frame, Condition(condition.taint, condition.site))


def _pop_pending(frame: Frame, since: int = 0) -> Any:
    """The join of the values returned on sides that may have been taken."""
    value, *others = frame.pending[since:]
    for other in others:
        value = merge(value, other)
    del frame.pending[since:]
    return value


def _roll_back(m: Machine) -> list[tuple[Any, Any, Any]]:
    """Undo the writes of a side; return what it had written, last value per place."""
    log = m.undo.pop()
    final: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
    for holder, key, _ in log:
        final[id(holder), key] = (holder, key, holder.get(key, UNDO_MISSING))
    for holder, key, before in reversed(log):
        if before is UNDO_MISSING:
            holder.pop(key, None)
        else:
            holder[key] = before
    return list(final.values())


def _join_writes(m: Machine, sides: list[list[tuple[Any, Any, Any]]], count: int) -> None:
    seen: dict[tuple[int, Any], list[tuple[Any, Any, Any]]] = {}
    for side in sides:
        for holder, key, value in side:
            seen.setdefault((id(holder), key), []).append((holder, key, value))
    for written in seen.values():
        holder, key, value = written[0]
        values = [v for _, _, v in written if v is not UNDO_MISSING]
        if not values:
            continue
        if len(written) < count and key in holder:
            values.append(holder[key])
        joined = values[0]
        for other in values[1:]:
            joined = merge(joined, other)
        m.store(holder, key, joined)
        del value


# -- loops, with, try -------------------------------------------------------------------------------


def _for(m: Machine, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
    from tools.viability.builtin import elements

    items, depends = elements(m, evaluate(m, node.iter, frame))
    if items is None:
        assign(m, node.target, UNKNOWN, frame)
        fork(m, frame, [node.body, []], Condition(depends | of(Kind.UNKNOWN), m.site(frame, node, "guard")))
        return
    for item in items[:LOOP_LIMIT]:
        # An item of a literal list remembers the list.
        literal = tuple(site for site in depends.sites if site.role == "list")
        assign(m, node.target, taint(item, Taint(depends.kinds, literal)), frame)
        try:
            run(m, node.body, frame)
        except Leave as leave:
            if leave.how == "return":
                raise
            if leave.how == "break":
                return
    run(m, node.orelse, frame)


def _while(m: Machine, node: ast.While, frame: Frame) -> None:
    for _ in range(64):
        decided, depends = truth(m, evaluate(m, node.test, frame))
        if decided is None:
            fork(
                m, frame, [node.body, []], Condition(depends | of(Kind.UNKNOWN), m.site(frame, node, "guard"))
            )
            return
        if not decided:
            return
        try:
            run(m, node.body, frame)
        except Leave as leave:
            if leave.how == "return":
                raise
            if leave.how == "break":
                return


def _with(m: Machine, node: ast.With | ast.AsyncWith, frame: Frame) -> None:
    from tools.viability.calls import call_method, has_method

    for item in node.items:
        manager = evaluate(m, item.context_expr, frame)
        value: Any = UNKNOWN
        if isinstance(bare(manager), Instance) and has_method(bare(manager), "__enter__"):
            value = call_method(m, bare(manager), "__enter__", [])
        if item.optional_vars is not None:
            assign(m, item.optional_vars, value, frame)
    run(m, node.body, frame)


def _try(m: Machine, node: ast.Try, frame: Frame) -> None:
    m.handlers.append((node, frame))
    try:
        run(m, node.body, frame)
    except Raised as error:
        m.handlers.pop()
        handler = next((h for h in node.handlers if catches(m, h, error.exception, frame)), None)
        if handler is None:
            run(m, node.finalbody, frame)
            raise
        if handler.name:
            frame.locals[handler.name] = error.exception
        guard = error.record.guard if error.record is not None else CLEAN
        with m.under(frame, Condition(Taint(guard.kinds), m.site(frame, handler, "guard"), direct=False)):
            frame.locals["<handled>"] = error
            run(m, handler.body, frame)
    except BaseException:
        m.handlers.pop()
        raise
    else:
        m.handlers.pop()
        run(m, node.orelse, frame)
    run(m, node.finalbody, frame)


def catches(m: Machine, handler: ast.ExceptHandler, exception: Any, frame: Frame) -> bool:
    if handler.type is None:
        return True
    wanted = bare(evaluate(m, handler.type, frame))
    value = bare(exception)
    cls = value.cls if isinstance(value, Instance) else value
    for kind in wanted if isinstance(wanted, tuple) else (wanted,):
        kind = bare(kind)
        if isinstance(kind, type) and isinstance(cls, type) and issubclass(cls, kind):
            return True
        if isinstance(cls, ClassValue):
            for base in cls.mro():
                if base is kind or (
                    isinstance(base, type) and isinstance(kind, type) and issubclass(base, kind)
                ):
                    return True
        if isinstance(cls, External) and (cls == kind or kind in (Exception, BaseException)):
            return True
        if isinstance(cls, Unknown) and kind in (Exception, BaseException):
            return True
    return False


# -- refusals ---------------------------------------------------------------------------------------


def _raise(m: Machine, node: ast.Raise, frame: Frame) -> None:
    if node.exc is None:
        handled = frame.locals.get("<handled>")
        if isinstance(handled, Raised):
            raise Raised(handled.exception, handled.record, handled.believed)
        raise m.refuse(m.site(frame, node, "raise"), UNKNOWN, frame=frame)
    message = ""
    exception: Any = UNKNOWN
    target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    exception = evaluate(m, target, frame)
    if isinstance(node.exc, ast.Call) and node.exc.args:
        text = bare(evaluate(m, node.exc.args[0], frame))
        message = text if isinstance(text, str) else getattr(text, "fact", None) or ""
    if isinstance(bare(exception), Function):  # a helper that builds the exception
        exception = evaluate(m, node.exc, frame)
    raise m.refuse(m.site(frame, node, "raise"), exception, frame=frame, message=message)


def _assert(m: Machine, node: ast.Assert, frame: Frame) -> None:
    value = evaluate(m, node.test, frame)
    decided, depends = truth(m, value)
    site = m.site(frame, node, "raise")
    if decided is None:
        _note_conditional(m, frame, node, bare(value), False, depends, site)
        return
    if depends.decisive:
        note_gate(m, site, depends, passed=decided)
    if decided or Kind.SOFT in depends.kinds:
        return
    text = bare(evaluate(m, node.msg, frame)) if node.msg else ""
    raise m.refuse(
        site,
        AssertionError,
        frame=frame,
        guard=depends.at(m.site(frame, node, "guard")),
        cause="assert",
        message=text if isinstance(text, str) else getattr(text, "fact", None) or "",
    )


# -- assignments ------------------------------------------------------------------------------------


def assign(m: Machine, target: ast.expr, value: Any, frame: Frame) -> None:
    from tools.viability.calls import set_attribute, set_item

    match target:
        case ast.Name(id=name):
            value = taint(value, frame.flow) if frame.flow.kinds else value
            if name in frame.globals_declared:
                m.globals[frame.module.name, name] = value
            elif name in frame.nonlocals:
                scope = frame.parent
                while scope is not None and name not in scope.locals:
                    scope = scope.parent
                (scope or frame).locals[name] = value
            else:
                frame.locals[name] = value
        case ast.Attribute(value=holder, attr=attr):
            set_attribute(m, evaluate(m, holder, frame), attr, taint(value, frame.flow))
        case ast.Subscript(value=holder, slice=index):
            set_item(m, evaluate(m, holder, frame), evaluate(m, index, frame), value)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            _unpack(m, elts, value, frame)
        case ast.Starred(value=inner):
            assign(m, inner, value, frame)


def _unpack(m: Machine, targets: list[ast.expr], value: Any, frame: Frame) -> None:
    from tools.viability.builtin import elements

    items, depends = elements(m, value)
    star = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
    if items is None or (star is None and len(items) != len(targets)) or len(items) < len(targets) - 1:
        inner = bare(value)
        runtime = isinstance(inner, Unknown) and inner.runtime
        for target in targets:
            # An operator that gives several things gives several tensors.
            blank = Tensor(dtype=UNKNOWN) if isinstance(inner, Tensor) else RUNTIME if runtime else UNKNOWN
            if isinstance(inner, Unknown) and inner.fact:
                blank = Unknown(fact=inner.fact, runtime=inner.runtime)
            assign(m, target, taint(blank, depends), frame)
        return
    if star is not None:
        tail = len(targets) - star - 1
        middle = items[star : len(items) - tail]
        items = [*items[:star], middle, *items[len(items) - tail :]]
    for target, item in zip(targets, items, strict=True):
        assign(m, target, taint(item, depends), frame)


def _assign(m: Machine, node: ast.Assign, frame: Frame) -> None:
    value = evaluate(m, node.value, frame)
    for target in node.targets:
        assign(m, target, value, frame)


def _annotated(m: Machine, node: ast.AnnAssign, frame: Frame) -> None:
    if node.value is not None:
        assign(m, node.target, evaluate(m, node.value, frame), frame)


def _augmented(m: Machine, node: ast.AugAssign, frame: Frame) -> None:
    read = ast.copy_location(_loading(node.target), node)
    assign(m, node.target, operate(node.op, evaluate(m, read, frame), evaluate(m, node.value, frame)), frame)


def _loading(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name(id=name):
            return ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=attr):
            return ast.copy_location(ast.Attribute(value, attr, ast.Load()), target)
        case ast.Subscript(value=value, slice=index):
            return ast.copy_location(ast.Subscript(value, index, ast.Load()), target)
    return target


def _delete(m: Machine, node: ast.Delete, frame: Frame) -> None:
    for target in node.targets:
        match target:
            case ast.Name(id=name):
                frame.locals.pop(name, None)
            case ast.Attribute(value=holder, attr=attr):
                owner = bare(evaluate(m, holder, frame))
                if isinstance(owner, (Instance, Open, Tensor)):
                    m.drop(owner.attrs, attr)


def _function(m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
    frame.locals[node.name] = define_function(m, node, frame)


def _class(m: Machine, node: ast.ClassDef, frame: Frame) -> None:
    frame.locals[node.name] = define_class(m, node, frame)


def _import(m: Machine, node: ast.Import, frame: Frame) -> None:
    for alias in node.names:
        _check_import(m, frame, node, alias.name)
        target = alias.name if alias.asname else alias.name.split(".")[0]
        frame.locals[alias.asname or target] = module_value(m, target)


def _import_from(m: Machine, node: ast.ImportFrom, frame: Frame) -> None:
    target = import_target(frame.module, node)
    _check_import(m, frame, node, target)
    for alias in node.names:
        value = import_name(m, frame.module, target, alias.name)
        if value is NOT_BOUND:
            raise m.refuse(
                m.site(frame, node, "raise"),
                ImportError,
                frame=frame,
                guard=of(Kind.DEPENDENCY),
                cause="import",
            )
        frame.locals[alias.asname or alias.name] = value


def _check_import(m: Machine, frame: Frame, node: ast.stmt, dotted: str) -> None:
    if m.world.exists(dotted) is False:
        raise m.refuse(
            m.site(frame, node, "raise"),
            ModuleNotFoundError,
            frame=frame,
            guard=of(Kind.DEPENDENCY),
            cause="import",
            message=dotted,
        )


def _expression(m: Machine, node: ast.Expr, frame: Frame) -> None:
    evaluate(m, node.value, frame)


def _return(m: Machine, node: ast.Return, frame: Frame) -> None:
    value = evaluate(m, node.value, frame) if node.value is not None else None
    if isinstance(node.value, ast.Constant) and type(node.value.value) is int:
        value = Tainted(value, Taint(frozenset(), (m.site(frame, node, "declared"),)))
    # That this value is returned, and not another, depends on every test passed so far.
    why = CLEAN
    for condition in m.conditions[frame.base :]:
        why = why | condition.taint
    kinds = why.kinds - {Kind.UNKNOWN, Kind.SOFT}
    own = m.conditions[frame.base :]
    if own and own[-1].direct and Kind.SOFT in own[-1].taint.kinds:
        kinds |= {Kind.SOFT}
    raise Leave("return", taint(value, Taint(kinds, why.sites)))


def _scope(m: Machine, node: ast.Global, frame: Frame) -> None:
    frame.globals_declared = frame.globals_declared | frozenset(node.names)


def _nonlocal(m: Machine, node: ast.Nonlocal, frame: Frame) -> None:
    frame.nonlocals = frame.nonlocals | frozenset(node.names)


def _break(m: Machine, node: ast.Break, frame: Frame) -> None:
    raise Leave("break")


def _continue(m: Machine, node: ast.Continue, frame: Frame) -> None:
    raise Leave("continue")


def _match(m: Machine, node: ast.Match, frame: Frame) -> None:
    bodies = [case.body for case in node.cases]
    subject = deep(evaluate(m, node.subject, frame))
    for case in node.cases:
        if isinstance(case.pattern, ast.MatchValue) and not isinstance(subject[0], Unknown):
            from tools.viability.evaluate import compare

            same = truth(
                m,
                compare(m, ast.Eq(), subject[0], evaluate(m, case.pattern.value, frame), frame, node.subject),
            )
            if same[0]:
                run(m, case.body, frame)
                return
            if same[0] is False:
                continue
        elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None:
            run(m, case.body, frame)
            return
        fork(m, frame, [*bodies, []], Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard")))
        return


# -- definitions and imports ------------------------------------------------------------------------


def define_function(
    m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame, owner: ClassValue | None = None
) -> Any:
    """A function with its decorators applied; a decorator that cannot be followed is left out."""
    from tools.viability.calls import call

    function = Function(node, frame.module, closure=frame if owner is None else owner.closure, owner=owner)
    value: Any = function
    for decorator in reversed(node.decorator_list):
        name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if name in ("property", "cached_property"):
            value = Descriptor("property", value)
            continue
        if name in ("setter", "deleter", "overload"):
            return NOT_BOUND
        if name == "staticmethod":
            value = Descriptor("static", value)
            continue
        if name == "classmethod":
            value = Descriptor("class", value)
            continue
        try:
            wrapped = call(m, evaluate(m, decorator, frame), [value], {}, frame, decorator)
        except Raised:
            continue
        if not isinstance(bare(wrapped), (Unknown, External)):
            value = wrapped
    return value


def define_class(m: Machine, node: ast.ClassDef, frame: Frame) -> Any:
    from tools.viability.calls import call

    bases = tuple(bare(evaluate(m, base, frame)) for base in node.bases if not isinstance(base, ast.Starred))
    closure = frame if frame.parent is not None or frame.function is not None else None
    cls = ClassValue(node.name, node, frame.module, bases, closure=closure)
    value: Any = cls
    for decorator in reversed(node.decorator_list):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name == "dataclass":
            cls.is_dataclass = True
            continue
        try:
            wrapped = call(m, evaluate(m, decorator, frame), [value], {}, frame, decorator)
        except Raised:
            continue
        if isinstance(bare(wrapped), ClassValue):
            value = wrapped
    return value


def import_target(module: Module, node: ast.ImportFrom) -> str:
    """The absolute dotted name that ``from … import`` refers to."""
    if not node.level:
        return node.module or ""
    base = module.package
    for _ in range(node.level - 1):
        base = base.rpartition(".")[0]
    return f"{base}.{node.module}" if node.module else base


def module_value(m: Machine, dotted: str) -> Any:
    module = m.world.module(dotted)
    if module is not None:
        return module
    return External(dotted) if m.world.exists(dotted) is None else UNKNOWN


def import_name(m: Machine, module: Module, target: str, name: str) -> Any:
    """``from target import name``; NOT_BOUND where that is known to fail."""
    exists = m.world.exists(target)
    if exists is None:
        return m.facts.external(f"{target}.{name}")
    if not exists:
        return NOT_BOUND
    source = m.world.module(target)
    if source is None:
        return UNKNOWN
    if source is not module or name in source.bindings:
        try:
            return m.global_name(source, name)
        except KeyError:
            pass
    child = m.world.module(f"{target}.{name}")
    if child is not None:
        return child
    if "__getattr__" in source.bindings:
        from tools.viability.calls import call

        return call(m, m.global_name(source, "__getattr__"), [name], {}, Frame(source, {}), source.tree)
    if m.world.locate(f"{target}.{name}"):
        return UNKNOWN  # there, but not readable
    return NOT_BOUND if not source.stars else UNKNOWN


def import_fails(m: Machine, module: Module, node: ast.Try) -> bool | None:
    """Whether a module-level ``try`` ends in its handler: one of its imports is known to fail.

    None where that depends on a package of which it is not known whether it is installed.
    """
    unsure = False
    for statement in ast.walk(ast.Module(node.body, [])):
        for dotted in _imported(module, statement):
            unsure = unsure or not (m.world.certain(dotted) or _deferred(node, statement))
        if isinstance(statement, ast.ImportFrom):
            target = import_target(module, statement)
            if m.world.exists(target) is False and not _deferred(node, statement):
                return True
            if m.world.exists(target) and not _deferred(node, statement):
                source = m.world.module(target)
                for alias in statement.names:
                    known = source is None or alias.name == "*" or alias.name in source.bindings
                    if not known and import_name(m, module, target, alias.name) is NOT_BOUND:
                        return True
        elif isinstance(statement, ast.Import):
            if any(m.world.exists(a.name) is False for a in statement.names) and not _deferred(
                node, statement
            ):
                return True
        elif isinstance(statement, ast.Raise) and statement in node.body:
            return True
    return None if unsure else False


def _imported(module: Module, statement: ast.AST) -> list[str]:
    if isinstance(statement, ast.ImportFrom):
        return [import_target(module, statement)]
    return [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []


def _deferred(node: ast.Try, statement: ast.stmt) -> bool:
    """An import inside a function, a nested ``try`` or an ``if`` does not decide about the outer ``try``."""
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.If)):
            if any(inner is statement for inner in ast.walk(part)):
                return True
    return False


def bind_global(m: Machine, module: Module, name: str, binding: Binding) -> Any:
    """Run one module-level statement for the sake of one name."""
    statement = binding.statement
    frame = Frame(module, _GlobalView(m, module))
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return define_function(m, statement, Frame(module, {}))
        case ast.ClassDef():
            return define_class(m, statement, Frame(module, {}))
        case ast.Import(names=names):
            alias = next(a for a in names if (a.asname or a.name.split(".")[0]) == name)
            target = alias.name if alias.asname else alias.name.split(".")[0]
            return NOT_BOUND if m.world.exists(alias.name) is False else module_value(m, target)
        case ast.ImportFrom(names=names):
            alias = next(a for a in names if (a.asname or a.name) == name)
            return import_name(m, module, import_target(module, statement), alias.name)
        case ast.Assign() | ast.AnnAssign() if not binding.mutates:
            holder = Frame(module, {})
            try:
                run(m, [statement], holder)
            except Raised:
                return UNKNOWN
            return holder.locals.get(name, UNKNOWN)
        case _:
            try:
                run(m, [statement], frame)
            except (Raised, Leave):
                return UNKNOWN
            return m.globals.get((module.name, name), NOT_BOUND)


class _GlobalView(dict[str, Any]):
    """Locals of a module-level block: names written become the module's globals."""

    def __init__(self, m: Machine, module: Module) -> None:
        super().__init__()
        self.m, self.module = m, module

    def __contains__(self, name: object) -> bool:
        return (self.module.name, name) in self.m.globals

    def __getitem__(self, name: str) -> Any:
        return self.m.globals[self.module.name, name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.m.globals[self.module.name, name] = value


HANDLERS: dict[type[ast.stmt], Callable[[Machine, Any, Frame], None]] = {
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Delete: _delete,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Global: _scope,
    ast.Nonlocal: _nonlocal,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Match: _match,
}
_ = Bound
