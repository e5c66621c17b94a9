"""Giving back disk space: environments that no name stands for and no finding cites."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memory.home import Home
from memory.views import Views
from tools.environment.caches import clear, stale_caches
from tools.environment.earlier import NOTES, noted_in
from tools.environment.history import histories
from tools.environment.model import Environment
from tools.environment.staging import PARTIAL, Staging, clear_leftovers
from tools.environment.store import list_environments

PART = "*.part"
"""What a writer that was killed leaves beside what it was about to replace."""


@dataclass(frozen=True)
class Space:
    """Bytes on disk that come back when some folders are removed, and those that others hold on to: a file
    that is linked to from outside, as uv's cache does, stays until it goes from there."""

    free: int
    held: int


@dataclass(frozen=True)
class Collection:
    """``kept``: why, by environment; ``gone``: what can be removed, which gives back ``space``."""

    kept: dict[str, str]
    gone: tuple[str, ...]
    space: Space


def collection(home: Home) -> Collection:
    """What could be removed. What findings cite must be folded before: this only reads the rows."""
    environments = list_environments(home)
    kept = _kept(home, environments)
    gone = tuple(one.name for one in environments if one.name not in kept)
    caches = stale_caches(home, [one for one in environments if one.name in kept])
    folders = [[home.environments / name for name in names] for names in (gone, kept)]
    return Collection(kept, gone, space([home.environments / PARTIAL, *caches, *folders[0]], folders[1]))


def collect(home: Home, names: Iterable[str]) -> None:
    """Remove these environments, and what killed makers have left. Each goes in one step: none is ever
    half there."""
    for name in names:
        with Staging(home.environments) as stage:
            (home.environments / name).rename(stage.whole / "gone")
    if (home.environments / PARTIAL).is_dir():
        clear_leftovers(home.environments / PARTIAL)
    environments = list_environments(home)
    clear(stale_caches(home, environments))
    there = {one.name for one in environments}
    for path in (home.environments / NOTES).glob("*"):
        if path.match(PART) or noted_in(path) not in there:
            path.unlink(missing_ok=True)


def _kept(home: Home, environments: Iterable[Environment]) -> dict[str, str]:
    why: dict[str, str] = {}
    views = Views(home)
    for row in views.investigations():
        if row["environment"] and (row["exit_reason"] is None or row["findings"]):
            what = "goes on with it" if row["exit_reason"] is None else "has findings from it"
            why.setdefault(str(row["environment"]), f"{row['id']} {what}")
    cited = {row["packages"]: row["id"] for row in views.findings(statuses=())}
    for environment in environments:
        for packages, finding in cited.items():
            if json.loads(packages).items() <= environment.packages.items():
                why.setdefault(environment.name, f"finding {str(finding)[:8]} cites its packages")
    for history in histories(home):
        if history.previous is not None:
            why[history.previous.environment] = f"{history.name} goes back to it"
    for history in histories(home):
        why[history.current.environment] = f"{history.name} stands for it"
    return {one.name: why[one.name] for one in environments if one.name in why}


def space(gone: Iterable[Path], kept: Iterable[Path]) -> Space:
    """Of removing ``gone``; what ``kept`` has too does not count at all."""
    links: dict[tuple[int, int], int] = {}
    sizes: dict[tuple[int, int], tuple[int, int]] = {}
    for about in _files(gone):
        key = (about.st_dev, about.st_ino)
        links[key] = links.get(key, 0) + 1
        sizes[key] = (about.st_nlink, about.st_blocks * 512)
    for about in _files(kept) if sizes else ():
        sizes.pop((about.st_dev, about.st_ino), None)
    free = sum(size for key, (number, size) in sizes.items() if links[key] == number)
    return Space(free, sum(size for _, size in sizes.values()) - free)


def _files(folders: Iterable[Path]) -> Iterator[os.stat_result]:
    for path in folders:
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(FileNotFoundError):  # somebody else clears up too
                    yield os.lstat(f"{folder}/{name}")
