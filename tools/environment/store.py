"""The environments there are: those kept under the home, and folders of others read in place.

A stored environment is ``environments/NAME/`` with ``environment.json`` and ``site/``. The folder gets its
name only when it is complete (see :mod:`tools.environment.create`), so what is listed can be used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory.home import Home
from memory.names import few
from tools.environment.adopt import adopt
from tools.environment.history import Chosen, read_history
from tools.environment.model import Environment, read_description
from tools.errors import ToolError
from tools.source.tree import read_head

DESCRIPTION = "environment.json"
SITE = "site"
ORIGIN = "origin.json"
"""Beside the description of a copy: where it is from, and which packages are checkouts there."""
CREATE = "agent environment create -p PACKAGE==VERSION"


def list_environments(home: Home) -> list[Environment]:
    """Every complete stored environment, by name. A folder that cannot be read as one is left out."""
    if not home.environments.is_dir():
        return []
    found = []
    for folder in sorted(home.environments.iterdir()):
        if folder.name.startswith("."):
            continue
        try:
            found.append(load(folder))
        except ToolError:
            continue
    return found


def load(folder: Path) -> Environment:
    """The stored environment in ``folder``. Raises :class:`ToolError` if it is not one or was damaged."""
    try:
        text = (folder / DESCRIPTION).read_text(encoding="utf-8")
        environment = read_description(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ToolError(
            f"environment {folder.name} is damaged ({_reason(error)}); remove {folder} and create it again",
            missing=True,
        ) from error
    site = folder / SITE
    if not site.is_dir():
        raise ToolError(
            f"environment {folder.name} has lost its packages; remove {folder} and create it again",
            missing=True,
        )
    # The home may have been moved since: where it lies now is what counts.
    return replace(environment, path=str(site), name=folder.name)


def open_environment(home: Home, name_or_path: str) -> Environment:
    """An environment by name, by an unambiguous beginning of one, or by the path of a folder. A name that
    was given to it (:mod:`tools.environment.history`) means what it stands for now.

    A path is what holds a separator, begins with ``.`` or ``~``, or is no name but an existing folder.
    Raises :class:`ToolError`.
    """
    found = _find(home, name_or_path.strip())
    return found if isinstance(found, Environment) else adopt(found)


def chosen(environment: Environment) -> Chosen:
    """How a history notes it."""
    where = environment.path if environment.kind == "adopted" else environment.name
    return Chosen(where, environment.fingerprint)


def open_for(context: Any, name_or_path: str) -> Environment:
    """The same for a tool. Where ``context.folders`` is set, a folder of someone else's must be one of these:
    which folders may be read is for the person to say, and a driver only names them again."""
    found = _find(context.home, name_or_path.strip())
    if isinstance(found, Environment):
        return found
    allowed: Iterable[Path] | None = getattr(context, "folders", None)
    if allowed is not None and found.resolve() not in {folder.resolve() for folder in allowed}:
        raise ToolError(
            f"{found} is not one of the folders that may be read here; a person can give it with -e, "
            "or name an environment: agent environment list"
        )
    return adopt(found)


def origin_of(environment: Environment) -> dict[str, Any]:
    """Where a copy is from: ``from``, ``folder`` and ``checkouts``; empty of what is no copy."""
    try:
        told = json.loads(read_head(environment.root.parent / ORIGIN) or "{}")
    except ValueError:
        return {}
    known = isinstance(told, dict) and isinstance(told.get("checkouts"), dict) and "from" in told
    return told if known else {}


def _find(home: Home, given: str) -> Environment | Path:
    """The stored environment that is meant, or the folder."""
    if not given:
        raise ToolError("no environment was named; expected a name or a folder, see: agent environment list")
    shown = given if len(given) <= 120 else given[:119] + "…"
    try:
        if os.sep in given or given.startswith((".", "~")):
            return _stored(home, Path(given).expanduser())
        names = _names(home)
        if given in names:
            return load(home.environments / given)
        if (history := read_history(home, given)) is not None:
            chosen = history.current.environment
            return _stored(home, Path(chosen)) if os.sep in chosen else load(home.environments / chosen)
        matches = [name for name in names if name.startswith(given)]
        if len(matches) == 1:
            return load(home.environments / matches[0])
        if matches:
            raise ToolError(f"{given!r} fits several environments: {few(matches)}; give more of the name")
        if Path(given).is_dir():
            return _stored(home, Path(given))
    except (OSError, ValueError, RuntimeError) as error:
        # A name too long for the file system, one with a NUL, the home of someone who is not there.
        why = getattr(error, "strerror", None) or str(error)
        raise ToolError(f"{shown!r} is no environment ({why}); see: agent environment list") from error
    there = f"there are {few(names)}" if names else "there is none yet"
    raise ToolError(f"no environment {shown!r}: {there}; create one with: {CREATE}", missing=True)


def _stored(home: Home, path: Path) -> Environment | Path:
    folder = Path(os.path.normpath(path.absolute()))
    folder.is_dir()  # raises for what no file system takes as a name
    for candidate in (folder, folder.parent):
        if candidate.parent == home.environments and (candidate / DESCRIPTION).is_file():
            return load(candidate)
    return folder


def _names(home: Home) -> list[str]:
    if not home.environments.is_dir():
        return []
    return sorted(
        folder.name
        for folder in home.environments.iterdir()
        if not folder.name.startswith(".") and (folder / DESCRIPTION).is_file()
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{DESCRIPTION}: {error}"
