"""What an investigation may spend on a model's decisions, and what it has spent: folded from its events.

A limit counts from the beginning of this run: who resumes an investigation that came to its limit grants as
much again. Within it, a tool can have a limit of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.conversation import OUTSIDE
from agent.model.prices import Price
from memory.home import Home
from memory.terms import Effect
from transcripts.events import Answered, Asked, Called, Event, Opened, Resumed, Returned

if TYPE_CHECKING:
    from agent.board import Board

DEFAULTS: dict[str, float] = {"steps": 80, "tokens": 4_000_000, "minutes": 120}
"""What a model may spend where nothing else is said."""
LIMITS = ("steps", "tokens", "cost", "minutes", "gpu_minutes")
"""``cost`` is in US dollars."""


class BudgetError(Exception):
    """A budget that is none. One line."""

    exit_code = 2


@dataclass
class Spent:
    """Since the beginning of this run."""

    began: str = ""
    now: str = ""
    steps: int = 0
    usage: dict[str, Counter[str]] = field(default_factory=dict)
    """Model → tokens: ``prompt`` (``cached`` among them) and ``completion``."""
    gpu_seconds: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    """Tool → calls since a model decides."""
    _model: str = ""
    _on_gpu: dict[str, str] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        self.now = event.at
        match event.data:
            case Opened() | Resumed():
                self.began, self.steps, self.gpu_seconds = event.at, 0, 0.0
                self.usage, self.calls = {}, Counter()
            case Asked(model=model, settings=settings):
                self.steps += settings.get("tool_choice") != "none"  # the last word is no step
                self._model = model
            case Answered(usage=usage):
                mine = self.usage.setdefault(self._model, Counter())
                mine.update(
                    {name: usage.get(f"{name}_tokens", 0) for name in ("prompt", "cached", "completion")}
                )
            case Called(call=call, tool=tool, effect=effect, why=why):
                if self._model or why == OUTSIDE:
                    self.calls[tool] += 1
                self.steps += why == OUTSIDE  # of a client that is all there is to see
                if effect is Effect.USES_GPU:
                    self._on_gpu[call] = event.at
            case Returned(call=call) if call in self._on_gpu:
                self.gpu_seconds += _seconds(self._on_gpu.pop(call), event.at)
            case _:
                pass

    @property
    def tokens(self) -> int:
        return sum(one["prompt"] + one["completion"] for one in self.usage.values())

    @property
    def minutes(self) -> float:
        return _seconds(self.began, self.now) / 60

    def cost(self, prices: Mapping[str, Price]) -> float:
        """US dollars, of the models whose price is known."""
        return sum(prices[model].of(used) for model, used in self.usage.items() if model in prices)

    def of(self, limit: str, prices: Mapping[str, Price]) -> float:
        match limit:
            case "steps":
                return float(self.steps)
            case "tokens":
                return float(self.tokens)
            case "cost":
                return self.cost(prices)
            case "minutes":
                return self.minutes
            case _:
                return self.gpu_seconds / 60


@dataclass(frozen=True)
class Budget:
    """``limits``: of :data:`LIMITS`; ``calls``: tool → how often a model may call it."""

    limits: Mapping[str, float] = field(default_factory=lambda: DEFAULTS)
    calls: Mapping[str, int] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any], defaults: Mapping[str, float] = DEFAULTS) -> Budget:
        """The budget that ``told`` holds: the option ``llm`` of a transcript, as it is by now."""
        prices = {name: Price.model_validate(price) for name, price in (told.get("prices") or {}).items()}
        return cls({**defaults, **(told.get("budget") or {})}, dict(told.get("calls") or {}), prices)

    def exhausted(self, spent: Spent) -> str | None:
        """The first limit that is reached, as ``80 of 80 steps``; None while there is something left."""
        for name, limit in self.limits.items():
            if (used := spent.of(name, self.prices)) >= limit:
                return _of(name, used, limit)
        return None

    def left(self, spent: Spent) -> str:
        """What was used of every limit, in one line."""
        parts = [_of(name, spent.of(name, self.prices), limit) for name, limit in self.limits.items()]
        parts += [f"{spent.calls[tool]} of {most} calls of {tool}" for tool, most in self.calls.items()]
        return ", ".join(parts)


def budget_of(board: Board) -> Budget:
    """What whoever decides may spend: a model what was said or :data:`DEFAULTS`, a client what was said."""
    return Budget.of(board.llm, DEFAULTS if board.driver == "llm" else {})


def renewed(told: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The option ``llm`` with what was given anew. What is known of a model stays only if it decides on."""
    found = {**told, **given}
    for name in ("budget", "calls", "prices"):
        if both := {**(told.get(name) or {}), **(given.get(name) or {})}:
            found[name] = both
    if given.get("model") and "context" not in given:
        found.pop("context", None)
    return found


def check_priced(told: Mapping[str, Any], home: Home) -> None:
    """Raises :class:`BudgetError` where ``told`` (the option ``llm``) limits the cost of a model without a
    price."""
    model = told.get("model")
    if "cost" in (told.get("budget") or {}) and model not in (told.get("prices") or {}):
        raise BudgetError(
            f"no price is known for {model}: put it into {home.root / 'prices.toml'} as "
            f'["{model}"], input = …, output = … (dollars for a million tokens)'
        )


def read_budget(given: list[str] | tuple[str, ...]) -> tuple[dict[str, float], dict[str, int]]:
    """``KEY=NUMBER`` of :data:`LIMITS` and ``calls.TOOL=NUMBER``. Raises :class:`BudgetError`."""
    limits: dict[str, float] = {}
    calls: dict[str, int] = {}
    for one in given:
        key, _, text = one.partition("=")
        tool = key.removeprefix("calls.")
        try:
            number = float(text.replace("_", ""))
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e15 or (key not in LIMITS and (tool == key or not tool)):
            raise BudgetError(
                f"--budget {one!r} is not KEY=NUMBER; keys: {', '.join(LIMITS)} (US dollars for cost), "
                "calls.TOOL, e.g. --budget steps=40 --budget calls.trace_viability=20"
            )
        if key in LIMITS:
            limits[key] = number
        else:
            calls[tool] = int(number)
    return limits, calls


def _of(name: str, used: float, limit: float) -> str:
    if name == "cost":
        return f"${used:.2f} of ${limit:.2f}"
    shown = f"{used:.0f}" if name in {"steps", "tokens"} else f"{used:.1f}"
    return (
        f"{shown} of {limit:g} {name.replace('_', ' ')}" if limit < 1e6 else f"{shown} of {limit:.0f} {name}"
    )


def _seconds(start: str, end: str) -> float:
    if not start or not end:
        return 0.0
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
