"""The state of an investigation, folded from its events and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.budget import Spent, renewed
from agent.calls import Calls, Results
from agent.conversation import OUTSIDE, Conversation
from memory.canonical import sha256_of
from memory.clock import hypothesis_id
from memory.vocabulary import HypothesisState
from transcripts.events import (
    Asked,
    Called,
    Concluded,
    Event,
    Found,
    HypothesisChanged,
    Noted,
    Opened,
    Resumed,
    Returned,
    Said,
    Steered,
    Understood,
)


@dataclass
class Board:
    """What is known so far. ``whole`` fetches the uncut output of a call from the artifacts, by sha256."""

    whole: Callable[[str], Any]
    opened: Opened | None = None
    driver: str = ""
    """Who decides now: who opened the investigation, or who resumed it last."""
    understood: Understood | None = None
    hypotheses: dict[str, HypothesisChanged] = field(default_factory=dict)
    """Id → its last change, in the order in which they were opened."""
    calls: Calls = field(default_factory=Calls)
    """What was asked of tools, and what came of it."""
    latest: str | None = None
    """The call that came to an end last; one that was interrupted did not."""
    findings: dict[str, int] = field(default_factory=dict)
    """Id → the event that recorded it first."""
    found_by: dict[str, str] = field(default_factory=dict)
    """Id of a finding → the call that gave it first."""
    concluded: Concluded | None = None
    events: int = 0
    unfinished: bool = False
    """The last event is a result: what it holds may not be on record yet."""
    artifacts: set[str] = field(default_factory=set)
    """Whole results that this transcript points to."""
    spent: Spent = field(default_factory=Spent)
    llm: dict[str, Any] = field(default_factory=dict)
    """The option ``llm``: which model decides, and what it may spend (:meth:`agent.budget.Budget.of`)."""
    conversation: Conversation = field(init=False)
    steered: list[Steered] = field(default_factory=list)
    """What a person asked for while it ran, in order."""
    untold: list[Steered] = field(default_factory=list)
    """Of that what no model was told yet."""
    stopping: bool = False
    """Whether a person asked that nothing more be done."""
    led: bool = False
    """Whether somebody other than the planner decides by now: a model that was told of it, or a client."""
    _noted: set[str] = field(default_factory=set)
    _made: dict[str, dict[str, None]] = field(default_factory=dict)
    """Tool → its calls that came to an end."""
    _laid: dict[str, str] = field(default_factory=dict)
    """Tool → its last call that went well while the planner decided."""
    _answered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Tool and input, as :func:`_asked` has them → the last calls of it that came to an end, two at most."""
    _tested: dict[tuple[str, str], str] = field(default_factory=dict)
    """Hypothesis and tool → the last such call that came to an end."""

    def __post_init__(self) -> None:
        self.conversation = Conversation(self.whole)

    def add(self, event: Event) -> None:
        """Fold one event more."""
        self.events = event.seq + 1
        self.spent.add(event)
        self.conversation.add(event)
        if not isinstance(event.data, Resumed | Returned):
            self.unfinished = False
        match event.data:
            case Opened(driver=driver):
                self.opened, self.driver = event.data, driver
                self.llm = dict(event.data.options.get("llm") or {})
            case Resumed(driver=driver, again=again, llm=llm):
                self.concluded, self.driver, self.stopping = None, driver, False
                self.llm = renewed(self.llm, llm)
                for name in again:
                    self._forget(name)
            case Understood():
                self.understood = event.data
            case HypothesisChanged(id=name):
                self.hypotheses[name] = event.data
            case Called(why=why):
                self.calls.ask(event.data)
                self.led |= why == OUTSIDE
            case Returned(call=name):
                self._return(name, event.data, event)
            case Found(finding=finding):
                self.findings.setdefault(finding.id, event.seq)
                self.found_by.setdefault(finding.id, self.latest or "")
            case Noted(text=text):
                self._noted.add(sha256_of(text))
            case Steered(asks=asks):
                self.steered.append(event.data)
                self.untold.append(event.data)
                self.stopping |= asks == "stop"
            case Asked():
                self.untold.clear()
            case Concluded():
                self.concluded = event.data
            case Said():
                self.led = True
            case _:
                pass  # what was said to a model is a conversation

    def _return(self, name: str, returned: Returned, event: Event) -> None:
        self.calls.answer(returned, event.seq, event.hash)
        called = self.calls.get(name)
        if called is None or returned.status == "interrupted":
            return
        self.latest, self.unfinished = name, True
        if returned.artifact is not None:
            self.artifacts.add(returned.artifact)
        self._made.setdefault(called.tool, {})[name] = None
        if returned.status == "ok" and not self.led:
            self._laid[called.tool] = name
        key = _asked(called.tool, called.input)
        self._answered[key] = (*self._answered.get(key, ())[-1:], name)
        if called.hypothesis is not None:
            self._tested[called.hypothesis, called.tool] = name

    def _forget(self, name: str) -> None:
        """Count a call as not made: it is to be made again."""
        called = self.calls.get(name)
        if called is not None:
            self._made.get(called.tool, {}).pop(name, None)
            self._answered.pop(_asked(called.tool, called.input), None)
            self._tested.pop((called.hypothesis or "", called.tool), None)

    @property
    def unanswered(self) -> list[str]:
        """Calls that were made and have not returned, in order."""
        return self.calls.open

    def heeded(self) -> set[str]:
        """Messages of a person that are on record."""
        return {one.message for one in self.steered}

    def skips(self, component: str, backend: str) -> bool:
        """Whether a person asked, after all else that they asked of it, to leave a backend alone."""
        return self._asked_of(component, backend) == "skip"

    def prefers(self, component: str, backend: str) -> bool:
        """Whether a person asked to test a backend before others."""
        return self._asked_of(component, backend) == "prefer"

    def _asked_of(self, component: str, backend: str) -> str | None:
        about = (one for one in reversed(self.steered) if one.component == component)
        return next((one.asks for one in about if one.backend in {None, backend}), None)

    def noted(self, text: str) -> bool:
        """Whether this was noted."""
        return sha256_of(text) in self._noted

    def results(self, tool: str) -> Results:
        """Every call of ``tool`` that came to an end, in order. One that was interrupted did not."""
        return Results(tuple(self._made.get(tool, ())), self._ended)

    def _ended(self, name: str) -> tuple[Called, Returned]:
        returned = self.calls.result(name)
        assert returned is not None, "only calls that came to an end are looked up"
        return self.calls[name], returned

    def subject_of(self, given: Mapping[str, Any]) -> str | None:
        """The hypothesis that a call with this input is about, if it is on the board."""
        name = hypothesis_id(*(str(given.get(key)) for key in ("component", "backend", "arch")))
        return name if name in self.hypotheses else None

    def answered(self, tool: str, given: Mapping[str, Any]) -> bool:
        """Whether ``tool`` was called with this input and came to an end."""
        return _asked(tool, given) in self._answered

    def alike(self, tool: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The last two calls of ``tool`` with this input, where both gave the same result."""
        calls = self._answered.get(_asked(tool, given), ())
        results = [self._ended(name)[1].model_copy(update={"call": ""}) for name in calls]
        return calls if len(calls) == 2 and results[0] == results[1] else ()

    def tested(self, hypothesis: str, tool: str) -> str | None:
        """The last call of ``tool`` for a hypothesis that came to an end."""
        return self._tested.get((hypothesis, tool))

    def output(self, call: str) -> Any:
        """The whole output of a call that went well, else None."""
        returned = self.calls.result(call)
        if returned is None or returned.status != "ok":
            return None
        return self.whole(returned.artifact) if returned.artifact else returned.output

    def output_of(self, tool: str) -> Any:
        """The output of the last call of ``tool`` that went well, else None. What others asked for since they
        decide does not count: it may be about something else."""
        name = self._laid.get(tool)
        return None if name is None else self.output(name)

    def in_state(self, *states: HypothesisState) -> list[HypothesisChanged]:
        return [one for one in self.hypotheses.values() if one.state in states]


def steering(steered: Steered) -> str:
    """What a person asked for, in words."""
    return " ".join(filter(None, (steered.asks, steered.component, steered.backend)))


def _asked(tool: str, given: Mapping[str, Any]) -> str:
    return f"{tool} {sha256_of(given)[:32]}"


def fold(events: Iterable[Event], whole: Callable[[str], Any]) -> Board:
    """The board after ``events``."""
    board = Board(whole)
    for event in events:
        board.add(event)
    return board
