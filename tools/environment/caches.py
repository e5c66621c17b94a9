"""Where compilers and just-in-time kernels of an environment keep what they build: each environment its own.

Keyed by fingerprint, so that what was compiled for other packages is never taken for these, and what was is
found again after going back.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path

from memory.home import Home
from tools.environment.model import Environment

_DATA = Path(__file__).with_name("data") / "variables.toml"


def cache_variables(home: Home, environment: Environment) -> dict[str, str]:
    """Environment variables for a process that runs in it: variable → absolute folder."""
    folder = cache_of(home, environment.fingerprint)
    named = tomllib.loads(_DATA.read_text(encoding="utf-8"))["caches"]
    return {variable: str(folder / name) for variable, name in named.items()}


def stale_caches(home: Home, there: Iterable[Environment]) -> list[Path]:
    """Caches of environments that are gone; of folders of others, too, which can be compiled for again."""
    kept = {cache_of(home, environment.fingerprint) for environment in there}
    return sorted(set((home.root / "caches").glob("*")) - kept)


def clear(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def cache_of(home: Home, fingerprint: str) -> Path:
    """The folder of all of an environment's caches."""
    return home.root / "caches" / fingerprint[:16]
