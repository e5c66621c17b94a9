"""Packages that lie where they cannot be read in place: in an image, on another host, or partly in checkouts.

``docker:IMAGE`` and ``ssh://HOST/PATH`` are copied once, and so is a virtual environment with packages that
are installed as checkouts: their files lie outside of it. What is copied is what an investigation reads: the
engines and kernel libraries whole, of everything else what is installed in which version. Nothing there is
executed or changed. The copy is an environment like others, named after what was found: where that has
changed, another is made beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memory.home import Home
from tools.engines.adapter import engines
from tools.environment.adopt import packages_folder
from tools.environment.changes import has_checkouts, told

if TYPE_CHECKING:
    from tools.environment.places.place import Place

DOCKER = "docker:"
SSH = "ssh://"


def arrived(home: Home, given: str, progress: Callable[[str], None]) -> str:
    """What to open in place of ``given``: the name of the copy where one is needed, else ``given`` itself.

    Raises :class:`tools.errors.ToolError`.
    """
    place = _place(given)
    if place is None:
        return given
    # What copies takes long to import, and is seldom needed.
    from tools.environment.places.copying import copied

    return copied(home, place, progress).name


def _place(given: str) -> Place | None:
    if given.startswith(DOCKER):
        from tools.environment.places.docker import Docker

        return Docker(given.removeprefix(DOCKER))
    if given.startswith(SSH):
        from tools.environment.places.ssh import Ssh

        return Ssh(given)
    if has_checkouts(path := _home(given)):
        from tools.environment.places.local import Local

        return Local(path)
    return None


def local_changes(home: Home, given: str) -> list[str]:
    """A line for each engine and kernel library of a folder read in place that is not as it was installed."""
    path = _home(given).absolute()
    if os.sep not in given or home.environments in path.parents:
        return []
    try:
        read = {name for one in engines().values() for name in (one.distribution, *one.kernel_distributions)}
        return told(packages_folder(path), read) if path.is_dir() else []
    except OSError:
        return []  # whoever opens it says why


def _home(given: str) -> Path:
    try:
        return Path(given).expanduser()
    except RuntimeError:
        return Path(given)


__all__ = ["arrived", "local_changes"]
