"""What was worked out under a scenario, found again by what it asked of it.

A run looks at some facts of its scenario and at no others, and at most of them only in passing: whether the
device's number is above nine. Whatever else they are, it comes out the same: so it is done once for all
scenarios that answer alike what it asked. What it asks next depends on nothing but the answers so far, so the
runs under one key make a tree of questions, and looking for one asks no more than the run would.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tools.viability.facts import Facts
from tools.viability.interpreter.asked import Question

Result = TypeVar("Result")


@dataclass(slots=True)
class _Asked(Generic[Result]):
    """A question that every run asks that comes here, and where its answers lead."""

    question: Question
    then: dict[Any, _Asked[Result] | _Found[Result]] = field(default_factory=dict)


@dataclass(slots=True)
class _Found(Generic[Result]):
    result: Result


class Kept(Generic[Result]):
    """Results by a key, which holds all that a scenario cannot be asked for, and by what was asked."""

    def __init__(self) -> None:
        self._trees: dict[Hashable, _Asked[Result] | _Found[Result]] = {}

    def of(self, key: Hashable, facts: Facts, work: Callable[[Facts], Result]) -> Result:
        """``work(facts)``, or what it gave before; ``facts.asked`` tells what was asked either way.

        ``facts`` must be fresh: what it has been asked already counts as asked by ``work``.
        """
        answers, asked = facts.answers(), dict[Question, Any]()
        place = self._trees.get(key)
        while isinstance(place, _Asked):
            asked[place.question] = answer = place.question.under(answers)
            place = place.then.get(answer)
        if place is not None:
            facts.asked.update(asked)
            return place.result
        result = work(facts)
        facts.rest()
        gc.collect(0)  # what the run made refers to itself in circles; it was all made a moment ago
        self._enter(key, facts.asked.items(), result)
        return result

    def _enter(self, key: Hashable, asked: Iterable[tuple[Question, Any]], result: Result) -> None:
        holder, at = self._trees, key
        for question, answer in asked:
            place = holder.setdefault(at, _Asked(question))
            if not isinstance(place, _Asked) or place.question != question:
                return  # not the same run although it was answered alike: nobody else gets it
            holder, at = place.then, answer
        holder[at] = _Found(result)

    def clear(self) -> None:
        self._trees.clear()
