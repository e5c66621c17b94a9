"""Choosing what a name stands for: what moves, and going back. Neither needs ``uv`` or a network."""

from __future__ import annotations

import json
from pathlib import Path

from memory.clock import Clock
from memory.home import Home
from memory.names import few
from memory.views import Views
from tools.environment.history import DEFAULT, Choice, History, check_name, choose, go_back, read_history
from tools.environment.model import Environment
from tools.environment.store import chosen, list_environments, load, open_environment
from tools.errors import ToolError


def subject(home: Home, given: str) -> tuple[str, Environment]:
    """The name that moves when ``given`` is changed, and what it stands for: an environment without a name
    of its own moves the default one, which means the only environment there is until it stands for one.
    Raises :class:`ToolError` for a folder of someone else's."""
    there = list_environments(home) if given == DEFAULT and read_history(home, given) is None else []
    if len(there) > 1:
        raise ToolError(
            f"{given} stands for no environment yet; name one: {few([one.name for one in there])}"
        )
    environment = there[0] if there else open_environment(home, given)
    if environment.kind == "adopted":
        raise ToolError(
            f"{environment.path} is someone else's and only read; to change packages make an environment of "
            "your own: agent environment create -p PACKAGE==VERSION"
        )
    return (given if read_history(home, given) else DEFAULT), environment


def history_of(home: Home, name: str) -> History:
    """Raises :class:`ToolError` for a name that stands for nothing."""
    history = read_history(home, check_name(name))
    if history is None:
        raise ToolError(f"{name} stands for no environment yet; see: agent environment list", missing=True)
    return history


def roll_back(home: Home, name: str, clock: Clock, to: str | None = None) -> History:
    """Let ``name`` stand for what it stood for before, or for the environment ``to``.

    Raises :class:`ToolError` where there is nothing to go back to, or it is not whole; then nothing changes.
    """
    if to is not None:
        wanted = open_environment(home, to)
        there = read_history(home, check_name(name))
        for number, choice in reversed(list(enumerate(there.choices if there else ()))):
            if there is not None and choice.environment == chosen(wanted).environment:
                return go_back(home, there, number)
        return choose(home, name, chosen(wanted), "rollback --to", clock)
    history = history_of(home, name)
    before = history.current.before
    if before is None:
        raise ToolError(
            f"{name} stood for nothing before {history.current.environment}; nothing was changed; "
            f"choose another: agent environment rollback {name} --to ENVIRONMENT"
        )
    opened(home, history.choices[before])
    return go_back(home, history, before)


def opened(home: Home, choice: Choice) -> Environment:
    """The environment that a choice was of, as it is now. Raises :class:`ToolError` if it is gone."""
    if Path(choice.environment).is_absolute():
        return open_environment(home, choice.environment)
    return load(home.environments / choice.environment)


def findings_about(home: Home, environment: Environment) -> int:
    """How many current findings are about its packages, in these versions."""
    rows = Views(home).findings()
    return sum(json.loads(row["packages"]).items() <= environment.packages.items() for row in rows)
