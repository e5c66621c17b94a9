"""The word lists of ``data/question.toml``, and what they make of a quantisation's many names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from agent.text import squeeze

DEFAULT_ENGINE = "sglang"
SHORTEST_MISSPELT = 5
"""Letters of the shortest name of a quantisation that a slip is looked for in."""


class QuestionError(Exception):
    """The question cannot be taken as it stands. One line: what was read, what was expected."""


@cache
def words_data() -> dict[str, Any]:
    """The word lists."""
    return tomllib.loads((Path(__file__).parent / "data" / "question.toml").read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """``text`` in lower case without blanks, hyphens and underscores: how words are compared."""
    return re.sub(r"[\s_-]+", "", text).lower()


@cache
def phrases(table: str) -> dict[str, str]:
    """Plain phrase → the name it stands for, of one table."""
    return {plain(word): name for name, entry in words_data()[table].items() for word in entry["words"]}


@cache
def gpu_hints() -> frozenset[str]:
    """Words that a GPU's name begins with, known or not."""
    return frozenset(words_data()["gpu_hints"]["words"])


@cache
def filler() -> frozenset[str]:
    """Words that say nothing."""
    return frozenset(words_data()["filler"]["words"].split())


def known_quantisation(text: str) -> str:
    """The one quantisation that ``text`` names as a whole. Raises :class:`QuestionError`."""
    named = quantisation_named(text)
    found = one_quantisation({named}) if named else None
    if found is None:
        known = ", ".join(words_data()["quantisation"])
        raise QuestionError(f"unknown quantisation {squeeze(text)!r}; expected one of {known}")
    return found


@cache
def _families() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, entry in words_data()["quantisation"].items():
        for family in entry.get("family", ()):
            found[family] = (*found.get(family, ()), name)
    return found


def quantisation_named(text: str) -> str | None:
    """The quantisation, or the family of several, that ``text`` names as a whole."""
    word = plain(text)
    return phrases("quantisation").get(word) or (word if word in _families() else None)


def quantisations_in(model: str) -> set[str]:
    """Quantisations that a model's own name carries, e.g. ``…-A17B-NVFP4``."""
    parts = [part for part in re.split(r"[-_/\s]+", model) if part]
    return {
        named
        for size in (1, 2)
        for start in range(len(parts) - size + 1)
        if (named := quantisation_named("".join(parts[start : start + size])))
    }


def refuse_unjudged(model: str) -> None:
    """Raises :class:`QuestionError` where a part of a model's name is a quantisation that is not known here,
    or one misspelt: the answer would be that of a model without any."""
    long = [word for word in phrases("quantisation") if len(word) >= SHORTEST_MISSPELT]
    for part in re.split(r"[-_/\s]+", re.sub(r"(\d)[-_\s](?=bits?\b)", r"\1", model.lower())):
        if quantisation_named(part):
            continue
        if part in words_data()["unjudged"]["words"].split():
            known = ", ".join(words_data()["quantisation"])
            raise QuestionError(
                f"{part!r} is no quantisation known here; name one of {known}, or leave it out "
                "(--scenario quantization=NAME judges by the engine's own name for it)"
            )
        looks_like_one = len(part) >= SHORTEST_MISSPELT and re.search(r"\d", part)
        if looks_like_one and (near := get_close_matches(part, long, 1, 0.8)):
            raise QuestionError(f"{squeeze(part)!r} is no quantisation known here; did you mean {near[0]}?")


def one_quantisation(named: set[str]) -> str | None:
    """The one that all of ``named`` agree on. Raises :class:`QuestionError` where that is not one."""
    table, families = words_data()["quantisation"], _families()
    exact = {name for name in named if name in table}
    for family in sorted(named - exact):
        if not exact & set(families[family]):
            raise QuestionError(
                f'"{family}" fits several quantisations: {", ".join(families[family])}; name one'
            )
    exact -= {implied for name in exact for implied in table[name].get("implies", ())}
    if len(exact) > 1:
        both = " and ".join(sorted(exact))
        raise QuestionError(f"{both} cannot both be the quantisation of one model; name one")
    return next(iter(exact), None)


def is_engine(package: str) -> bool:
    """Whether a distribution is an engine that can be investigated."""
    return bool(words_data()["package"].get(package, {}).get("engine"))


def one_engine(packages: Iterable[str]) -> str | None:
    """The only engine among packages, None where there is none or more than one."""
    found = [name for name in dict.fromkeys(packages) if is_engine(name)]
    return found[0] if len(found) == 1 else None
