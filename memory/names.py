"""Names: of distributions, written in many ways that mean the same; many in one line. No pydantic here."""

from __future__ import annotations

import re
from collections.abc import Sequence


def distribution(name: str) -> str:
    """A distribution's name as comparisons use it: lower case, runs of ``-_.`` as one hyphen."""
    return re.sub(r"[-_.]+", "-", name).lower()


def few(names: Sequence[str], most: int = 8) -> str:
    """``a, b, c``; of more than ``most`` the first ones and how many more there are."""
    left = len(names) - most
    return ", ".join(names) if left <= 1 else f"{', '.join(names[:most])} and {left} more"
