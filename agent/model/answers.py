"""What an answer wants: its calls, read with suspicion, and how a refused request says why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OVERFLOW = "more was sent than the model reads"
"""How the error of a request begins that was too long."""
MISSING = "missing: "
"""How the error of a request begins that a person has to do something about."""
REASONED = "reasoning_items"
"""The key of a message for what only the Responses API knows of it (:mod:`agent.model.responses`)."""
MOST_CALLS = 128
"""Calls of one answer that are run."""


@dataclass(frozen=True)
class Wish:
    """A call as a model asked for it. ``wrong``: why it is none; then nothing is run."""

    id: str
    tool: str
    input: dict[str, Any]
    wrong: str | None = None


def wishes(message: Mapping[str, Any]) -> list[Wish]:
    """The calls that an answer asks for, in order."""
    return [_wish(call, number) for number, call in enumerate(message.get("tool_calls") or ())]


def _wish(call: Mapping[str, Any], number: int) -> Wish:
    name, text = str(call["function"]["name"]), str(call["function"]["arguments"])
    wrong = None
    given, why = arguments(text)
    if why is not None:
        wrong = (
            f"the arguments are no JSON object ({why}); nothing was run. Send the call again, with an object"
        )
    elif number >= MOST_CALLS:
        wrong = f"not run: more than {MOST_CALLS} calls in one answer; ask again for what is still needed"
    return Wish(str(call["id"]), name, given, wrong)


def arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """Arguments of a call as an object, or why they are none. No arguments at all are an empty object."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        return {}, str(error)
    if not isinstance(value, dict):
        return {}, f"it is a {type(value).__name__}"
    return value, None


def sent(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message as it is sent. Arguments that were no JSON object stay as they are on record; servers that
    read them again would refuse the whole conversation."""
    message = {key: value for key, value in message.items() if key != REASONED}
    calls = message.get("tool_calls")
    if not calls or all(arguments(call["function"]["arguments"])[1] is None for call in calls):
        return message
    return {**message, "tool_calls": [_sent_call(call) for call in calls]}


def _sent_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    if arguments(call["function"]["arguments"])[1] is None:
        return call
    return {**call, "function": {**call["function"], "arguments": "{}"}}


def is_overflow(error: str | None) -> bool:
    return error is not None and error.startswith(OVERFLOW)
