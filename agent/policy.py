"""Which calls run unasked: decided by what a tool can do to the world, never by its name.

What is granted belongs to the process that was told so. It is in no transcript: who resumes or forks an
investigation grants anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from agent.board import Board
from agent.budget import Budget, budget_of
from agent.conversation import OUTSIDE
from memory.vocabulary import Effect
from tools.base import AnyTool
from transcripts.events import Called


@dataclass(frozen=True)
class Ruling:
    """Whether a call may run. ``note`` is put on record with its result."""

    refusal: str | None = None
    """None if it may, else one line that says why not."""
    note: str | None = None


class Rules(Protocol):
    def rule(self, tool: AnyTool, called: Called) -> Ruling: ...


@dataclass(frozen=True)
class Policy:
    """The effects that were granted."""

    allowed: frozenset[Effect]

    def refusal(self, tool: AnyTool) -> str | None:
        """None if ``tool`` may run, else one line that says why not."""
        if tool.effect in self.allowed:
            return None
        granted = ", ".join(sorted(self.allowed)) or "nothing"
        return f"{tool.name} has the effect {tool.effect}, which was not granted (granted: {granted})"

    def rule(self, tool: AnyTool, called: Called) -> Ruling:
        return Ruling(self.refusal(tool))


READING = Policy(frozenset({Effect.READS}))
"""What a model may do unasked."""

PERSON = Policy(frozenset({Effect.READS, Effect.WRITES_ENVIRONMENT, Effect.NETWORK}))
"""``agent investigate`` typed by a person: reads, and fetches what is to be read. No foreign code, no GPU."""


@dataclass(frozen=True)
class Grants:
    """What a person grants to who decides in their place: effects beforehand, and single calls when asked."""

    unasked: Policy = READING
    ask: Callable[[AnyTool, Called], bool] | None = None
    """Shows the exact call to the person; None where nobody can be asked."""

    def may_have(self, tool: AnyTool) -> bool:
        """Whether ``tool`` is worth offering: it runs unasked, or somebody can be asked."""
        return self.ask is not None or self.unasked.refusal(tool) is None

    def rule(self, tool: AnyTool, called: Called) -> Ruling:
        refusal = self.unasked.refusal(tool)
        if refusal is None:
            return Ruling()
        if self.ask is None:
            return Ruling(f"{refusal}; nobody can be asked: a person grants it with --allow {tool.effect}")
        if self.ask(tool, called):
            return Ruling(note=f"{called.call}: {tool.name} was allowed by the person, for this call alone")
        return Ruling(f"the person was asked and refused this call of {tool.name}")


@dataclass(frozen=True)
class Supervised:
    """Rules for a model or a client: the person's own until they decide, then what they were granted, how
    often they may call a tool, and no third time what gave the same twice. A client whose budget is used up
    may still write down and conclude; a model is asked for the last time then (:mod:`agent.drivers.llm`)."""

    board: Board
    person: Rules
    grants: Grants
    _made: Counter[str] = field(default_factory=Counter)

    def rule(self, tool: AnyTool, called: Called) -> Ruling:
        if not self.board.led:
            return self.person.rule(tool, called)
        self._made[tool.name] += 1
        budget = budget_of(self.board)
        if called.why == OUTSIDE and (why := self._used_up(budget)) and not _writes_down(tool):
            return Ruling(f"not run: {why} of this investigation are used up; conclude with what is known")
        most = budget.calls.get(tool.name)
        if most is not None and self._made[tool.name] > most:
            return Ruling(f"{tool.name} may be called {most} times, and was; go on without it")
        spent = self.board.spent.gpu_seconds / 60
        if tool.effect is Effect.USES_GPU and spent >= budget.limits.get("gpu_minutes", float("inf")):
            return Ruling(f"the {budget.limits['gpu_minutes']:g} GPU minutes of the budget are used up")
        if same := self.board.alike(called.tool, called.input):
            return Ruling(
                f"not run: {same[0]} and {same[1]} asked the same and gave the same; "
                f"read_artifact shows it again, of={same[1]}"
            )
        return self.grants.rule(tool, called)

    def _used_up(self, budget: Budget) -> str | None:
        """The limit of a client that is reached before this call."""
        steps = budget.limits.get("steps")
        if steps is not None and self._made.total() > steps:
            return f"{steps:g} of {steps:g} steps"
        rest = {name: limit for name, limit in budget.limits.items() if name != "steps"}
        return Budget(rest).exhausted(self.board.spent)


@dataclass(frozen=True)
class Heeding:
    """Rules under which nothing is tested that a person asked to skip, whoever decides."""

    board: Board
    rules: Rules

    def rule(self, tool: AnyTool, called: Called) -> Ruling:
        component, backend = (str(called.input.get(key)) for key in ("component", "backend"))
        if self.board.led and called.tool not in _SAYING and self.board.skips(component, backend):
            return Ruling(f"not run: the person asked to skip {component} {backend}")
        return self.rules.rule(tool, called)


_SAYING = frozenset({"record_finding", "update_hypothesis", "propose_hypothesis"})
"""Tools that test nothing: what is known of what is skipped may be said."""


def _writes_down(tool: AnyTool) -> bool:
    from agent.board_tools import BOARD_TOOLS

    return tool.name in BOARD_TOOLS
