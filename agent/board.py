"""The state of an investigation, folded from its events and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from memory.vocabulary import Finding, HypothesisState
from transcripts.events import (
    Called,
    Concluded,
    Event,
    Found,
    HypothesisChanged,
    Noted,
    Opened,
    Returned,
    Understood,
)


@dataclass
class Board:
    """What is known so far. ``whole`` fetches the uncut output of a call from the artifacts, by sha256."""

    whole: Callable[[str], Any]
    opened: Opened | None = None
    understood: Understood | None = None
    hypotheses: dict[str, HypothesisChanged] = field(default_factory=dict)
    """Id → its last change, in the order in which they were opened."""
    calls: dict[str, Called] = field(default_factory=dict)
    returned: dict[str, Returned] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)
    """Call → the event that holds its result."""
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    concluded: Concluded | None = None
    events: int = 0

    def add(self, event: Event) -> None:
        """Fold one event more."""
        self.events = event.seq + 1
        match event.data:
            case Opened():
                self.opened = event.data
            case Understood():
                self.understood = event.data
            case HypothesisChanged(id=name):
                self.hypotheses[name] = event.data
            case Called(call=name):
                self.calls[name] = event.data
            case Returned(call=name):
                self.returned[name] = event.data
                self.seqs[name] = event.seq
            case Found(finding=finding):
                self.findings.append(finding)
            case Noted(text=text):
                self.notes.append(text)
            case Concluded():
                self.concluded = event.data

    @property
    def unanswered(self) -> list[str]:
        """Calls that were made and have not returned."""
        return [name for name in self.calls if name not in self.returned]

    def results(self, tool: str) -> list[tuple[Called, Returned]]:
        """Every call of ``tool`` that came to an end, in order. One that was interrupted did not."""
        return [
            (call, self.returned[name])
            for name, call in self.calls.items()
            if call.tool == tool and name in self.returned and self.returned[name].status != "interrupted"
        ]

    def output(self, call: str) -> Any:
        """The whole output of a call that went well, else None."""
        returned = self.returned.get(call)
        if returned is None or returned.status != "ok":
            return None
        return self.whole(returned.artifact) if returned.artifact else returned.output

    def output_of(self, tool: str) -> Any:
        """The output of the last call of ``tool`` that went well, else None."""
        good = [call for call, returned in self.results(tool) if returned.status == "ok"]
        return self.output(good[-1].call) if good else None

    def in_state(self, *states: HypothesisState) -> list[HypothesisChanged]:
        return [one for one in self.hypotheses.values() if one.state in states]


def fold(events: Iterable[Event], whole: Callable[[str], Any]) -> Board:
    """The board after ``events``."""
    board = Board(whole)
    for event in events:
        board.add(event)
    return board
