"""Which of an engine's components an investigation looks at: a rule over names, its words in a data file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tools.engines.options import Option


def relevant(options: Sequence[Option], quantisation: str | None) -> list[Option]:
    """The options whose backends are worth a trace for a target of this quantisation, one per component.

    A component named after a number type counts where the target computes in that type (all of them
    where the question names no quantisation). The option with most values stands for its component.
    """
    data = _data()
    computes = set(data["computes_in"].get(quantisation or "", ()))
    best: dict[str, Option] = {}
    for option in options:
        words = option.component.split("_")
        typed = [word for word in words if word in data["types"]]
        wanted = (
            set(typed) <= computes or quantisation is None if typed else option.component in data["always"]
        )
        if not wanted or option.flag is None or not option.values:
            continue
        known = best.get(option.component)
        if known is None or len(option.values) > len(known.values):
            best[option.component] = option
    # Typed components first: they are what the question is about.
    order = {name: number for number, name in enumerate(data["always"])}
    return sorted(best.values(), key=lambda option: order.get(option.component, -1))


def surely(component: str, quantisation: str | None) -> bool:
    """Whether a target of this quantisation is known to need a component that counts for it: where none was
    named, it may be of another number type than the one that the component is named after."""
    return quantisation is not None or not set(component.split("_")) & set(_data()["types"])


@cache
def _data() -> dict[str, Any]:
    path = Path(__file__).parent / "data" / "relevance.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
