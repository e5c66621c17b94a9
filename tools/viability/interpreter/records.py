"""What one run is made of and what it notes down: frames, conditions, raises, gates, calls that leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tools.viability.interpreter.modules import Module
from tools.viability.interpreter.values import CLEAN, Kind, Site, Taint


@dataclass(slots=True)
class Condition:
    """A test on the current path: what it depended on and where it stands."""

    taint: Taint
    site: Site
    direct: bool = True
    """False for what was concluded from an earlier exit."""
    open: bool = False
    """The other side is followed too: which is taken is not known, or each request decides."""


@dataclass(slots=True)
class Frame:
    module: Module
    locals: dict[str, Any]
    parent: Frame | None = None
    function: Any = None
    owner: Any = None
    flow: Taint = CLEAN
    pending: list[tuple[Any, bool]] = field(default_factory=list)
    """Values returned on sides that may have been taken, and whether only the data decides."""
    skipped: bool = False
    """The round of a loop in progress may have been left for the next one."""
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
    """``raise``, ``assert``, ``import`` (of a module), ``name`` (out of one), ``lookup``: what refused."""

    @property
    def proven(self) -> bool:
        """The direct guard looks at a fact of the scenario, and nothing on the path is unknown."""
        return (
            self.guard.decisive
            and Kind.SOFT not in self.guard.kinds
            and not any(Kind.UNKNOWN in c.taint.kinds for c in self.conditions)
        )


@dataclass(slots=True)
class GateEvent:
    """A test with a refusal on one side, decided by the scenario: passed or failed."""

    site: Site
    taint: Taint
    passed: bool


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
    doubts: int = 0
    """Tests on the path to the call whose outcome is not known."""
    told: tuple[str, ...] = ()
    """Arguments that carry the option's value, in whatever form it has by then."""
    works: bool = True
    """It is handed what may be data, and did not end in a raise: a question or set-up runs no kernel."""
    fed: bool = True
    """It is handed what certainly is data."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A call that fetches something from elsewhere when the engine runs."""

    site: Site
    names: tuple[str, ...]
    """Texts at hand there: one may be the name of what is fetched."""
    doubts: int
    """Tests on the path to the file that fetches whose outcome is not known."""
    place: int = 0
    """How many calls had left their package by then."""
    stack: tuple[Site, ...] = ()
    targets: tuple[str, ...] = ()
    """Compiler targets that alone are kept of it, where a list of them is applied to it."""
    sieve: Site | None = None
    """Where that list stands."""


@dataclass(slots=True)
class Choice:
    """One way of several is taken, and it is not known which.

    ``doubts`` as of a crossing, before the choice. ``sides``: for each way the crossings and the choices made
    on it, as places in the machine's lists.
    """

    doubts: int
    sides: list[tuple[range, range]]
    free: bool = False
    """Data alone decides: every way is taken by some request."""


class _Marker:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NOT_BOUND = _Marker("<not bound>")


UNDO_MISSING = _Marker("<missing>")
CONTENT = _Marker("<content>")
