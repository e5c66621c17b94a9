"""The state of one abstract run: one option value, one architecture, one scenario.

A run keeps its own globals (never shared between architectures), the conditions that hold on the
current path, the calls in progress, and what it saw: raises, gates passed, library calls, option reads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tools.viability.modules import Binding, Guard, Module, World
from tools.viability.values import (
    CLEAN,
    DECISIVE,
    RUNTIME,
    UNKNOWN,
    External,
    Kind,
    Raised,
    Site,
    Taint,
    Unknown,
    bare,
    merge,
    taint,
)

STEP_LIMIT = 250_000
DEPTH_LIMIT = 70


class BudgetError(Exception):
    """The run took more steps than a cell may."""


@dataclass(slots=True)
class Condition:
    """A test on the current path: what it depended on and where it stands."""

    taint: Taint
    site: Site
    direct: bool = True
    """False for what was concluded from an earlier exit."""


@dataclass(slots=True)
class Frame:
    module: Module
    locals: dict[str, Any]
    parent: Frame | None = None
    function: Any = None
    owner: Any = None
    flow: Taint = CLEAN
    pending: list[Any] = field(default_factory=list)
    yields: list[Any] | None = None
    globals_declared: frozenset[str] = frozenset()
    nonlocals: frozenset[str] = frozenset()
    base: int = 0
    """Index into the machine's conditions where this frame's own begin."""


@dataclass(slots=True)
class RaiseRecord:
    """One raise: where, what, under which conditions, on which call path."""

    site: Site
    exception: str
    message: str
    conditions: tuple[Condition, ...]
    stack: tuple[Site, ...]
    guard: Taint
    cause: str = "raise"
    """``raise``, ``assert``, ``import``, ``lookup``: the kind of statement that refused."""

    @property
    def proven(self) -> bool:
        """The direct guard looks at a fact of the scenario, and nothing on the path is unknown."""
        return self.guard.decisive and Kind.SOFT not in self.guard.kinds and not any(Kind.UNKNOWN in c.taint.kinds for c in self.conditions)


@dataclass(slots=True)
class GateEvent:
    """A test with a refusal on one side, decided by the scenario: passed or failed."""

    site: Site
    taint: Taint
    passed: bool
    stack: tuple[Site, ...]


@dataclass(slots=True)
class Crossing:
    """A call that left the package it was made in, or the sources altogether."""

    name: str
    caller: str
    site: Site
    by_option: bool
    readable: bool
    certain: bool = True
    """Nothing on the path to the call was unknown."""
    told: tuple[str, ...] = ()
    """Arguments that carry the option's value, in whatever form it has by then."""


@dataclass
class Machine:
    """One run. ``evaluate``, ``execute`` and ``calls`` hold the semantics; this holds the state."""

    world: World
    facts: Any
    """The scenario: see :class:`tools.viability.library.Facts`."""
    limit: int = STEP_LIMIT
    steps: int = 0
    globals: dict[tuple[str, str], Any] = field(default_factory=dict)
    resolving: set[tuple[str, str]] = field(default_factory=set)
    conditions: list[Condition] = field(default_factory=list)
    stack: list[Site] = field(default_factory=list)
    handlers: list[Any] = field(default_factory=list)
    undo: list[list[tuple[Any, Any, Any]]] = field(default_factory=list)
    raises: list[RaiseRecord] = field(default_factory=list)
    conditional: list[tuple[RaiseRecord, Unknown]] = field(default_factory=list)
    gates: list[GateEvent] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)
    remote: list[Site] = field(default_factory=list)
    """Calls that fetch something from elsewhere when the engine runs."""
    consulted: list[Site] = field(default_factory=list)
    """Tests that depend on the option's value."""
    reads: list[Site] = field(default_factory=list)
    selections: list[Site] = field(default_factory=list)
    """Tests against the option's value that came out true."""
    misfits: list[str] = field(default_factory=list)
    """Raises that no fact justifies, interpreter limits: where the analyser does not fit."""
    held: dict[int, tuple[Any, Taint]] = field(default_factory=dict)
    """Taint of what was put into sets, which cannot hold tainted members."""
    active: dict[int, int] = field(default_factory=dict)
    """Calls in progress of each function, by its node's identity."""
    asking: set[tuple[int, str]] = field(default_factory=set)
    registered: set[Any] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    effects: set[str] = field(default_factory=set)

    # -- bookkeeping ------------------------------------------------------------------------------

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.limit:
            raise BudgetError(f"more than {self.limit} steps")

    def site(self, frame: Frame, node: ast.AST, role: str) -> Site:
        line = getattr(node, "lineno", 1)
        return Site(frame.module.file, line, role, getattr(node, "end_lineno", line) or line)

    @contextmanager
    def under(self, frame: Frame, condition: Condition) -> Iterator[None]:
        """The condition holds for what runs inside."""
        depth, flow = len(self.conditions), frame.flow
        self.conditions.append(condition)
        # What a nominal size chose is as good as chosen: only the size itself stays nominal.
        frame.flow = flow | Taint(condition.taint.kinds - {Kind.SOFT})
        try:
            yield
        finally:
            del self.conditions[depth:]
            frame.flow = flow

    def assume(self, frame: Frame, condition: Condition) -> None:
        """The condition holds for the rest of the frame (the other side left it)."""
        condition.direct = False
        self.conditions.append(condition)
        frame.flow = frame.flow | Taint(condition.taint.kinds - {Kind.SOFT})

    @property
    def by_option(self) -> bool:
        """Whether what runs now was chosen by the option's value."""
        return any(Kind.OPTION in c.taint.kinds for c in self.conditions)

    @property
    def uncertain(self) -> bool:
        return any(Kind.UNKNOWN in c.taint.kinds for c in self.conditions)

    def refuse(
        self,
        site: Site,
        exception: Any,
        *,
        frame: Frame,
        guard: Taint | None = None,
        cause: str = "raise",
        message: str = "",
    ) -> Raised:
        """A :class:`Raised` for the interpreted program, with the record of why it was raised."""
        if guard is None:
            # Only the nearest frame with conditions of its own can justify a raise: what lies further
            # out chose the way, not the refusal.
            own = self.conditions[frame.base :] or self.conditions
            guard = own[-1].taint.at(own[-1].site) if own else CLEAN
        record = RaiseRecord(
            site, describe(exception), message, tuple(self.conditions), tuple(self.stack), guard, cause
        )
        self.raises.append(record)
        return Raised(exception, record, record.proven)

    def store(self, holder: dict[str, Any], key: Any, value: Any) -> None:
        """Write into an object's attributes so that a branch that may not be taken can be undone."""
        if self.undo:
            self.undo[-1].append((holder, key, holder.get(key, UNDO_MISSING)))
        holder[key] = value

    def drop(self, holder: dict[str, Any], key: Any) -> None:
        if key in holder:
            if self.undo:
                self.undo[-1].append((holder, key, holder[key]))
            del holder[key]

    def hold(self, container: Any, added: Taint) -> None:
        before = self.held.get(id(container), (container, CLEAN))[1]
        self.held[id(container)] = (container, before | added)

    def held_by(self, container: Any) -> Taint:
        return self.held.get(id(container), (None, CLEAN))[1]

    # -- names of modules -------------------------------------------------------------------------

    def global_name(self, module: Module, name: str) -> Any:
        """Value of a module's global; raises ``KeyError`` where nothing binds it."""
        key = (module.name, name)
        if key in self.globals:
            return self.globals[key]
        if key in self.resolving:
            return UNKNOWN
        self.resolving.add(key)
        conditions, self.conditions = self.conditions, []
        handlers, self.handlers = self.handlers, []
        try:
            value = self._resolve(module, name)
        finally:
            self.resolving.discard(key)
            self.conditions, self.handlers = conditions, handlers
        self.globals.setdefault(key, value)
        return self.globals[key]

    def _resolve(self, module: Module, name: str) -> Any:
        from tools.viability.execute import bind_global

        found: list[Any] = []
        changes: list[Binding] = []
        for binding in reversed(module.bindings.get(name, [])):
            held, why = self._holds(module, binding.guards)
            if held is False:
                continue
            if binding.mutates:
                changes.append(binding)
                continue
            value = bind_global(self, module, name, binding)
            if value is NOT_BOUND:
                continue
            found.append(taint(value, why))
            if held:
                break
        if not found:
            found.extend(self._star(module, name))
        if not found:
            raise KeyError(name)
        value = found[0]
        for other in found[1:]:
            value = merge(value, other)
        value = self._singleton(module, name, value)
        self.globals[module.name, name] = value
        for change in reversed(changes):
            bind_global(self, module, name, change)
        return self.globals[module.name, name]

    def _star(self, module: Module, name: str) -> list[Any]:
        from tools.viability.execute import import_name, import_target

        for statement, guards in reversed(module.stars):
            if self._holds(module, guards)[0] is False:
                continue
            value = import_name(self, module, import_target(module, statement), name)
            if value is not NOT_BOUND and not (isinstance(bare(value), External)):
                return [value]
        return []

    def _holds(self, module: Module, guards: tuple[Guard, ...]) -> tuple[bool | None, Taint]:
        from tools.viability.evaluate import evaluate, truth
        from tools.viability.execute import import_fails

        why = CLEAN
        sure = True
        frame = Frame(module, {})
        for guard in guards:
            if guard.kind == "if":
                assert isinstance(guard.node, ast.expr)
                try:
                    decided, depends = truth(self, evaluate(self, guard.node, frame))
                except Raised:
                    decided, depends = None, CLEAN
                if decided is None:
                    sure = False
                elif decided is not guard.holds:
                    return False, CLEAN
                why = why | Taint(depends.kinds - {Kind.SOFT})
            else:
                assert isinstance(guard.node, ast.Try)
                fails = import_fails(self, module, guard.node)
                if fails is None:
                    sure = False
                elif fails is not (guard.kind == "except"):
                    return False, CLEAN
        return (True if sure else None), why

    def _singleton(self, module: Module, name: str, value: Any) -> Any:
        """A global that starts as ``None`` and is assigned by some function at start-up.

        If such a function reads the engine's options, it is run (that is how an option's value reaches
        the code); if it only fills the global on first use, the global is still ``None``; else it was
        set by something not followed: unknown, but not ``None``.
        """
        writers = module.global_writers.get(name, [])
        if bare(value) is not None or not writers:
            return value
        for writer in writers:
            if self.facts.reads_options(writer):
                return self.facts.initialise(self, module, name, writer)
        if all(_tests_for_none(writer, name) for writer in writers):
            return value
        return RUNTIME


def _tests_for_none(function: ast.FunctionDef, name: str) -> bool:
    for node in ast.walk(function):
        test = node.test if isinstance(node, (ast.If, ast.IfExp)) else None
        if test is not None and any(isinstance(p, ast.Name) and p.id == name for p in ast.walk(test)):
            return True
    return False


def describe(exception: Any) -> str:
    """The class name of an interpreted exception."""
    value = bare(exception)
    for candidate in (value, getattr(value, "cls", None)):
        name = getattr(candidate, "name", None) or getattr(candidate, "__name__", None)
        if isinstance(name, str):
            return name
    return value.path if isinstance(value, External) else type(value).__name__


class _Marker:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NOT_BOUND = _Marker("<not bound>")
UNDO_MISSING = _Marker("<missing>")
Evaluator = Callable[[Machine, Any, Frame], Any]
__all__ = [
    "DECISIVE",
    "NOT_BOUND",
    "UNDO_MISSING",
    "BudgetError",
    "Condition",
    "Crossing",
    "Frame",
    "GateEvent",
    "Machine",
    "RaiseRecord",
    "describe",
]
