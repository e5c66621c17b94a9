"""The loop: ask the driver what next, write it down, do it, write down what came of it.

Nothing happens that is not an event first: a ``called`` is on disk before its tool runs, a ``returned``
before the driver is asked again, in the order of the request. Every way out is a recorded ``concluded``; its
``exit_code`` is the program's. The board is folded from the events, so a driver that looks at nothing else
decides the same again. A model is no driver but one more thing that is asked: its driver decides that it is,
and reads the answer off the board.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.board import Board
from agent.execute import Result
from agent.interrupts import Interrupts
from agent.text import shorten
from memory.vocabulary import Effect, Finding
from tools.stopping import Stopped
from transcripts.events import (
    Answered,
    Asked,
    Body,
    Called,
    Concluded,
    Event,
    Found,
    HypothesisChanged,
    Noted,
    Resumed,
    Returned,
    Said,
    Steered,
    Understood,
)
from transcripts.found import change_in, finding_in

MOST_TURNS = 10_000
"""Decisions after which an investigation stops: a driver that does not come to an end is broken."""


@dataclass(frozen=True)
class Call:
    """A tool to run, and why."""

    tool: str
    input: dict[str, object]
    why: str = ""
    rung: str | None = None
    hypothesis: str | None = None


@dataclass(frozen=True)
class Decision:
    """What a driver wants next: first what it has concluded from the last results, then to ask a model, or
    calls, or the end."""

    changes: Sequence[Understood | HypothesisChanged | Noted | Said] = ()
    ask: Asked | None = None
    calls: Sequence[Call] = ()
    conclude: Concluded | None = None

    @property
    def empty(self) -> bool:
        return not (self.changes or self.calls or self.ask or self.conclude)


class Driver(Protocol):
    """Decides; never acts. The same board gives the same decision."""

    @property
    def name(self) -> str: ...

    def decide(self, board: Board) -> Decision: ...


class Hands(Protocol):
    """What runs calls: :class:`agent.execute.Executor`, or a recording of one."""

    @property
    def fatal(self) -> tuple[type[Exception], ...]:
        """Errors that end the run at once: nothing more can be recorded."""

    def effect(self, tool: str) -> Effect: ...

    def groups(self, calls: Sequence[Call]) -> Iterable[Sequence[Call]]:
        """``calls`` in order, those that run together in one list."""

    def run(self, calls: Sequence[Called]) -> Generator[Result]:
        """The results of one group, in its order; after Ctrl-C those that are there, before it is raised."""


class Model(Protocol):
    """What answers: :class:`agent.model.endpoint.Endpoint`, or a recording of one."""

    def answer(
        self, asked: Asked, messages: Sequence[Mapping[str, Any]], record: Callable[[Body], Event]
    ) -> None:
        """Record the answer to the conversation ``messages``: what was said, then one ``answered``."""


class Recorder(Protocol):
    """Where events go: one transcript, flushed to disk before ``append`` returns."""

    def append(self, body: Body) -> Event: ...


@dataclass
class Investigation:
    """One run of the loop over one transcript."""

    transcript: str
    log: Recorder
    board: Board
    driver: Driver
    executor: Hands
    folded: Callable[[Event], None] = lambda _: None
    """Told of every event once it is on disk; the store keeps its rows up to date with it."""
    interrupts: Interrupts = field(default_factory=Interrupts)
    model: Model | None = None
    inbox: Callable[[Container[str]], Iterable[Steered]] = lambda _: ()
    """What a person asked for meanwhile; told what has been heeded already."""
    _calls: int = field(default=0, init=False)

    def run(self) -> Concluded:
        """Go on until the transcript is concluded. Never raises for what a driver or a tool does."""
        self._calls = len(self.board.calls)
        try:
            self.interrupts.release()
            self._complete()
            for _ in range(MOST_TURNS):
                if self.board.concluded is not None:
                    return self.board.concluded
                self._heed()
                if self.board.stopping:
                    return self._conclude("stopped", 4, "stopped as asked; what was found so far is kept")
                self._turn(self.driver.decide(self.board))
            return self._conclude("stopped", 4, f"stopped after {MOST_TURNS} decisions without an answer")
        except (KeyboardInterrupt, Stopped):
            self.interrupts.hold()  # it is ending: who asks again gets what they want
            self._close_calls("interrupted", "interrupted before it returned")
            return self._conclude("interrupted", 130, "interrupted; what was found so far is kept")
        except Exception as error:  # every exit is an event, a bug's too
            if isinstance(error, self.executor.fatal):
                raise
            self.interrupts.hold()
            self._close_calls("error", "not run: the investigation failed")
            self.record(Noted(text=traceback.format_exc()))
            line = shorten(f"{type(error).__name__}: {error}", 300)
            return self._conclude(
                "failed", 4, f"failed with an unexpected error ({line}); see the transcript"
            )

    def resume(self, resumed: Resumed) -> None:
        """Open again what another process left behind, and close the calls that it never answered."""
        self.record(resumed)
        self._close_calls("interrupted", "its process was stopped before it returned")

    def record(self, data: Body) -> Event:
        """Write one event, then let the board and the store know. Ctrl-C waits until that is done."""
        with self.interrupts.held():
            event = self.log.append(data)
            self.board.add(event)
            self.folded(event)
        return event

    def _turn(self, decision: Decision) -> None:
        if decision.empty:
            raise RuntimeError(f"the driver {self.driver.name} decided nothing")
        for change in decision.changes:
            self.record(change)
        if decision.ask is not None:
            self._ask(decision.ask)
        for number, group in enumerate(self.executor.groups(decision.calls)):
            if self.board.concluded is not None:
                break  # one of them was the end
            if number and self._heed():
                return  # what is left of the decision may be another now
            self._run(group)
        if decision.conclude is not None:
            self.record(decision.conclude)

    def _heed(self) -> bool:
        """Put on record what a person asked for meanwhile; returns whether there was anything."""
        messages = list(self.inbox(self.board.heeded()))
        for message in messages:
            self.record(message)
        return bool(messages)

    def _ask(self, asked: Asked) -> None:
        if self.model is None:
            raise RuntimeError(f"the driver {self.driver.name} asks a model, and there is none")
        self.record(asked)
        self.model.answer(asked, self.board.conversation.messages, self.record)

    def _run(self, group: Sequence[Call]) -> None:
        """Calls that run together: all announced, then run, then their results in the same order."""
        numbered = [self._announce(call) for call in group]
        # Closed on every way out: then no sibling runs any more when what becomes of it is written down.
        with closing(self.executor.run(numbered)) as results:
            for _, result in zip(numbered, results, strict=True):
                try:
                    self._keep(result)
                except KeyboardInterrupt as asked:
                    # It came while this was written down: siblings may have ended meanwhile.
                    result = results.throw(asked)
                    while True:  # until it is raised again, behind the last of them
                        self._keep(result)
                        result = next(results)

    def _keep(self, result: Result) -> None:
        """Write down what came of a call, all of it before Ctrl-C is heard."""
        with self.interrupts.held():
            if result.note is not None:
                self.record(result.note)
            self.record(result.returned)
            if result.finding is not None:
                self._found(result.finding)
            if result.change is not None:
                self.record(result.change)

    def _announce(self, call: Call) -> Called:
        self._calls += 1
        called = Called(
            call=f"c{self._calls}",
            tool=call.tool,
            effect=self.executor.effect(call.tool),
            input=call.input,
            why=call.why,
            rung=call.rung,
            hypothesis=call.hypothesis,
        )
        self.record(called)
        return called

    def _complete(self) -> None:
        """Record what the last result holds, where its process was stopped between the two."""
        last = self.board.latest
        if last is None or not self.board.unfinished:
            return
        output = self.board.output(last)
        if (finding := finding_in(output)) is not None:
            self._found(finding)
        if (change := change_in(output)) is not None:
            self.record(change)

    def _found(self, finding: Finding) -> None:
        """Put a checked finding on record; where that is, is known only now."""
        if finding.id not in self.board.findings:
            here = {"transcript": self.transcript, "event": self.board.events}
            self.record(Found(finding=finding.model_copy(update=here)))

    def _close_calls(self, status: str, why: str) -> None:
        for call in self.board.unanswered:
            self.record(Returned.model_validate({"call": call, "status": status, "error": why}))
        if (asked := self.board.conversation.asked) is not None:
            self.record(Answered.model_validate({"request": asked.request, "status": status, "error": why}))

    def _conclude(self, reason: str, code: int, summary: str) -> Concluded:
        concluded = Concluded.model_validate({"exit_reason": reason, "exit_code": code, "summary": summary})
        self.record(concluded)
        return concluded
