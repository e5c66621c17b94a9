"""The four verbs of the interpreter, and who knows how.

``evaluate`` an expression, ``run`` statements, ``call`` a value, ``get_attribute`` of one: each looks up, by
the type of the node or the value, a function that some other module has registered here. So the modules,
which need each other's verbs all the time, do not import each other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar

from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Condition, Frame
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    ClassValue,
    Instance,
    Taint,
    Unknown,
    bare,
    strip,
    taint,
    taint_of,
    whichever,
)

Values = list[Any]
Keywords = dict[str, Any]
Expression = Callable[[Machine, Any, Frame], Any]
Statement = Callable[[Machine, Any, Frame], None]
Caller = Callable[[Machine, Any, Values, Keywords, Frame | None, Any], Any]
Reader = Callable[[Machine, Any, str, Frame | None, Any, Taint], Any]
Known = TypeVar("Known", bound=Callable[..., Any])

EXPRESSIONS: dict[type[ast.AST], Expression] = {}
STATEMENTS: dict[type[ast.AST], Statement] = {}
CALLERS: dict[type, Caller] = {}
READERS: dict[type, Reader] = {}


class Leave(Exception):  # noqa: N818 - control flow, not an error
    """``return``, ``break`` or ``continue`` of the interpreted program."""

    def __init__(self, how: str, value: Any = None) -> None:
        super().__init__(how)
        self.how = how
        self.value = value


def expression(*kinds: type[ast.AST]) -> Callable[[Known], Known]:
    """Register a handler for kinds of expression."""
    return _register(EXPRESSIONS, kinds)


def statement(*kinds: type[ast.AST]) -> Callable[[Known], Known]:
    """Register a handler for kinds of statement."""
    return _register(STATEMENTS, kinds)


def caller(*kinds: type) -> Callable[[Known], Known]:
    """Register how values of these types are called."""
    return _register(CALLERS, kinds)


def reader(*kinds: type) -> Callable[[Known], Known]:
    """Register how an attribute of values of these types is read; ``object`` is for all other types."""
    return _register(READERS, kinds)


def _register(table: dict[type, Any], kinds: tuple[type, ...]) -> Callable[[Known], Known]:
    def enter(function: Known) -> Known:
        for kind in kinds:
            table[kind] = function
        return function

    return enter


def evaluate(m: Machine, node: ast.expr, frame: Frame) -> Any:
    """The value of an expression; a kind that nobody knows is unknown."""
    m.steps += 1
    if m.steps > m.limit:
        m.give_up()
    handler = EXPRESSIONS.get(type(node))
    return handler(m, node, frame) if handler else UNKNOWN


def run(m: Machine, body: list[ast.stmt], frame: Frame) -> None:
    """Statements one after the other. Raises :class:`Leave` and :class:`Raised` as they do."""
    for part in body:
        m.steps += 1
        if m.steps > m.limit:
            m.give_up()
        handler = STATEMENTS.get(type(part))
        if handler is not None:
            handler(m, part, frame)


def call(m: Machine, function: Any, args: Values, kwargs: Keywords, frame: Frame | None, node: Any) -> Any:
    """Call any value; what cannot be followed gives Unknown."""
    f, t = strip(function)
    handler = CALLERS.get(type(f))
    if handler is None:
        return taint(UNKNOWN, taint_of(t.kinds))
    if t is CLEAN:
        return handler(m, f, args, kwargs, frame, node)
    if t.decisive and frame is not None and node is not None:
        # Which function this is was chosen by the scenario: that holds for all it does.
        with m.under(frame, Condition(taint_of(t.kinds), m.site(frame, node, "call"), direct=False)):
            value = handler(m, f, args, kwargs, frame, node)
    else:
        value = handler(m, f, args, kwargs, frame, node)
    if isinstance(bare(value), (bool, int, str)):
        t = whichever(f, t)
    return taint(value, taint_of(t.kinds))


def get_attribute(m: Machine, holder: Any, name: str, frame: Frame | None, node: Any) -> Any:
    """``holder.name``."""
    value, t = strip(holder)
    if t is not CLEAN and type(value) is Unknown:
        t = m.facts.told_by(name, t)
    return taint(read_attribute(m, value, name, frame, node, t), t)


def read_attribute(m: Machine, value: Any, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    """The same of a bare value whose taint is ``t``."""
    handler = READERS.get(type(value)) or READERS[object]
    return handler(m, value, name, frame, node, t)


def has_method(instance: Instance, name: str) -> bool:
    return any(isinstance(base, ClassValue) and name in base.index for base in instance.cls.mro())


def call_method(m: Machine, instance: Any, name: str, args: list[Any]) -> Any:
    frame = Frame(instance.cls.module, {}) if isinstance(instance, Instance) else None
    return call(m, get_attribute(m, instance, name, frame, None), args, {}, frame, None)
