"""A run: the stages that a cell goes through, each called as the engine would call it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.dispatch import call
from tools.viability.interpreter.machine import BudgetError, Machine
from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.records import Frame, RaiseRecord
from tools.viability.interpreter.values import UNKNOWN, Bound, Function, Raised, Site, bare
from tools.viability.layers import Layer

NOWHERE = Module("", "", ast.Module([], []), False)
"""Where the engine's own callers stand, who are not followed."""


@dataclass
class Passage:
    """One stage of a run: what was called and how it ended."""

    stage: str
    raised: RaiseRecord | None = None
    cut: str | None = None
    """Why what was called was not followed to its end: a raise that no fact of the scenario justifies."""


@dataclass
class Run:
    """Everything one run saw."""

    machine: Machine
    layer: Layer | None
    passages: list[Passage] = field(default_factory=list)
    problem: str | None = None
    """Why the run says nothing (a budget, a missing way in)."""
    chosen: str | None = None
    """The class that was built."""
    settled: dict[str, str] = field(default_factory=dict)
    """What start-up puts into options that nobody set."""
    doubts: list[RaiseRecord] = field(default_factory=list)
    """Refusals of start-up that look at the option's value, where not all starts come by."""
    puts: list[str] = field(default_factory=list)
    """What start-up puts in the place of the option's value, each once."""
    foreign: tuple[Site, str] | None = None
    """Where what was built needs a package for other hardware, and which."""

    looked_at: frozenset[str] = frozenset()
    """Options whose value the scenario gives that it looked at."""

    @property
    def refused(self) -> RaiseRecord | None:
        return next((p.raised for p in self.passages if p.raised is not None), None)

    @property
    def doubt(self) -> RaiseRecord | None:
        return self.doubts[0] if self.doubts else None

    @property
    def cut(self) -> str | None:
        """Why the way was not followed to its end, where it was not."""
        return next((p.cut for p in self.passages if p.cut is not None), None)

    @property
    def observed(self) -> bool:
        """Whether the layer's life depended on the option: a test looked at it, or it went into a call."""
        return bool(self.machine.consulted) or any(crossing.by_option for crossing in self.machine.crossings)


def attempt(
    m: Machine, result: Run, stage: str, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Call something as the engine would; a raise that comes all the way up ends the stage."""
    depth, misfits = len(m.conditions), len(m.misfits)
    frame = Frame(m.world.module(_module_of(function)) or NOWHERE, {})
    try:
        value = call(m, function, args, kwargs, frame, None)
    except Raised as error:
        if error.record is not None:
            error.record.message = whole(error.record.message)  # it is written down
        result.passages.append(Passage(stage, error.record))
        return UNKNOWN
    finally:
        del m.conditions[depth:]
        m.handlers.clear()
        m.stack.clear()
    own = f" from {_place_of(function)}"
    cut = next((text for text in m.misfits[misfits:] if text.endswith(own)), None)
    result.passages.append(Passage(stage, None, cut))
    return value


@contextmanager
def limited(result: Run) -> Iterator[None]:
    """Where a run takes more steps than it may, or more stack than there is, its result says why it says
    nothing. What only a run in progress needs is let go of."""
    try:
        yield
    except BudgetError as error:
        result.problem = str(error)
    except RecursionError:
        result.problem = "the interpreter ran out of stack"
    result.machine.rest()


def _place_of(function: Any) -> str:
    inner = bare(function)
    while isinstance(inner, Bound):
        inner = bare(inner.function)
    return f"{inner.module.file}:{inner.name}" if isinstance(inner, Function) else ""


def _module_of(function: Any) -> str:
    inner = bare(function)
    while isinstance(inner, Bound):
        inner = bare(inner.function)
    module = getattr(inner, "module", None)
    return module.name if module is not None else ""
