"""What a gate asks for, read off its own test: ``K % 8 != 0`` in front of a refusal needs ``K % 8 == 0``."""

from __future__ import annotations

import ast

from memory.vocabulary import Condition
from tools.source.tree import SourceTree
from tools.viability.interpreter.compare import COMPARE, NEGATED
from tools.viability.interpreter.records import RaiseRecord

_NAMES: dict[type[ast.cmpop], str] = {
    **{kind: name for kind, (name, _) in COMPARE.items()},
    ast.In: "in",
    ast.NotIn: "not in",
}
_SMALL = (bool, int, float, str, list, tuple)


def needed(refusal: RaiseRecord, tree: SourceTree) -> tuple[Condition, ...]:
    """The conditions under which the test in front of a refusal would let through, as far as it says so.

    Comparisons with a literal, or of two expressions, of which all must hold.
    """
    guard = next((site for site in reversed(refusal.guard.sites) if site.role == "guard"), refusal.site)
    text = "\n".join(tree.lines(guard.file)[guard.line - 1 : max(guard.end_line, guard.line)])
    test = _expression(text)
    if test is None:
        return ()
    asserted = refusal.cause == "assert"
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, _joined(asserted)) else [test]
    found = [_condition(part, asserted) for part in parts]
    return tuple(one for one in found if one is not None)


def _joined(asserted: bool) -> type[ast.boolop]:
    """What joins tests that each refuse alone: ``or`` before a raise, ``and`` in an assertion."""
    return ast.And if asserted else ast.Or


def _expression(text: str) -> ast.expr | None:
    """The test in lines of source that hold one: of an ``if``, an ``elif`` or an ``assert``, or alone."""
    line = text.strip().removeprefix("el")
    for source in (f"{line}\n    pass", line, f"({line})"):
        try:
            (statement,) = ast.parse(source).body
        except (SyntaxError, ValueError):
            continue
        if isinstance(statement, (ast.If, ast.Assert)):
            return statement.test
        if isinstance(statement, ast.Expr):
            return statement.value
    return None


def _condition(test: ast.expr, asserted: bool) -> Condition | None:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _NAMES:
        return None
    op = _NAMES[type(test.ops[0])]
    try:
        value = ast.literal_eval(test.comparators[0])
    except ValueError:
        value = ast.unparse(test.comparators[0])
    if not isinstance(value, _SMALL):
        return None
    return Condition.model_validate(
        {"fact": ast.unparse(test.left), "op": op if asserted else NEGATED[op], "value": value}
    )
