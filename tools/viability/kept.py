"""What was worked out under a scenario, found again by what it asked of it.

A run looks at some facts of its scenario and at no others. Whatever those others are, it comes out the same:
so it is done once for all scenarios that answer alike what it asked. Most checks of options never look at the
device, for one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tools.viability.facts import Facts

Result = TypeVar("Result")


class Kept(Generic[Result]):
    """Results by a key, which holds all that a scenario cannot be asked for, and by what was asked."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[tuple[dict[str, object], Result]]] = {}

    def of(self, key: Hashable, facts: Facts, work: Callable[[Facts], Result]) -> Result:
        """``work(facts)``, or what it gave before; ``facts.asked`` tells what was asked either way.

        ``facts`` must be fresh: what it has been asked already counts as asked by ``work``.
        """
        answers = facts.answers()
        found = self._found.setdefault(key, [])
        for asked, result in found:
            if asked.items() <= answers.items():
                facts.asked.update(asked)
                return result
        result = work(facts)
        facts.rest()
        gc.collect(0)  # what the run made refers to itself in circles; it was all made a moment ago
        found.append((dict(facts.asked), result))
        return result

    def clear(self) -> None:
        self._found.clear()
