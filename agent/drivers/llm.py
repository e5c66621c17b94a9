"""The driver that asks a language model. The planner lays the ground; what it cannot decide is the model's.

All that it goes by is the board: what was said stands there, the last answer too. So an answer that was
recorded leads to the same calls again, and an investigation that was cut off goes on from its log. It asks no
one itself: a decision says what is to be asked (:class:`agent.loop.Model`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from agent.board import Board, steering
from agent.board_text import board_text, result_text
from agent.budget import Budget, budget_of
from agent.conversation import Message, asked_for
from agent.drivers.ground import failure
from agent.drivers.planner import Planner, conclusion_of
from agent.loop import Call, Decision
from agent.model.answers import MISSING, Wish, is_overflow, wishes
from agent.model.offers import offers
from agent.prompts import prompt
from agent.shorter import shorter
from agent.text import shorten
from memory.canonical import canonical
from tools.base import AnyTool
from transcripts.events import Asked, Concluded, Noted, Said
from transcripts.messages import Messages
from transcripts.redaction.secrets import JSON, redacted

CONTEXT = 120_000
"""Tokens that a model reads at most, where nothing says it."""
FULL = 0.7
"""Share of them at which a conversation is made shorter."""
MOST_IDLE = 3
"""Answers in a row without a call, after which the next is the last."""
MOST_LOST = 3
"""Requests in a row that were too long, each half as long as the one before."""


class Investigator:
    """``keep`` stores what is too long for the log and gives its sha256. ``tools``: what is offered."""

    name = "llm"

    def __init__(
        self,
        keep: Callable[[bytes], str],
        tools: Sequence[AnyTool] = (),
        redact: Callable[[JSON], JSON] = redacted,
    ) -> None:
        self._keep = keep
        self._tools = tools
        self._redact = redact
        self._planner = Planner()

    @cached_property
    def _offered(self) -> str:
        """Artifact with the schemas of the tools."""
        return self._keep(canonical(offers(self._tools)).encode())

    def decide(self, board: Board) -> Decision:
        talk = board.conversation
        if not talk.begun:
            ground = self._planner.decide(board)
            return (
                ground if ground.conclude is None or failure(board) else self._go_on(board, _beginning(board))
            )
        if talk.before:  # its process was stopped while it was made shorter
            return self._shorten(board, talk.before)
        if talk.answered is not None and talk.answered.status != "ok":
            return self._unanswered(board)
        answer, after = talk.since_answer()
        if answer is None:
            return self._go_on(board, _beginning(board)[len(after) :])
        if talk.ending:
            return Decision(conclude=_at_the_limit(board))
        asked, request = wishes(answer), f"r{talk.requests}"
        if not after and (calls := list(_calls(board, request, asked))):
            return Decision(calls=calls)
        if not asked:
            return self._go_on(board, [{"role": "user", "content": prompt("go_on")}][len(after) :])
        numbered = list(enumerate(asked, 1))[len(after) :]
        return self._go_on(board, [result_text(board, request, *one) for one in numbered])

    def _go_on(self, board: Board, messages: Sequence[Message]) -> Decision:
        """Say ``messages`` and ask on: for the last time where the budget is used up."""
        talk = board.conversation
        if board.untold:
            said = "; ".join(map(steering, board.untold))
            messages = [*messages, {"role": "user", "content": prompt("steered").format(said=said)}]
        if why := _at_its_end(board):
            last = prompt("last").format(why=why)
            return self._ask(board, [*messages, {"role": "user", "content": last}], last=True)
        if talk.tokens > FULL * self._context(board) and talk.since_answer()[0] is not None:
            # First all is said that there is to say, so that what is made shorter stands in the log.
            if messages:
                return Decision(changes=self._say(messages, talk.head))
            return self._shorten(board, talk.messages)
        return self._ask(board, messages)

    def _ask(self, board: Board, messages: Sequence[Message], *, last: bool = False) -> Decision:
        talk = board.conversation
        said = self._say(messages, talk.head)
        return Decision(changes=said, ask=self._asked(board, said[-1].id if said else talk.head, last=last))

    def _shorten(self, board: Board, told: Sequence[Message]) -> Decision:
        """Begin the conversation anew, with what matters of it."""
        talk = board.conversation
        room = int(self._context(board) * FULL / 2) >> talk.lost
        messages = shorter(told, _beginning(board), room)
        done = len(talk.messages) if talk.before else 0
        said = self._say(messages[done:], talk.head if done else None)
        note = Noted(text=f"the conversation was made shorter: {len(messages)} of {len(told)} messages")
        return Decision(
            changes=[*(() if done else (note,)), *said],
            ask=self._asked(board, said[-1].id if said else talk.head),
        )

    def _unanswered(self, board: Board) -> Decision:
        """What becomes of a request that was refused or got no answer."""
        talk = board.conversation
        why = (talk.answered and talk.answered.error) or "the model gave no answer"
        if is_overflow(why) and talk.lost <= MOST_LOST and talk.since_answer()[0] is not None:
            return self._shorten(board, talk.messages)
        missing = why.startswith(MISSING)
        return Decision(
            conclude=Concluded(
                exit_reason="missing" if missing else "stopped",
                exit_code=3 if missing else 4,
                summary=shorten(why.removeprefix(MISSING), 600),
                answer=conclusion_of(board).answer,
            )
        )

    def _say(self, messages: Sequence[Message], parent: str | None) -> list[Said]:
        said: list[Said] = []
        Messages(said.append, self._keep, lambda _: b"", redact=self._redact).say_all(messages, parent)
        return said

    def _asked(self, board: Board, head: str | None, *, last: bool = False) -> Asked:
        assert head is not None, "something is said before anything is asked"
        return Asked(
            request=f"r{board.conversation.requests + 1}",
            model=str(board.llm.get("model") or "unnamed"),
            head=head,
            settings={**_interface(board), **({"tool_choice": "none"} if last else {})},
            tools=self._offered,
        )

    def _context(self, board: Board) -> int:
        return int(board.llm.get("context") or CONTEXT)


def _beginning(board: Board) -> list[Message]:
    """What a model is told first: how to work, and the board."""
    return [
        {"role": "system", "content": prompt("investigator")},
        {"role": "user", "content": board_text(board, _budget(board))},
    ]


def _calls(board: Board, request: str, asked: Sequence[Wish]) -> Iterator[Call]:
    """What the last answer wants run, as far as it has not come to an end."""
    for number, wish in enumerate(asked, 1):
        why = asked_for(request, number)
        result = board.calls.result(board.conversation.made.get(why, ""))
        if wish.wrong is None and (result is None or result.status == "interrupted"):
            yield Call(wish.tool, wish.input, why=why, hypothesis=board.subject_of(wish.input))


def _at_its_end(board: Board) -> str | None:
    """Why the next answer is the last."""
    if board.conversation.idle >= MOST_IDLE:
        return f"{MOST_IDLE} answers in a row without a call"
    return _budget(board).exhausted(board.spent)


def _interface(board: Board) -> dict[str, str]:
    """By which interface the model is asked, where that was said."""
    return {"api": str(board.llm["api"])} if board.llm.get("api") else {}


def _at_the_limit(board: Board) -> Concluded:
    """The end where the budget is used up: what is on the board, and why no more."""
    so_far = conclusion_of(board)
    return Concluded(
        exit_reason="stopped",
        exit_code=4,
        summary=f"stopped: {_at_its_end(board) or 'at a limit'}; so far: {so_far.summary}",
        answer=so_far.answer,
    )


def _budget(board: Board) -> Budget:
    return budget_of(board)
