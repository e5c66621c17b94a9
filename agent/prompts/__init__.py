"""What a model is told, as text files of this folder."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """The text ``NAME.md``, without white space around it."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
