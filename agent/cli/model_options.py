"""Options of commands in which a model may decide: which model, what it may spend, what it may do unasked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.cli.common import CommandError, progress
from agent.text import safe_block
from memory.home import Home
from memory.terms import Effect

if TYPE_CHECKING:
    from agent.policy import Grants
    from tools.base import AnyTool
    from transcripts.events import Called

Function = TypeVar("Function", bound=Callable[..., Any])
ENDPOINT = "OPENAI_API_KEY, or OPENAI_BASE_URL to an endpoint of your own (http://127.0.0.1:8000/v1)"


def model_options(function: Function) -> Function:
    """``--model``, ``--api``, ``--budget``, ``--allow``, ``--yes``: what :class:`ModelOptions` holds."""
    api = click.option(
        "--api",
        type=click.Choice(["auto", "chat", "responses"]),
        default="auto",
        help="Chat completions, or the Responses API; auto takes the latter at OpenAI alone.",
    )
    model = click.option("--model", metavar="NAME", help="The model that decides; else ASSAY_MODEL.")
    return model(api(budget_option(granting_options(function))))


def budget_option(function: Function) -> Function:
    """``--budget``: what a model may spend."""
    return click.option(
        "--budget",
        metavar="KEY=NUMBER",
        multiple=True,
        help="What a model may spend: steps, tokens, cost (dollars), minutes, gpu_minutes, calls.TOOL.",
    )(function)


def granting_options(function: Function) -> Function:
    """``--allow`` and ``--yes``: what a model may do besides reading."""
    function = click.option("--yes", is_flag=True, help="Allow whatever the model asks for.")(function)
    return click.option(
        "--allow",
        metavar="EFFECT",
        multiple=True,
        type=click.Choice([effect.value for effect in Effect if effect is not Effect.READS]),
        help="Let a model do this unasked: "
        + ", ".join(e.value for e in Effect if e is not Effect.READS)
        + ".",
    )(function)


@dataclass(frozen=True)
class ModelOptions:
    """What was said about the model. ``budget``: as given."""

    model: str | None
    budget: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    yes: bool = False
    api: str = "auto"

    @property
    def name(self) -> str | None:
        return self.model or os.environ.get("ASSAY_MODEL") or None

    def driver(self, wanted: str) -> str:
        """``auto`` decided, and said. Raises :class:`CommandError` for a model that is not there."""
        endpoint = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
        told = "--model" if self.model else "--budget" if self.budget else None
        if wanted == "planner" and told:
            raise CommandError(
                f"{told} is for a model, and --driver planner asks none: leave one of them out"
            )
        if wanted == "llm" or told:
            if self.name is None:
                raise CommandError(f"{told or '--driver llm'} needs a model: --model NAME or ASSAY_MODEL", 3)
            if not endpoint:
                raise CommandError(f"nothing says where {self.name} is to be asked: set {ENDPOINT}", 3)
        if wanted == "planner" or not (self.name and endpoint):
            why = f"it is not said where to ask {self.name}" if self.name else "no model is configured"
            progress("driver: planner" + (f" ({why})" if wanted == "auto" else ""))
            return "planner"
        progress(f"driver: llm ({self.name})")
        return "llm"

    def recorded(self, home: Home) -> dict[str, Any]:
        """What a transcript's options hold of it. Raises ``BudgetError``, ``PriceError``."""
        from agent.budget import check_priced

        found = {**self.given(home, self.name), **({"api": "responses"} if self._responds else {})}
        check_priced(found, home)
        return found

    @property
    def _responds(self) -> bool:
        """Whether the model is asked by the Responses API: others than OpenAI have it seldom, or in part."""
        own = "//api.openai.com/" in (os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1")
        return self.api == "responses" or (self.api == "auto" and own)

    def given(self, home: Home, name: str | None) -> dict[str, Any]:
        """The same as far as it was said: of the model ``name``, and of its budget."""
        from agent.budget import read_budget
        from agent.model.prices import price_of

        limits, calls = read_budget(self.budget)
        found: dict[str, Any] = {"budget": limits, "calls": calls}
        if name is not None:
            found["model"] = name
            if (price := price_of(home, name)) is not None:
                found |= {"prices": {name: price.model_dump(exclude_none=True)}, "context": price.context}
        return {key: value for key, value in found.items() if value}

    def grants(self) -> Grants:
        """What the model may do in this process: it is on no record, and nobody inherits it."""
        from agent.policy import Grants, Policy

        allowed = frozenset({Effect.READS, *map(Effect, self.allow)})
        if self.yes:
            return Grants(Policy(frozenset(Effect)))
        return Grants(Policy(allowed), _ask if sys.stdin.isatty() and sys.stderr.isatty() else None)


def _ask(tool: AnyTool, called: Called) -> bool:
    """Show the exact call to the person, and ask."""
    progress(f"{called.call}: the model asks for {tool.name} ({tool.effect})")
    click.echo(safe_block(json.dumps(called.input, indent=1, ensure_ascii=False, sort_keys=True)), err=True)
    click.echo(f"run {tool.name} with this? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
