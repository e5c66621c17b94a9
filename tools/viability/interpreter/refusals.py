"""Refusals: ``raise`` and ``assert``, tests in front of them, and who catches what."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.compare import NEGATED
from tools.viability.interpreter.dispatch import evaluate, statement
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Frame, GateEvent, RaiseRecord
from tools.viability.interpreter.truth import truth
from tools.viability.interpreter.values import (
    UNKNOWN,
    ClassValue,
    External,
    Function,
    Instance,
    Kind,
    Raised,
    Site,
    Taint,
    Unknown,
    bare,
)


def note_gate(m: Machine, site: Any, depends: Taint, *, passed: bool) -> None:
    if not m.uncertain:
        m.gates.append(GateEvent(site, depends, passed))


def note_conditional(
    m: Machine, frame: Frame, statement: ast.stmt, value: Any, holds: bool, depends: Taint, site: Any
) -> None:
    test = value.test if isinstance(value, Unknown) else None
    if test is not None:
        if holds:
            test = (test[0], NEGATED[test[1]], test[2])
        record = RaiseRecord(
            m.site(frame, statement, "raise"), "", "", tuple(m.conditions), tuple(m.stack), depends.at(site)
        )
        m.conditional.append((record, Unknown(test[0], test)))


def note_doubted(m: Machine, frame: Frame, statement: ast.stmt, depends: Taint, site: Site) -> None:
    """Note that a value may be refused: what else is asked is not known, or an option that nobody set yet."""
    if Kind.OPTION in depends.kinds and isinstance(statement, ast.Raise):
        name = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        text = [*getattr(statement.exc, "args", ()), None][0]
        message = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
        record = RaiseRecord(
            m.site(frame, statement, "raise"),
            ast.unparse(name) if name is not None else "",
            message,
            tuple(m.conditions),
            tuple(m.stack),
            depends.at(site),
        )
        m.doubted.append(record)


def note_gift(
    m: Machine, frame: Frame, statement: ast.stmt, test: ast.expr, value: Any, depends: Taint
) -> None:
    """Note that a device's own way refuses something if it is given, where that is not known.

    ``statement`` is the refusal, ``test`` what was asked.
    """
    own = m.conditions[frame.base :]
    here = own and own[-1].direct and Kind.ARCH in own[-1].taint.kinds
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[_], comparators=[ast.Constant(value=None)]):
            # What data or nominal sizes tell is given by some requests, and not by others.
            open_ = isinstance(value, Unknown) and not value.soft and not value.ordinary
            if here and open_ and m.by_option and _as_it_came(frame.function, name):
                site = m.site(frame, statement, "raise")
                text = ast.unparse(test)
                m.gifts.append(RaiseRecord(site, "", text, tuple(m.conditions), tuple(m.stack), depends))


def _as_it_came(function: Any, name: str) -> bool:
    """Whether a function was given something by this name, and binds the name to nothing else."""
    spec = getattr(getattr(function, "node", None), "args", None)
    if spec is None or name not in {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}:
        return False
    parts = (part for part in ast.walk(function.node) if isinstance(part, ast.Name) and part.id == name)
    return not any(isinstance(part.ctx, ast.Store) for part in parts)


@statement(ast.Raise)
def _raise(m: Machine, node: ast.Raise, frame: Frame) -> None:
    if node.exc is None:
        handled = frame.locals.get("<handled>")
        if isinstance(handled, Raised):
            raise Raised(handled.exception, handled.record)
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


@statement(ast.Assert)
def _assert(m: Machine, node: ast.Assert, frame: Frame) -> None:
    value = evaluate(m, node.test, frame)
    decided, depends = truth(m, value)
    site = m.site(frame, node, "raise")
    if decided is None:
        note_conditional(m, frame, node, bare(value), False, depends, site)
        if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Is):
            note_gift(m, frame, node, node.test, bare(value), depends)
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


def justified(m: Machine, error: Raised) -> bool:
    """Whether a raise may travel on: the scenario justifies it, or somebody further out handles it."""
    if error.record is None or error.record.guard.decisive:
        return True
    # A catch-all is no witness: it would take the path of a failure that is only ours.
    return any(
        handler.type is not None
        and bare(evaluate(m, handler.type, frame)) not in (Exception, BaseException)
        and catches(m, handler, error.exception, frame)
        for node, frame in m.handlers
        for handler in node.handlers
    )
