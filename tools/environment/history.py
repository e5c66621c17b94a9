"""Which environment a name stands for now, and which it stood for before.

Environments never change; a name does: it points to one of them, and an upgrade makes it point to another.
``environments/.history/NAME.json`` holds every choice ever made, each with the one it came from, so going
back is choosing again. It is written in one step: whoever is killed leaves the choice from before or the new
one. Read paths use this: no pydantic here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from memory.clock import Clock
from memory.home import Home
from tools.errors import ToolError

FOLDER = ".history"
DEFAULT = "current"
"""The name that moves where none is given."""

# What a stored environment is called always has a version in it, so the two never mean each other.
_NAME = re.compile(r"(?=.{1,60}$)[A-Za-z][A-Za-z0-9_]*(-[A-Za-z_][A-Za-z0-9_]*)*")


class Chosen(NamedTuple):
    """An environment: the name of a stored one, or the absolute path of a folder of someone else's."""

    environment: str
    fingerprint: str


class Choice(NamedTuple):
    """One time that an environment was chosen, with the fingerprint that it had then.

    ``before``: the number of the choice that this one goes
    back to, None for the first; ``at``: UTC, ISO 8601.
    """

    environment: str
    fingerprint: str
    because: str
    at: str
    before: int | None


@dataclass(frozen=True)
class History:
    """``choices`` in the order in which they were made; ``chosen``: the number of the one that counts."""

    name: str
    choices: tuple[Choice, ...]
    chosen: int

    @property
    def current(self) -> Choice:
        return self.choices[self.chosen]

    @property
    def previous(self) -> Choice | None:
        """What going back leads to."""
        before = self.current.before
        return None if before is None else self.choices[before]

    def document(self) -> dict[str, Any]:
        choices = [choice._asdict() for choice in self.choices]
        return {"format": 1, "name": self.name, "chosen": self.chosen, "choices": choices}


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def check_name(text: str) -> str:
    """Raises :class:`ToolError` for what cannot be a name."""
    if not is_name(text):
        raise ToolError(
            f"{text!r} cannot be a name; expected letters, digits and underscores, in parts that begin with "
            "a letter: work, vllm_next, my-env"
        )
    return text


def read_history(home: Home, name: str) -> History | None:
    """None where the name was never given. Raises :class:`ToolError` if what is kept of it is damaged."""
    if not is_name(name):
        return None
    path = _path(home, name)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        history = History(name, tuple(Choice(**choice) for choice in found["choices"]), found["chosen"])
        whole = found["format"] == 1 and 0 <= history.chosen < len(history.choices)
        for number, choice in enumerate(history.choices):
            texts = (choice.environment, choice.fingerprint, choice.because, choice.at)
            whole = whole and all(isinstance(text, str) for text in texts)
            whole = whole and (choice.before is None or 0 <= choice.before < number)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path) from error
    if not whole:
        raise _damaged(path)
    return history


def histories(home: Home) -> list[History]:
    """Of every name, sorted; a damaged one is left out, as damaged environments are from lists."""
    found = []
    for path in sorted((home.environments / FOLDER).glob("*.json")):
        try:
            history = read_history(home, path.stem)
        except ToolError:
            continue
        if history is not None:
            found.append(history)
    return found


def choose(
    home: Home, name: str, chosen: Chosen, because: str, clock: Clock, *, before: Chosen | None = None
) -> History:
    """Let ``name`` stand for another environment from now on.

    ``before``: what it was made from, where that is not what the name stands for: it is noted first, since
    going back must lead there. Choosing what is chosen already changes nothing.
    """
    check_name(name)
    history = read_history(home, name)
    choices = history.choices if history else ()
    at = history.chosen if history else None
    if before is not None and (at is None or choices[at].environment != before.environment):
        choices += (Choice(*before, f"before: {because}", clock.now(), at),)
        at = len(choices) - 1
    if history is not None and at == history.chosen and choices[at][:2] == chosen:
        return history
    choices += (Choice(*chosen, because, clock.now(), at),)
    return _write(home, History(name, choices, len(choices) - 1))


def go_back(home: Home, history: History, number: int) -> History:
    """Let the name stand again for what choice ``number`` of its history says."""
    return _write(home, replace(history, chosen=number))


def forget(home: Home, name: str) -> None:
    """Let ``name`` stand for nothing; no environment goes with it. Raises :class:`ToolError` where it is no
    name, or cannot be taken away. A damaged history goes too."""
    try:
        _path(home, check_name(name)).unlink()
    except FileNotFoundError as error:
        raise ToolError(f"{name!r} is no name here; see: agent environment current", missing=True) from error
    except OSError as error:
        raise ToolError(f"cannot remove {_path(home, name)} ({error.strerror or error})") from error


def _path(home: Home, name: str) -> Path:
    return home.environments / FOLDER / f"{name}.json"


def _write(home: Home, history: History) -> History:
    from tools.environment.earlier import write

    path = _path(home, history.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps(history.document(), indent=1, ensure_ascii=False))
    except OSError as error:
        raise ToolError(
            f"cannot write {path} ({error.strerror or error}); {history.name} is unchanged; "
            "see to it that the folder can be written",
            missing=True,
        ) from error
    return history


def _damaged(path: Path) -> ToolError:
    return ToolError(
        f"{path} is damaged: it does not say what {path.stem} stands for; choose again: "
        f"agent environment forget {path.stem}, then agent environment rollback {path.stem} --to ENVIRONMENT",
        missing=True,
    )
