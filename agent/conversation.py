"""What was said to a model and by it, folded from events: the conversation that goes on, and its last
answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent.model.answers import is_overflow
from transcripts.events import Answered, Asked, Called, Event, Resumed, Said

Message = dict[str, Any]
OUTSIDE = "the client asked for it"
"""The reason of a call that was decided outside this program, by another agent."""


def asked_for(request: str, number: int) -> str:
    """The reason of a call that a model asked for: in which request, and as which of its calls (from 1)."""
    return f"the model asked for it ({request}, call {number})"


@dataclass
class Conversation:
    """``whole`` fetches a message that was too long for the log, by sha256."""

    whole: Callable[[str], Any]
    messages: list[Message] = field(default_factory=list)
    head: str | None = None
    """The last message."""
    before: list[Message] = field(default_factory=list)
    """What this conversation goes on from after it was made shorter, until it is sent for the first time."""
    requests: int = 0
    asked: Asked | None = None
    """A request that has no answer yet."""
    answered: Answered | None = None
    """The last answer, unless another process has gone on since and it was none."""
    ending: bool = False
    """The last request was the one that ends it: no tools."""
    made: dict[str, str] = field(default_factory=dict)
    """Of the last answer: reason → the call that was made of it last."""
    idle: int = 0
    """Answers in a row that asked for no call."""
    lost: int = 0
    """Requests in a row that were refused because there was too much to read."""
    tokens: int = 0
    """Of the conversation so far: as the model counted them, and an estimate of what was said since."""

    @property
    def begun(self) -> bool:
        """Whether a model was told anything: from then on it decides."""
        return self.head is not None

    def add(self, event: Event) -> None:
        match event.data:
            case Said():
                self._said(event.data)
            case Asked(settings=settings):
                self.asked, self.answered = event.data, None
                self.ending = settings.get("tool_choice") == "none"
                self.requests += 1
                self.before = []
            case Answered():
                self._answered(event.data)
            case Called(why=why, call=call):
                self.made[why] = call
            case Resumed():
                if self.answered is not None and self.answered.status != "ok":
                    self.answered = None
                self.idle, self.lost, self.ending = 0, 0, False
            case _:
                pass

    def _answered(self, answered: Answered) -> None:
        self.asked, self.made = None, {}
        # Whoever was stopped before there was an answer asks again.
        self.answered = None if answered.status == "interrupted" else answered
        if answered.status != "ok":
            self.lost += is_overflow(answered.error)
            return
        self.lost = 0
        self.idle = 0 if self.messages and self.messages[-1].get("tool_calls") else self.idle + 1
        if prompt := answered.usage.get("prompt_tokens"):
            self.tokens = prompt + answered.usage.get("completion_tokens", 0)

    def _said(self, said: Said) -> None:
        if said.parent is None:
            self.before, self.messages, self.tokens = self.messages, [], 0
        message = self.whole(said.artifact) if said.artifact is not None else said.message
        self.messages.append(message or {})
        self.tokens += estimate(message or {})
        self.head = said.id

    def since_answer(self) -> tuple[Message | None, list[Message]]:
        """The model's last message, and what was said after it."""
        return after_answer(self.messages)


def estimate(message: Message) -> int:
    """About how many tokens a message has: a bit more than most tokenizers make of it."""
    calls = message.get("tool_calls") or ()
    asked = sum(len(str(call.get("function"))) for call in calls)
    return (len(str(message.get("content") or "")) + asked) // 3 + 8


def after_answer(messages: list[Message]) -> tuple[Message | None, list[Message]]:
    """The last message by the model among ``messages`` (None: there is none), and those after it."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "assistant":
            return messages[index], messages[index + 1 :]
    return None, list(messages)
