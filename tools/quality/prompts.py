"""What a server is asked: fixed beginnings, the crowd around them, and questions with one right answer.

All of it is made here from a list of words and a seed: no data set is needed, and no model knows it by heart.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

SHORTEST, LONGEST = 4, 220
"""Words of what the crowd asks."""


@dataclass(frozen=True)
class Question:
    """``answer``: what the first line of a right answer begins with."""

    id: str
    prompt: str
    answer: str

    def right(self, text: str) -> bool:
        said = " ".join(text.strip().split("\n")[0].split()).strip(" .'\"`").lower()
        rest = said[len(self.answer) :]
        return said.startswith(self.answer.lower()) and not rest[:1].isalnum()


def fixed() -> list[str]:
    return list(_data()["prompts"])


def crowd(seed: int, number: int) -> list[str]:
    """``number`` beginnings of all lengths, no two alike."""
    source = _source(seed, "crowd")
    return [
        f"{place}. " + " ".join(source.choices(_data()["words"], k=source.randint(SHORTEST, LONGEST)))
        for place in range(number)
    ]


def questions(seed: int, number: int) -> list[Question]:
    """``number`` questions, each kind as often as the others; each shows two answered ones before it."""
    source = _source(seed, "questions")
    kinds: list[tuple[str, Callable[[random.Random], tuple[str, str]]]] = [
        ("sum", _sum), ("copy", _copy), ("order", _order), ("lookup", _lookup), ("last", _last),
    ]  # fmt: skip
    made = []
    for place in range(number):
        kind, make = kinds[place % len(kinds)]
        shown = [make(source) for _ in range(2)]
        asked, answer = make(source)
        before = "".join(f"Q: {one}\nA: {said}\n\n" for one, said in shown)
        made.append(Question(f"{kind}-{place}", f"{before}Q: {asked}\nA:", answer))
    return made


def _sum(source: random.Random) -> tuple[str, str]:
    left, right = source.randint(10, 99), source.randint(10, 99)
    return f"What is {left} + {right}?", str(left + right)


def _copy(source: random.Random) -> tuple[str, str]:
    words = " ".join(source.sample(_data()["words"], 4))
    return f"Repeat exactly: {words}", words


def _order(source: random.Random) -> tuple[str, str]:
    numbers = source.sample(range(10, 99), 4)
    return (
        f"Sort from smallest to largest: {', '.join(map(str, numbers))}",
        ", ".join(map(str, sorted(numbers))),
    )


def _lookup(source: random.Random) -> tuple[str, str]:
    who = source.sample(_data()["names"], 5)
    rooms = source.sample(range(100, 999), 5)
    listed = ", ".join(f"{name} is in room {room}" for name, room in zip(who, rooms, strict=True))
    wanted = source.randrange(5)
    return f"{listed}. Which room is {who[wanted]} in?", str(rooms[wanted])


def _last(source: random.Random) -> tuple[str, str]:
    words = source.sample(_data()["words"], 6)
    return f"Which word is the last of these: {' '.join(words)}?", words[-1]


def _source(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{purpose} {seed}")  # noqa: S311 - repeatable, no secret


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads((files("tools.quality") / "prompts.toml").read_text("utf-8"))
