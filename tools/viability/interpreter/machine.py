"""The state of one abstract run: one option value, one architecture, one scenario.

A run keeps its own globals (never shared between architectures), the conditions that hold on the
current path, the calls in progress, and what it saw: raises, gates passed, library calls, tests of the
option. It knows no semantics: those are in the modules beside this one.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from tools.viability.interpreter.asked import Word, whole
from tools.viability.interpreter.modules import World
from tools.viability.interpreter.records import (
    CONTENT,
    UNDO_MISSING,
    Choice,
    Condition,
    Crossing,
    Fetch,
    Frame,
    GateEvent,
    RaiseRecord,
)
from tools.viability.interpreter.values import (
    CLEAN,
    UNKNOWN,
    External,
    Kind,
    Raised,
    Site,
    Taint,
    Union,
    Unknown,
    bare,
    strip,
)

if TYPE_CHECKING:
    from tools.viability.interpreter.scenario import Scenario

STEP_LIMIT = 250_000


DEPTH_LIMIT = 70


class BudgetError(Exception):
    """The run took more steps than a cell may."""


class Under:
    """A condition that holds for a while, in a frame.

    This and its kin are entered all the time: as generators they would take five times as long.
    """

    __slots__ = ("condition", "depth", "flow", "frame", "m")

    def __init__(self, m: Machine, frame: Frame, condition: Condition) -> None:
        self.m, self.frame, self.condition = m, frame, condition

    def __enter__(self) -> None:
        self.depth, self.flow = len(self.m.conditions), self.frame.flow
        self.m.conditions.append(self.condition)
        self.frame.flow = self.flow | self.condition.taint.chosen

    def __exit__(self, *_: object) -> None:
        del self.m.conditions[self.depth :]
        self.frame.flow = self.flow


class Way:
    """One side of a choice, while it is followed."""

    __slots__ = ("choice", "choices", "crossings", "m")

    def __init__(self, m: Machine, choice: Choice) -> None:
        self.m, self.choice = m, choice

    def __enter__(self) -> None:
        self.crossings, self.choices = len(self.m.crossings), len(self.m.choices)

    def __exit__(self, *_: object) -> None:
        self.choice.sides.append(
            (range(self.crossings, len(self.m.crossings)), range(self.choices, len(self.m.choices)))
        )


class Apart:
    """A while without the path in progress."""

    __slots__ = ("before", "m")

    def __init__(self, m: Machine) -> None:
        self.m = m

    def __enter__(self) -> None:
        m = self.m
        self.before = m.conditions, m.handlers, m.undo
        m.conditions, m.handlers, m.undo = [], [], []

    def __exit__(self, *_: object) -> None:
        self.m.conditions, self.m.handlers, self.m.undo = self.before


@dataclass
class Machine:
    world: World
    facts: Scenario
    limit: int = STEP_LIMIT
    steps: int = 0
    globals: dict[tuple[str, str], Any] = field(default_factory=dict)
    resolving: set[tuple[str, str]] = field(default_factory=set)
    conditions: list[Condition] = field(default_factory=list)
    stack: list[Site] = field(default_factory=list)
    handlers: list[Any] = field(default_factory=list)
    undo: list[list[tuple[Any, Any, Any]]] = field(default_factory=list)
    conditional: list[tuple[RaiseRecord, Unknown]] = field(default_factory=list)
    avoided: list[RaiseRecord] = field(default_factory=list)
    """Raises on one side of a test that is not decided, where another side goes on."""
    doubted: list[RaiseRecord] = field(default_factory=list)
    """Refusals of the option's value that other things decide as well, which are not known or not set yet."""
    gifts: list[RaiseRecord] = field(default_factory=list)
    """Refusals of something if it is given, on a device's own way, where that is not known."""
    gates: list[GateEvent] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    fetches: list[Fetch] = field(default_factory=list)
    consulted: list[Site] = field(default_factory=list)
    """Tests that depend on the option's value."""
    selections: list[Site] = field(default_factory=list)
    """Tests against the option's value that came out true."""
    matched: set[str] = field(default_factory=set)
    """Names that something was found to be, one by one; members of enumerations by their values."""
    misfits: list[str] = field(default_factory=list)
    """Raises that no fact justifies, interpreter limits: where the analyser does not fit."""
    born: dict[int, tuple[Any, int, tuple[Condition, ...], int]] = field(default_factory=dict)
    """Containers, the step at which they came into being and the conditions then, by identity."""
    iterated: dict[int, Any] = field(default_factory=dict)
    """Containers that an iterator has taken from, by identity."""
    reasons: dict[int, tuple[Any, dict[Any, Taint]]] = field(default_factory=dict)
    """Texts that were put into lists, each with the tests that led there, by the list's identity."""
    lost: dict[int, Any] = field(default_factory=dict)
    """Containers whose content is not known any more, by identity."""
    notes: dict[int, list[Any]] = field(default_factory=dict)
    """Lists to which start-up only adds what it decides, by identity."""
    maybe: dict[int, dict[Any, Any]] = field(default_factory=dict)
    """What was noted down there on a way that may not be taken, by identity."""
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
            self.give_up()

    def give_up(self) -> NoReturn:
        raise BudgetError(f"more than {self.limit} steps")

    def rest(self) -> None:
        """Let go of what only a run in progress needs: values, and all that hangs on them."""
        kept = (
            self.globals,
            self.born,
            self.iterated,
            self.reasons,
            self.lost,
            self.notes,
            self.maybe,
            self.held,
        )
        for values in kept:
            values.clear()
        for noted in (self.asking, self.registered, self.touched, self.effects):
            noted.clear()
        self.conditional = [(record, self._noted(unknown)) for record, unknown in self.conditional]

    def _noted(self, unknown: Unknown) -> Unknown:
        """An open condition that is written down: of a package's facts with what they are compared with."""
        fact, op, value = unknown.test or ("", "", None)
        if type(fact) is not str:
            return UNKNOWN  # a text, and no package's fact
        package = fact.split(".", 1)[0].split("(", 1)[0]
        return Unknown(fact, (fact, op, whole(value) if package in self.facts.kernel_packages else None))

    def site(self, frame: Frame, node: ast.AST, role: str) -> Site:
        line = getattr(node, "lineno", 1)
        place = (line, getattr(node, "end_lineno", line) or line, role)
        sites = frame.module.sites
        if place not in sites:
            sites[place] = Site(frame.module.file, line, role, place[1])
        return sites[place]

    def under(self, frame: Frame, condition: Condition) -> Under:
        """The condition holds for what runs inside."""
        return Under(self, frame, condition)

    def assume(self, frame: Frame, condition: Condition) -> None:
        """The condition holds for the rest of the frame (the other side left it)."""
        condition.direct = False
        self.conditions.append(condition)
        frame.flow = frame.flow | condition.taint.chosen

    def around(self, frame: Frame) -> Taint:
        """What the test depends on in whose branch the frame is."""
        own = self.conditions[frame.base :]
        return own[-1].taint if own and own[-1].direct else CLEAN

    @property
    def by_option(self) -> bool:
        """Whether what runs now was chosen by the option's value."""
        return any(Kind.OPTION in c.taint.kinds for c in self.conditions)

    @property
    def uncertain(self) -> bool:
        return any(Kind.UNKNOWN in c.taint.kinds for c in self.conditions)

    @property
    def doubts(self) -> int:
        """How many tests on the path have an outcome that is not known."""
        return sum(c.open or Kind.UNKNOWN in c.taint.kinds for c in self.conditions)

    def doubts_before(self, file: str) -> int:
        """The same without the tests that stand in ``file``."""
        own = [c for c in self.conditions if c.site.file != file]
        return sum(c.open or Kind.UNKNOWN in c.taint.kinds for c in own)

    def way(self, choice: Choice) -> Way:
        """What is called inside belongs to one side of the choice."""
        return Way(self, choice)

    def note(self, choice: Choice) -> None:
        """A choice was followed to its end: remember it, if calls were made on more than one side of it."""
        called = sum(bool(crossings) for crossings, _ in choice.sides)
        if called >= min(len(choice.sides), 2):
            self.choices.append(choice)

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
        return Raised(exception, record)

    def store(self, holder: dict[Any, Any], key: Any, value: Any) -> None:
        """Write into an object's attributes so that a branch that may not be taken can be undone."""
        if self.undo:
            self.undo[-1].append((holder, key, holder.get(key, UNDO_MISSING)))
        holder[key] = value

    def apart(self) -> Apart:
        """Work that does not belong to the path in progress: no conditions, no handlers, nothing to undo."""
        return Apart(self)

    def made(self, container: Any) -> Any:
        """Note when a list, set or dict came into being, and return it."""
        self.born[id(container)] = (container, self.steps, tuple(self.conditions[-1:]), len(self.conditions))
        return container

    def note_reason(self, container: Any, item: Any) -> None:
        """A text goes into a list: remember which tests, passed since the list is there, led here."""
        value, why = strip(item)
        _, _, last, since = self.born.get(id(container), (None, 0, (), 0))
        if self.conditions[max(since - 1, 0) : since] != list(last):
            since = 0  # it came into being on a way that has been left again: all of this one counts
        for condition in self.conditions[since:]:
            why = why | condition.taint.at(condition.site)
        reasons = self.reasons.setdefault(id(container), (container, {}))[1]
        if isinstance(value, (Unknown, Union)):
            text = isinstance(value, Union) and all(isinstance(one, str) for one in value.options)
            why = why if text else why | Taint(frozenset({Kind.UNKNOWN}))
            value, why = None, why | reasons.get(None, CLEAN)
            reasons[None] = why
        reasons.setdefault(_named(value), why)

    def reasons_of(self, container: Any) -> list[Taint]:
        """What put each entry into a list of texts; nothing if it was filled in another way."""
        noted = self.reasons.get(id(container), (None, {}))[1]
        found = [noted.get(_named(bare(item)) if isinstance(bare(item), str) else None) for item in container]
        return [why for why in found if why is not None] if None not in found else []

    def changing(self, container: Any) -> None:
        """A list, set or dict is about to change: remember it while a branch that may not be taken runs."""
        if self.undo:
            self.undo[-1].append((container, CONTENT, copy.copy(container)))

    def lose(self, container: Any) -> None:
        """Something unknown went into a container: from now on its content is not known."""
        self.lost[id(container)] = container

    def is_lost(self, container: Any) -> bool:
        return id(container) in self.lost

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


def _named(text: Any) -> Any:
    """A text by itself; one made of what the scenario holds by how it was made."""
    return text.how if type(text) is Word else text


def describe(exception: Any) -> str:
    """The class name of an interpreted exception."""
    value = bare(exception)
    if isinstance(value, type):
        return value.__name__
    for candidate in (value, getattr(value, "cls", None)):
        name = getattr(candidate, "name", None) or getattr(candidate, "__name__", None)
        if isinstance(name, str):
            return name
    return value.path if isinstance(value, External) else type(value).__name__
