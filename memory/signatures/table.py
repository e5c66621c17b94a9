"""The table of signatures, read from its data file. No pydantic here: read paths use it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from memory.terms import Outcome

_DATA = Path(__file__).parents[1] / "data" / "signatures.toml"


@dataclass(frozen=True, eq=False)
class Signature:
    """A line that tells how something ended. Fields as in the head of ``data/signatures.toml``."""

    id: str
    pattern: str
    outcome: Outcome
    kind: str
    """The ``class`` of the data file."""
    advice: str
    sources: tuple[str, ...]
    fatal: bool = True
    after: bool = False
    ends: bool = False
    wraps: bool = False
    stops: bool = False
    explains: bool = False
    component: str | None = None
    backend: str | None = None
    operations: Mapping[str, str] = field(default_factory=dict)
    """Operator of a library → the component that it serves."""


@cache
def signatures() -> tuple[Signature, ...]:
    """All signatures, in the order of the data file: of several that fit a line, the first says most."""
    return tuple(_signature(name, entry) for name, entry in _data()["signature"].items())


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(_DATA.read_text("utf-8"))


CLASSES: Mapping[str, str] = _data()["classes"]
"""Kind of cause → in words."""


def _signature(name: str, entry: dict[str, Any]) -> Signature:
    return Signature(
        id=name,
        pattern=entry["pattern"],
        outcome=Outcome(entry["outcome"]),
        kind=entry["class"],
        advice=entry["advice"],
        sources=tuple(entry["sources"]),
        fatal=entry.get("fatal", True),
        after=entry.get("after", False),
        ends=entry.get("ends", False),
        wraps=entry.get("wraps", False),
        stops=entry.get("stops", False),
        explains=entry.get("explains", False),
        component=entry.get("component"),
        backend=entry.get("backend"),
        operations=entry.get("operations", {}),
    )
