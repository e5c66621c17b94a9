"""Branches: those that the scenario decides, and those where every side has to be followed."""

from __future__ import annotations

import ast
import copy
import operator
from dataclasses import replace
from typing import Any

from tools.viability.interpreter.asked import plain_type
from tools.viability.interpreter.dispatch import Leave, evaluate, run, statement
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import CONTENT, UNDO_MISSING, Choice, Condition, Frame
from tools.viability.interpreter.refusals import note_conditional, note_doubted, note_gate, note_gift
from tools.viability.interpreter.truth import truth
from tools.viability.interpreter.values import (
    Kind,
    Raised,
    Site,
    Taint,
    Tensor,
    Union,
    Unknown,
    bare,
    merge,
    of,
    soften,
    strip,
    taint,
    usually,
)


def refuses(body: list[ast.stmt]) -> bool:
    """Whether a branch does nothing but refuse: plain statements, and a raise at the end."""
    plain = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.Pass)
    return bool(body) and isinstance(body[-1], ast.Raise) and all(isinstance(s, plain) for s in body[:-1])


def turns_down(body: list[ast.stmt]) -> bool:
    """Whether a branch does nothing but give a reason against: a text returned, or put into a list."""
    match body:
        case [ast.Return(value=ast.Constant(value=str()) | ast.JoinedStr())]:
            return True
        case [ast.Return(value=ast.Tuple(elts=[ast.Constant(value=False), *_]))]:
            return True
        case [
            ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(attr="append"), args=[ast.Constant(value=str()) | ast.JoinedStr()]
                )
            )
        ]:
            return True
    return False


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
    if decided and not depends.kinds and refuses(taken) and _tells_given(m, node.test, frame):
        depends = m.around(frame)
    if Kind.SOFT in depends.kinds and (refuses(taken) or turns_down(taken)):
        note_doubted(m, frame, taken[-1], depends, site)
        taken, other = other, taken  # a nominal size never refuses, nor gives a reason to
    elif depends.decisive and (refuses(node.body) or refuses(node.orelse)):
        note_gate(m, site, depends, passed=not refuses(taken))
    condition = Condition(depends, site)
    if taken:
        depth = len(m.conditions) + 1
        with m.under(frame, condition):
            run(m, taken, frame)
            concluded = m.conditions[depth:]
        for one in concluded:  # from exits of the branch that is taken: what follows it follows them too
            m.assume(frame, one)
    if other and leaves(other):
        m.assume(frame, Condition(depends, site))


def _tells_given(m: Machine, test: ast.expr, frame: Frame) -> bool:
    """Whether a test asks only that something is there, and it certainly is.

    What is given is so in every scenario: where that is refused, the test around it decides.
    """
    match test:
        case ast.Compare(left=ast.Name() as name, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return not isinstance(bare(evaluate(m, name, frame)), Unknown)
    return False


def _undecided(m: Machine, node: ast.If, frame: Frame, value: Any, depends: Taint, site: Any) -> None:
    """A test that the sources do not decide: a pure refusal is noted as a condition, else both sides run."""
    for body, other, holds in ((node.body, node.orelse, True), (node.orelse, node.body, False)):
        if refuses(body):
            note_conditional(m, frame, body[-1], value, holds, depends, site)
            note_doubted(m, frame, body[-1], depends, site)
            if holds and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.IsNot):
                note_gift(m, frame, body[-1], node.test, value, depends)
            run(m, other, frame)
            return
    usual = (False, False)
    if isinstance(value, Tensor) or (isinstance(value, Unknown) and value.soft):
        usual = (True, True)
    elif usually(value):
        usual = (bool(usually(value)[0]), not usually(value)[0])
    fork(m, frame, [node.body, node.orelse], depends, site, usual)


def fork(
    m: Machine,
    frame: Frame,
    bodies: list[list[ast.stmt]],
    depends: Taint,
    site: Site,
    usual: tuple[bool, bool] = (False, False),
) -> None:
    """Run every side from the same start, and join what they leave behind.

    ``usual`` says of each of two sides whether some request leads there, whatever else is not known.
    """
    start = frame.locals
    soft = Condition(of(Kind.SOFT) | depends, site, open=True)
    hard = Condition(of(Kind.UNKNOWN) | depends, site, open=True)
    ends: list[dict[str, Any]] = []
    writes: list[list[tuple[Any, Any, Any]]] = []
    raised: list[Raised] = []
    exits, since = len(frame.pending), m.steps
    choice = Choice(m.doubts, [], free=usual == (True, True))
    left: Leave | None = None
    after: Condition | None = None
    for index, body in enumerate(bodies):
        certain, stays = (usual[index], usual[1 - index]) if len(bodies) == 2 else (False, False)
        frame.locals = dict(start)
        m.undo.append([])
        pending, stayed = len(frame.pending), True
        try:
            with m.way(choice), m.under(frame, soft if certain else hard):
                run(m, body, frame)
            ends.append(frame.locals)
        except Raised as error:
            raised.append(error)
        except Leave as leave:
            if leave.how == "return":
                frame.pending.append((leave.value, certain))
            else:
                left, stayed = leave, False
                ends.append(frame.locals)
        finally:
            writes.append(_roll_back(m))
            if not certain:
                frame.pending[pending:] = [(value, False) for value, _ in frame.pending[pending:]]
        if not stayed or len(frame.pending) > pending:
            after = hard if after is hard or not stays else soft
    m.note(choice)
    _join_writes(m, writes, len(bodies), since)
    frame.locals = start
    if raised and raised[-1].record is not None and (ends or len(frame.pending) > exits):
        m.avoided.append(raised[-1].record)
    if not ends:
        if len(frame.pending) > exits:
            raise Leave("return", pop_pending(frame, exits))
        raise without(m, raised, (soft, hard))
    join_locals(frame, ends, all(usual))
    if left is not None and len(ends) == 1:
        raise left
    if left is not None and left.how == "continue":
        frame.skipped = True
    if after is not None:
        # Whatever follows runs only if no side returned or left the loop.
        m.assume(frame, after)


def without(m: Machine, raised: list[Raised], doubts: tuple[Condition, ...]) -> Raised:
    """The raise in which every side of a choice ends: where each is proven but for what is not known of the
    choice and before it, which side is taken does not matter."""
    last, before = raised[-1], {id(condition) for condition in (*m.conditions, *doubts)}
    for error in raised:
        if error.record is None:
            return last
        own = tuple(condition for condition in error.record.conditions if id(condition) not in before)
        if not replace(error.record, conditions=own).proven:
            return last
    assert last.record is not None
    apart = {id(doubt) for doubt in doubts}
    conditions = tuple(one for one in last.record.conditions if id(one) not in apart)
    last.record = replace(last.record, conditions=conditions)
    return last


def pop_pending(frame: Frame, since: int = 0, *last: Any) -> Any:
    """The join of the values returned on sides that may have been taken, and of the ``last`` one."""
    ends = frame.pending[since:]
    del frame.pending[since:]
    value, soft = ends[0]
    for other, also in [*ends[1:], *((end, True) for end in last)]:
        value = join(value, other, soft)
        soft = soft and also
    usual = _ordinary(ends)
    inner, depends = strip(value)
    if usual and isinstance(inner, (Unknown, Union)):
        return taint(replace(inner, ordinary=usual), depends)
    return value


def _ordinary(ends: list[tuple[Any, bool]]) -> tuple[Any, ...]:
    """The value that the first end which data alone leads to returns, if no earlier end returns another."""
    first = bare(ends[0][0])
    if not isinstance(first, (bool, int, str, type(None))):
        return ()
    for value, certain in ends:
        here = bare(value)
        if plain_type(here) is not plain_type(first) or here != first:
            return ()
        if certain:
            return (first,)
    return ()


def join(first: Any, second: Any, soft: bool) -> Any:
    """What two sides leave: data alone decided between them if ``soft``."""
    if first is second:
        return first
    value = merge(first, second)
    return soften(value) if soft else value


def join_locals(frame: Frame, ends: list[dict[str, Any]], soft: bool) -> None:
    """Give a frame what its ways leave in its variables."""
    joined = dict(ends[0])
    for end in ends[1:]:
        for name, value in end.items():
            held = joined.setdefault(name, value)
            if held is not value:
                joined[name] = join(held, value, soft)
    frame.locals.clear()
    frame.locals.update(joined)


def _roll_back(m: Machine) -> list[tuple[Any, Any, Any]]:
    """Undo the writes of a side; return what it had written, last value per place."""
    log = m.undo.pop()
    final: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
    for holder, key, _ in log:
        now = copy.copy(holder) if key is CONTENT else holder.get(key, UNDO_MISSING)
        final[id(holder), key] = (holder, key, now)
    for holder, key, before in reversed(log):
        if key is CONTENT:
            refill(holder, before)
        elif before is UNDO_MISSING:
            holder.pop(key, None)
        else:
            holder[key] = before
    return list(final.values())


def refill(container: Any, content: Any) -> None:
    """Give a list, set or dict this content, in place."""
    container.clear()
    container.extend(content) if isinstance(container, list) else container.update(content)


def _doubt(m: Machine, container: Any, before: list[Any], sides: list[list[Any]]) -> None:
    """The sides of a test leave a container otherwise: it is not known, but for notes of decisions, of which
    those may have been made that some side added."""
    added = [one for side in sides for one in side[len(before) :]]
    grown = all(len(side) >= len(before) and all(map(operator.is_, side, before)) for side in sides)
    if id(container) not in m.notes or not grown:
        m.lose(container)
        return
    refill(container, before + added)
    for one in added:
        for part in one if isinstance(one, tuple) else (one,):
            if isinstance(bare(part), dict):
                m.maybe[id(bare(part))] = bare(part)


def _join_writes(m: Machine, sides: list[list[tuple[Any, Any, Any]]], count: int, since: int) -> None:
    seen: dict[tuple[int, Any], list[tuple[Any, Any, Any]]] = {}
    for side in sides:
        for holder, key, value in side:
            seen.setdefault((id(holder), key), []).append((holder, key, value))
    for written in seen.values():
        holder, key, value = written[0]
        if key is CONTENT:
            before = list(holder)
            m.changing(holder)
            refill(holder, value)
            new = m.born.get(id(holder), (None, -1))[1] >= since
            if not new and (len(written) < count or any(list(o) != list(value) for _, _, o in written[1:])):
                _doubt(m, holder, before, [list(content) for _, _, content in written])
            continue
        values = [v for _, _, v in written if v is not UNDO_MISSING]
        if not values:
            continue
        if len(written) < count and key in holder:
            values.append(holder[key])
        joined = values[0]
        for other in values[1:]:
            joined = merge(joined, other)
        m.store(holder, key, joined)
