"""Replay: the real loop and the real driver, on recorded results; what it decides must be what is recorded.

The log takes the place of everything that acts. :class:`Tape` stands where events are written and compares
each with the recorded one; :class:`Recorded` stands where calls are run and gives their recorded results;
:class:`Answers` stands where a model is asked and gives what it said. Nothing is executed, nothing is
fetched, nothing is written. What a model was told is no decision: whatever words the program has for it
today, the recorded ones stand, and what was made of the answers is compared.
"""

from __future__ import annotations

import difflib
import json
from collections import deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from agent.board import Board
from agent.drivers import make_driver
from agent.drivers.outside import Outside
from agent.execute import CANCELLED, Result
from agent.loop import Call, Decision, Driver, Investigation
from agent.session import failed_calls
from memory.artifacts import ArtifactError
from memory.canonical import canonical
from memory.vocabulary import Effect
from transcripts.chain import LogError
from transcripts.events import (
    Answered,
    Asked,
    Body,
    Called,
    Concluded,
    Event,
    Noted,
    Opened,
    Resumed,
    Returned,
    Said,
    Steered,
)
from transcripts.found import change_in, finding_in

_TRACEBACK = "Traceback (most recent call last)"
_DIFF_LINES = 60


class DivergedError(Exception):
    """The driver decides something else than is recorded; ``chosen`` is None where it decides nothing."""

    def __init__(self, event: int, recorded: Body, chosen: Body | None) -> None:
        super().__init__(f"event {event}: {_named(recorded)} is recorded, {_named(chosen)} was chosen")
        self.event = event
        self.recorded = recorded
        self.chosen = chosen

    def diff(self) -> list[str]:
        """The difference line by line, as ``diff -u`` writes it; at most 60 lines. Of two events of different
        kinds only what is short."""
        alike = self.chosen is not None and self.recorded.kind == self.chosen.kind
        sides = (_pretty(self.recorded, alike), _pretty(self.chosen, alike))
        lines = difflib.unified_diff(*sides, "recorded", "chosen", n=2, lineterm="")
        shown = list(islice(lines, _DIFF_LINES + 1))
        return [*shown[:_DIFF_LINES], "…"] if len(shown) > _DIFF_LINES else shown


class StoppedError(Exception):
    """The recording ends here, or another process went on from here."""


class RecordedInterrupt(KeyboardInterrupt):
    """Ctrl-C, where it is recorded that it came."""


@dataclass(frozen=True)
class Replayed:
    """How a replay came out. ``events``: how many were gone through; ``board``: what they make."""

    events: int
    board: Board
    difference: DivergedError | None = None


class Tape:
    """Recorded events in their order, up to number ``until``; what is appended must be the next of them."""

    def __init__(self, events: Iterator[Event], until: int | None = None) -> None:
        self._events = events if until is None else islice(events, until + 1)
        self._ahead: deque[Event] = deque()

    def peek(self, ahead: int = 0) -> Event | None:
        """The event after the next ``ahead`` ones; None past the end."""
        while len(self._ahead) <= ahead:
            following = next(self._events, None)
            if following is None:
                return None
            self._ahead.append(following)
        return self._ahead[ahead]

    def take(self) -> Event:
        """The next event, which is there."""
        event = self.peek()
        assert event is not None
        return self._ahead.popleft()

    def calls(self) -> int:
        """How many calls were announced together: the ``called`` that come next without anything between."""
        count = 0
        while (event := self.peek(count)) is not None and isinstance(event.data, Called):
            count += 1
        return count

    def steered(self, heeded: Container[str]) -> Iterator[Steered]:
        """What was asked for then, where it was heeded."""
        del heeded
        ahead = 0
        while (event := self.peek(ahead)) is not None and isinstance(event.data, Steered):
            yield event.data
            ahead += 1

    def append(self, body: Body) -> Event:
        """The recorded event that ``body`` is. Where something else comes next raises :class:`StoppedError`,
        :class:`RecordedInterrupt` or :class:`DivergedError`."""
        event = self.peek()
        if event is None:
            raise StoppedError
        if same(event.data, body):
            return self.take()
        if isinstance(event.data, Resumed) and not isinstance(body, Resumed):
            raise StoppedError
        if _interrupted(event.data):
            raise RecordedInterrupt
        if _interrupted(body):
            # Ours, not theirs: whoever watches the replay has asked it to stop.
            raise KeyboardInterrupt
        raise DivergedError(event.seq, event.data, body)


class Recorded:
    """Runs calls by reading what came of them."""

    fatal = (DivergedError, StoppedError, LogError, ArtifactError)

    def __init__(self, tape: Tape, whole: Callable[[str], Any]) -> None:
        self._tape = tape
        self._whole = whole

    def effect(self, tool: str) -> Effect:
        event = self._tape.peek()
        return event.data.effect if event is not None and isinstance(event.data, Called) else Effect.READS

    def groups(self, calls: Sequence[Call]) -> Iterable[Sequence[Call]]:
        """As they ran together then: how calls are grouped is no decision of the driver."""
        rest = list(calls)
        while rest:
            count = max(1, self._tape.calls())
            yield rest[:count]
            rest = rest[count:]

    def run(self, calls: Sequence[Called]) -> Generator[Result]:
        left = deque(called.call for called in calls)
        passed_over: list[str] = []
        while left or passed_over:
            event = self._tape.peek()
            note = None
            if event is not None and isinstance(event.data, Noted):
                note, event = event.data, self._tape.peek(1)
            if event is None or isinstance(event.data, Resumed):
                raise StoppedError
            if _interrupted(event.data):
                raise RecordedInterrupt
            if not isinstance(event.data, Returned) or event.data.call not in left:
                raise DivergedError(
                    event.seq, event.data, Returned(call=[*passed_over, *left][0], status="ok")
                )
            # Where Ctrl-C comes, what has returned is written before what has not is closed.
            while (call := left.popleft()) != event.data.call:
                passed_over.append(call)
            output = self._output(event.data)
            yield Result(event.data, finding_in(output), note, change_in(output))

    def _output(self, returned: Returned) -> Any:
        if returned.status != "ok":
            return None
        return self._whole(returned.artifact) if returned.artifact else returned.output


class Answers:
    """Answers as a model gave them."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def answer(
        self, asked: Asked, messages: Sequence[Mapping[str, Any]], record: Callable[[Body], Event]
    ) -> None:
        del messages  # those that were sent then
        while True:
            event = self._tape.peek()
            if event is None or isinstance(event.data, Resumed):
                raise StoppedError
            if _interrupted(event.data):
                raise RecordedInterrupt
            if not isinstance(event.data, Noted | Said | Answered):
                raise DivergedError(event.seq, event.data, Answered(request=asked.request, status="ok"))
            record(event.data)
            if isinstance(event.data, Answered):
                return


def replay(
    events: Iterator[Event],
    whole: Callable[[str], Any],
    *,
    until: int | None = None,
    drivers: Callable[[str], Driver] = make_driver,
) -> Replayed:
    """Let the driver decide again, on the results of ``events`` up to number ``until``.

    ``whole`` gives an artifact as JSON by its sha256. Raises :class:`LogError` for a damaged log,
    ``ArtifactError`` for a result that is not here whole, ``DriverError`` for a driver that is not.
    """
    tape = Tape(events, until)
    board = Board(whole)
    first = tape.take()
    assert isinstance(first.data, Opened), "readers refuse a log that begins with anything else"
    board.add(first)
    name = first.data.investigation

    def go_on(resumed: Resumed | None) -> None:
        driver = drivers(board.driver if resumed is None else resumed.driver)
        if isinstance(driver, Outside):
            driver = Outside(partial(_decided_outside, tape))
        investigation = Investigation(
            name, tape, board, driver, Recorded(tape, whole), model=Answers(tape), inbox=tape.steered
        )
        with suppress(StoppedError):
            if resumed is not None:
                # What it found open, and what it gave another chance, follows from the events before it.
                found = {"open": tuple(board.unanswered), "again": failed_calls(board)}
                investigation.resume(resumed.model_copy(update=found))
            investigation.run()

    try:
        go_on(None)
        while (event := tape.peek()) is not None:
            if not isinstance(event.data, Resumed):
                raise DivergedError(event.seq, event.data, None)
            go_on(event.data)
    except DivergedError as difference:
        return Replayed(difference.event, board, difference)
    return Replayed(board.events, board)


def _decided_outside(tape: Tape, board: Board) -> Decision:
    """What was decided outside then: nobody can be asked again, so it is taken as it is recorded."""
    event = tape.peek()
    if event is None or isinstance(event.data, Resumed):
        raise StoppedError
    if _interrupted(event.data):
        raise RecordedInterrupt
    if isinstance(event.data, Concluded):
        return Decision(conclude=event.data)
    called = [event.data for ahead in range(tape.calls()) if (event := tape.peek(ahead)) is not None]
    if not called:
        raise DivergedError(event.seq, event.data, None)
    return Decision(
        calls=[
            Call(one.tool, dict(one.input), one.why, one.rung, one.hypothesis)
            for one in called
            if isinstance(one, Called)
        ]
    )


def same(recorded: Body, chosen: Body) -> bool:
    """Whether two bodies are the same event. Of what a model is told only who says it counts, of an error's
    traceback only what it says last: our own words and lines are no decision."""
    if recorded == chosen:
        return True
    if isinstance(recorded, Said) and isinstance(chosen, Said):
        return _told(recorded) == _told(chosen) or None in (recorded.message, chosen.message)
    if isinstance(recorded, Asked) and isinstance(chosen, Asked):
        return (recorded.request, recorded.settings) == (chosen.request, chosen.settings)
    if isinstance(recorded, Noted) and isinstance(chosen, Noted):
        both = (recorded.text, chosen.text)
        return all(_TRACEBACK in text for text in both) and len({text.split("\n")[-2] for text in both}) == 1
    # A tuple that was written comes back as a list.
    return canonical(recorded.model_dump(mode="json")) == canonical(chosen.model_dump(mode="json"))


def _told(said: Said) -> tuple[Any, ...]:
    """Who says it, and for which call."""
    message = said.message or {}
    return message.get("role"), message.get("tool_call_id")


def _interrupted(body: Body) -> bool:
    """Whether an event says that Ctrl-C had come: not where one call alone was cancelled."""
    if isinstance(body, Returned | Answered):
        return body.status == "interrupted" and body.error != CANCELLED
    return isinstance(body, Concluded) and body.exit_reason == "interrupted"


def _named(body: Body | None) -> str:
    if body is None:
        return "nothing more"
    names = ("kind", "call", "tool", "id", "component", "backend", "exit_reason")
    return " ".join(str(value) for name in names if (value := getattr(body, name, None)))


def _pretty(body: Body | None, everything: bool) -> list[str]:
    document = {} if body is None else body.model_dump(mode="json")
    shown = {
        key: value
        for key, value in sorted(document.items(), key=lambda item: (item[0] != "kind", item[0]))
        if everything or not isinstance(value, dict | list)
    }
    return json.dumps(shown, indent=1, ensure_ascii=False).splitlines()
