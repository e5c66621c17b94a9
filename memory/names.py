"""Names of distributions, written in many ways that mean the same. No pydantic: read paths use it."""

from __future__ import annotations

import re


def distribution(name: str) -> str:
    """A distribution's name as comparisons use it: lower case, runs of ``-_.`` as one hyphen."""
    return re.sub(r"[-_.]+", "-", name).lower()
