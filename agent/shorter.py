"""A conversation made shorter: the board as it is, what was left out and how to see it again, the last turns.

A call is never parted from its result: what is kept are whole turns, an answer with all that came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.conversation import Message, estimate
from agent.prompts import prompt
from agent.text import shorten

MOST_LISTED = 120
"""Results that are listed as left out; of older ones their number."""


def shorter(messages: Sequence[Message], beginning: Sequence[Message], room: int) -> list[Message]:
    """``beginning`` (how to work, and the board), a list of what was left out, and as many of the last turns
    as ``room`` tokens hold."""
    turns = list(_turns(messages))
    kept: list[list[Message]] = []
    for turn in reversed(turns):
        room -= sum(map(estimate, turn))
        if room < 0:
            break
        kept.insert(0, turn)
    left = turns[: len(turns) - len(kept)]
    system, board = beginning
    lines = [line for turn in left for line in _listed(turn)]
    if len(lines) > MOST_LISTED:
        lines = [f"({len(lines) - MOST_LISTED} earlier lines)", *lines[-MOST_LISTED:]]
    told = "\n".join([prompt("shorter"), *lines, "", str(board["content"])])
    return [system, {"role": "user", "content": told}, *(message for turn in kept for message in turn)]


def _turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """An answer with what followed it. What stands before the first answer is the beginning."""
    turn: list[Message] = []
    for message in messages:
        if message.get("role") == "assistant":
            if turn:
                yield turn
            turn = [message]
        elif turn:
            turn.append(message)
    if turn:
        yield turn


def _listed(turn: Sequence[Message]) -> Iterator[str]:
    answer, *results = turn
    if said := shorten(str(answer.get("content") or ""), 160):
        yield f"- you: {said}"
    asked = {call["id"]: call["function"] for call in answer.get("tool_calls") or ()}
    for result in results:
        function = asked.get(result.get("tool_call_id"))
        if function is not None:
            # The first line of a result says which call it is and what became of it.
            first = str(result.get("content")).partition("\n")[0]
            yield f"- {first} {shorten(function['arguments'], 160)}"
