"""Statements other than branches, refusals, assignments and definitions."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.assignments import assign
from tools.viability.interpreter.branches import fork, join_locals
from tools.viability.interpreter.compare import compare
from tools.viability.interpreter.dispatch import Leave, call_method, evaluate, has_method, run, statement
from tools.viability.interpreter.items import elements
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.names import import_name, import_target, module_value
from tools.viability.interpreter.records import NOT_BOUND, Condition, Frame
from tools.viability.interpreter.refusals import catches
from tools.viability.interpreter.truth import (
    deep,
    has_unknown,
    truth,
)
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    Instance,
    Kind,
    Raised,
    Taint,
    Tainted,
    Unknown,
    bare,
    of,
    taint,
)

LOOP_LIMIT, WHILE_LIMIT = 600, 64
"""Rounds that are followed. What comes after a loop that was cut short is not certain."""
LOOP_SHARE = 0.1
"""Of the steps of a run, what one loop may take: a search among many, whose end is no end of the way."""


@statement(ast.For, ast.AsyncFor)
def _for(m: Machine, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
    items, depends = elements(m, evaluate(m, node.iter, frame))
    if items is None:
        assign(m, node.target, UNKNOWN, frame)
        fork(m, frame, [node.body, []], depends, m.site(frame, node, "guard"))
        return
    outer, left, begun = frame.skipped, list[dict[str, Any]](), m.steps
    for item in items[:LOOP_LIMIT]:
        if m.steps - begun > m.limit * LOOP_SHARE:
            m.assume(frame, Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard")))
            break
        # An item of a literal list remembers the list.
        literal = tuple(site for site in depends.sites if site.role == "list")
        assign(m, node.target, taint(item, Taint(depends.kinds, literal)), frame)
        frame.skipped = False
        try:
            run(m, node.body, frame)
        except Leave as leave:
            if frame.skipped and leave.how == "return":
                # The round may have ended before: then the next one comes.
                frame.pending.append((leave.value, False))
            elif frame.skipped and leave.how == "break":
                left.append(dict(frame.locals))
            elif leave.how == "return":
                raise
            elif leave.how == "break":
                break
    else:
        if len(items) > LOOP_LIMIT:
            m.assume(frame, Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard")))
        run(m, node.orelse, frame)
    frame.skipped = outer
    if left:
        join_locals(frame, [*left, dict(frame.locals)], soft=False)


@statement(ast.While)
def _while(m: Machine, node: ast.While, frame: Frame) -> None:
    for _ in range(WHILE_LIMIT):
        decided, depends = truth(m, evaluate(m, node.test, frame))
        if decided is None:
            fork(m, frame, [node.body, []], depends, m.site(frame, node, "guard"))
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
    # Where it ends was not seen.
    m.assume(frame, Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard")))


@statement(ast.With, ast.AsyncWith)
def _with(m: Machine, node: ast.With | ast.AsyncWith, frame: Frame) -> None:
    managers: list[Any] = []
    for item in node.items:
        manager = evaluate(m, item.context_expr, frame)
        managers.append(bare(manager))
        value: Any = UNKNOWN
        if isinstance(bare(manager), Instance) and has_method(bare(manager), "__enter__"):
            value = call_method(m, bare(manager), "__enter__", [])
        if item.optional_vars is not None:
            assign(m, item.optional_vars, value, frame)
    try:
        run(m, node.body, frame)
    except Raised:
        if not any(_may_swallow(manager) for manager in managers):
            raise
        m.assume(frame, Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard")))


def _may_swallow(manager: Any) -> bool:
    """Whether a context manager may end an exception: one that is followed, or that is named for it."""
    if isinstance(manager, Instance):
        return has_method(manager, "__exit__")
    return isinstance(manager, list) or (isinstance(manager, Unknown) and "suppress" in (manager.fact or ""))


@statement(ast.Try)
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


@statement(ast.Match)
def _match(m: Machine, node: ast.Match, frame: Frame) -> None:
    bodies = [case.body for case in node.cases]
    subject = deep(evaluate(m, node.subject, frame))
    for case in node.cases:
        if isinstance(case.pattern, ast.MatchValue) and case.guard is None and not has_unknown(subject[0]):
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
        fork(m, frame, [*bodies, []], CLEAN, m.site(frame, node, "guard"))
        return


@statement(ast.Expr)
def _expression(m: Machine, node: ast.Expr, frame: Frame) -> None:
    evaluate(m, node.value, frame)


@statement(ast.Return)
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


@statement(ast.Break)
def _break(m: Machine, node: ast.Break, frame: Frame) -> None:
    raise Leave("break")


@statement(ast.Continue)
def _continue(m: Machine, node: ast.Continue, frame: Frame) -> None:
    raise Leave("continue")


@statement(ast.Global)
def _scope(m: Machine, node: ast.Global, frame: Frame) -> None:
    frame.globals_declared = frame.globals_declared | frozenset(node.names)


@statement(ast.Nonlocal)
def _nonlocal(m: Machine, node: ast.Nonlocal, frame: Frame) -> None:
    frame.nonlocals = frame.nonlocals | frozenset(node.names)


@statement(ast.Import)
def _import(m: Machine, node: ast.Import, frame: Frame) -> None:
    for alias in node.names:
        _check_import(m, frame, node, alias.name)
        target = alias.name if alias.asname else alias.name.split(".")[0]
        frame.locals[alias.asname or target] = module_value(m, target)


@statement(ast.ImportFrom)
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
                cause="name",
                message=f"cannot import name {alias.name!r} from {target!r}",
            )
        frame.locals[alias.asname or alias.name] = value


def _check_import(m: Machine, frame: Frame, node: ast.stmt, dotted: str) -> None:
    if not m.world.certain(dotted) and any(where is frame for _, where in m.handlers):
        # Whether it is installed is not known, and this function goes on either way.
        m.assume(frame, Condition(of(Kind.UNKNOWN), m.site(frame, node, "guard")))
    if m.world.exists(dotted) is False:
        raise m.refuse(
            m.site(frame, node, "raise"),
            ModuleNotFoundError,
            frame=frame,
            guard=of(Kind.DEPENDENCY),
            cause="import",
            message=dotted,
        )
