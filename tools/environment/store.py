"""The environments there are: those kept under the home, and folders of others read in place.

A stored environment is ``environments/NAME/`` with ``environment.json`` and ``site/``. The folder gets its
name only when it is complete (see :mod:`tools.environment.create`), so what is listed can be used.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from memory.home import Home
from tools.base import ToolError
from tools.environment.adopt import adopt
from tools.environment.model import Environment

DESCRIPTION = "environment.json"
SITE = "site"
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
        environment = Environment.model_validate_json(text)
    except (OSError, ValidationError, UnicodeDecodeError) as error:
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
    return environment.model_copy(update={"path": str(site), "name": folder.name})


def open_environment(home: Home, name_or_path: str) -> Environment:
    """An environment by name, by an unambiguous beginning of a name, or by the path of a folder.

    A path is what holds a separator, begins with ``.`` or ``~``, or is no name but an existing folder.
    Raises :class:`ToolError`.
    """
    given = name_or_path.strip()
    if not given:
        raise ToolError("no environment was named; expected a name or a folder, see: agent environment list")
    if os.sep in given or given.startswith((".", "~")):
        return _open_folder(home, Path(given).expanduser())
    names = _names(home)
    if given in names:
        return load(home.environments / given)
    matches = [name for name in names if name.startswith(given)]
    if len(matches) == 1:
        return load(home.environments / matches[0])
    if matches:
        raise ToolError(f"{given!r} fits several environments: {', '.join(matches)}; give more of the name")
    if Path(given).is_dir():
        return _open_folder(home, Path(given))
    there = f"there are {', '.join(names)}" if names else "there is none yet"
    raise ToolError(f"no environment {given!r}: {there}; create one with: {CREATE}", missing=True)


def _open_folder(home: Home, path: Path) -> Environment:
    folder = Path(os.path.normpath(path.absolute()))
    for candidate in (folder, folder.parent):
        if candidate.parent == home.environments and (candidate / DESCRIPTION).is_file():
            return load(candidate)
    return adopt(folder)


def _names(home: Home) -> list[str]:
    if not home.environments.is_dir():
        return []
    return sorted(
        folder.name
        for folder in home.environments.iterdir()
        if not folder.name.startswith(".") and (folder / DESCRIPTION).is_file()
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{DESCRIPTION}: {'.'.join(str(part) for part in first['loc']) or 'text'}: {first['msg']}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{DESCRIPTION}: {error}"
