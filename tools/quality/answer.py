"""What a server answered: text, tokens with their logprobs, or how it failed to. All of it is data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

LONGEST = 400
"""Characters of an error that are kept."""
ALIEN = "the answer is none as OpenAI words it"
"""Why an answer failed that another kind of program may have given."""
_SURELY_NOT = -1000.0
"""A chosen token has no such logprob; some engines write one where they have none that is a number."""

Ended = Literal["answered", "refused", "failed", "broken", "unreachable", "timed_out", "cut_off"]


@dataclass(frozen=True)
class Token:
    """``logprob``: None where the server says none, or none that is a number. ``best``: by token, in nats."""

    text: str
    logprob: float | None
    best: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """``refused``: an HTTP status below 500, ``failed``: one from there on, ``broken``: a connection that
    ended in between, ``cut_off``: by us, when all time was used up. ``tokens`` is empty where the server
    gives no logprobs; ``finite``: all are numbers."""

    ended: Ended
    text: str = ""
    tokens: tuple[Token, ...] = ()
    finite: bool = True
    status: int | None = None
    error: str = ""
    seconds: float = 0.0


def read_answer(status: int, data: bytes) -> Answer:
    """What an HTTP answer of ``/v1/completions`` says. Whatever it holds, it is data."""
    if status != 200:
        words = " ".join(data[: 4 * LONGEST].decode("utf-8", "replace").split())[:LONGEST]
        return Answer("failed" if status >= 500 else "refused", status=status, error=words)
    try:
        choice = json.loads(data)["choices"][0]
        text = choice["text"]
        if not isinstance(text, str):
            raise TypeError
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Answer("failed", status=status, error=ALIEN)
    return _read(status, choice, text, _tokens(choice.get("logprobs")))


def read_chat(status: int, data: bytes) -> Answer:
    """The same of ``/v1/chat/completions``."""
    if status != 200:
        return read_answer(status, data)
    try:
        choice = json.loads(data)["choices"][0]
        message = choice["message"]
        # One that thinks says so apart; what it thinks is text of the model's all the same.
        parts = [message.get(key) for key in ("reasoning_content", "reasoning", "content")]
        text = "".join(part for part in parts if isinstance(part, str))
        content = (choice.get("logprobs") or {}).get("content")
        told = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return Answer("failed", status=status, error=ALIEN)
    tokens = tuple(
        Token(str(one.get("token", "")), number(one.get("logprob")), _best(_listed(one.get("top_logprobs"))))
        for one in told
    )
    return _read(status, choice, text, tokens)


def _read(status: int, choice: Mapping[str, Any], text: str, tokens: tuple[Token, ...]) -> Answer:
    reason = choice.get("finish_reason")
    if isinstance(reason, str) and reason not in ("stop", "length"):
        return Answer("failed", text, status=status, error=f"it ended for: {reason[:LONGEST]}")
    finite = all(one.logprob is not None for one in tokens)
    # Engines that look for numbers that are none say here that they ended an answer for one.
    matched = choice.get("matched_stop")
    told = matched[:LONGEST] if isinstance(matched, str) else ""
    return Answer("answered", text, tokens, finite, status, told)


def _tokens(given: Any) -> tuple[Token, ...]:
    if not isinstance(given, dict) or not isinstance(given.get("token_logprobs"), list):
        return ()
    texts, best = given.get("tokens"), given.get("top_logprobs")
    texts = texts if isinstance(texts, list) else []
    best = best if isinstance(best, list) else []
    return tuple(
        Token(
            str(texts[place]) if place < len(texts) else "",
            number(logprob),
            _best(best[place]) if place < len(best) else {},
        )
        for place, logprob in enumerate(given["token_logprobs"])
    )


def _listed(given: Any) -> dict[str, Any]:
    """A list of tokens with their logprobs, by token."""
    entries = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {str(one.get("token", "")): one.get("logprob") for one in entries}


def _best(given: Any) -> dict[str, float]:
    if not isinstance(given, dict):
        return {}
    found = {str(name): number(value) for name, value in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def number(value: Any) -> float | None:
    """A logprob; None for what is none: NaN, an infinity, nothing, or above certainty."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if _SURELY_NOT < value <= 1e-3 else None
