"""What a request for packages gave before, noted beside the environments: asking again needs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from memory.home import Home
from tools.environment.model import Environment
from tools.environment.request import Request
from tools.environment.store import list_environments, load
from tools.errors import ToolError

NOTES = ".requests"
FRESH = 24 * 3600.0
"""Seconds for which "the newest" is not asked again."""

Progress = Callable[[str], None]


def existing(home: Home, request: Request, now: float, progress: Progress) -> Environment | None:
    """A stored environment that is what ``request`` means, without asking anyone."""
    if found := noted(home, request, None if request.exact else now - FRESH):
        newest = "" if request.exact else " (the newest when last asked, less than a day ago)"
        progress(f"using environment {found.name}{newest}")
        return found
    if not request.exact or request.engine_alone:
        return None
    for environment in list_environments(home):
        same = environment.platform == request.platform and environment.packages == request.packages
        if same and environment.kind == "source":
            progress(f"using environment {environment.name}")
            return environment
    return None


def noted(home: Home, request: Request, since: float | None = None) -> Environment | None:
    """What this request gave before, at ``since`` (seconds since the epoch) or later."""
    try:
        note = json.loads((home.environments / NOTES / request.key).read_text(encoding="utf-8"))
        if since is not None and not float(note["at"]) >= since:
            return None
        return load(home.environments / Path(note["environment"]).name)
    except (OSError, ValueError, KeyError, TypeError, ToolError):
        return None  # a note only saves work


def noted_in(path: Path) -> str:
    """The environment that a note names; empty where it cannot be read."""
    try:
        return Path(json.loads(path.read_text(encoding="utf-8"))["environment"]).name
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def note(home: Home, request: Request, environment: Environment, at: float) -> None:
    folder = home.environments / NOTES
    folder.mkdir(exist_ok=True)
    write(folder / request.key, json.dumps({"environment": environment.name, "at": at}))


def write(path: Path, text: str) -> None:
    """Whole or not at all, and on disk."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
