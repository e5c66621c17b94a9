"""Branches: those that the scenario decides, and those where every side has to be followed."""

from __future__ import annotations

import ast
from typing import Any

from tools.viability.interpreter.dispatch import Leave, evaluate, run, statement
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import UNDO_MISSING, Condition, Frame
from tools.viability.interpreter.refusals import note_conditional, note_gate
from tools.viability.interpreter.truth import truth
from tools.viability.interpreter.values import Kind, Raised, Taint, Unknown, bare, merge, of


def refuses(body: list[ast.stmt]) -> bool:
    """Whether a branch does nothing but refuse: its own last statement is a raise."""
    return bool(body) and isinstance(body[-1], ast.Raise)


def leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Raise, ast.Return, ast.Continue, ast.Break))


@statement(ast.If)
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


def _undecided(m: Machine, node: ast.If, frame: Frame, value: Any, depends: Taint, site: Any) -> None:
    """A test that the sources do not decide: a pure refusal is noted as a condition, else both sides run."""
    for body, other, holds in ((node.body, node.orelse, True), (node.orelse, node.body, False)):
        if refuses(body):
            note_conditional(m, frame, body[-1], value, holds, depends, site)
            run(m, other, frame)
            return
    soft = isinstance(value, Unknown) and value.runtime
    kinds = of(Kind.SOFT if soft else Kind.UNKNOWN) | depends
    fork(m, frame, [node.body, node.orelse], Condition(kinds, site))


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
            raise Leave("return", pop_pending(frame, exits))
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


def pop_pending(frame: Frame, since: int = 0) -> Any:
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
        holder, key, _ = written[0]
        values = [v for _, _, v in written if v is not UNDO_MISSING]
        if not values:
            continue
        if len(written) < count and key in holder:
            values.append(holder[key])
        joined = values[0]
        for other in values[1:]:
            joined = merge(joined, other)
        m.store(holder, key, joined)
