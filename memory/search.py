"""What is asked of findings, as SQL: filters, words, and how results are ranked. No heavy imports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory.database import StoreError
from memory.terms import FindingStatus

MOST_WORDS = 40
MOST_CHARACTERS = 2000
MOST_RANKED = 2000
"""Hits of a search that are ranked."""
CURRENT = FindingStatus.CURRENT.value
STATUS_WORTH = {"current": 1.0, "contradicted": 0.7, "superseded": 0.4}
LEVEL_WORTH = {"report": 0.6, "static": 0.8, "compile": 0.9, "imported": 0.95, "probe": 1.0, "server": 1.1,
               "stress": 1.2, "benchmark": 1.2}  # fmt: skip

_FINDING_FILTERS = (
    "component", "backend", "arch", "engine", "level", "verdict", "outcome", "origin",
)  # fmt: skip


def filters(
    statuses: Iterable[str],
    disputed: bool,
    packages: Mapping[str, str] | None,
    equal: Mapping[str, str | None],
) -> tuple[list[str], list[Any]]:
    """Conditions on findings, and what stands for their ``?``."""
    where, values = _equal(equal, _FINDING_FILTERS)
    wanted = tuple(statuses)
    if wanted:
        also = " OR (status = 'contradicted' AND replaced_by IS NULL)" if disputed else ""
        where.append(f"(status IN ({', '.join('?' * len(wanted))}){also})")
        values += wanted
    if len(packages or {}) > MOST_WORDS:
        raise StoreError(
            f"{len(packages or {})} packages are too many to look for; give at most {MOST_WORDS}"
        )
    for name, version in (packages or {}).items():
        where.append(
            "EXISTS (SELECT 1 FROM json_each(packages) WHERE"
            " lower(replace(replace(key, '_', '-'), '.', '-')) = ? AND (? = '' OR value = ?))"
        )
        values += [name.lower().replace("_", "-").replace(".", "-"), version, version]
    return where, values


def query(text: str, sentence: Mapping[str, str]) -> str | None:
    """What is looked for, as the index of words takes it; None for what has no word in it.

    ``sentence``: values of filters. They stand in a finding's sentence, so asking for them there leaves fewer
    to be ranked.
    """
    words = text.split()
    if len(words) > MOST_WORDS or len(text) > MOST_CHARACTERS:
        raise StoreError(
            f"{len(words)} words of {len(text)} characters are too many to look for; "
            f"give at most {MOST_WORDS} of {MOST_CHARACTERS} in all"
        )
    if not words or not all(any(character.isalnum() for character in word) for word in words):
        return None
    parts = [f"{_phrase(word)} *" for word in words]
    parts += [
        f"sentence : {_phrase(sentence[key])}" for key in ("component", "backend", "arch") if key in sentence
    ]
    return " AND ".join(parts)


def _phrase(word: str) -> str:
    return '"' + word.replace('"', '""').replace("\0", "") + '"'


def worth(column: str, worth: Mapping[str, float]) -> str:
    whens = " ".join(f"WHEN '{value}' THEN {factor}" for value, factor in worth.items())
    return f"CASE {column} {whens} ELSE 1.0 END"


def _equal(given: Mapping[str, str | None], allowed: tuple[str, ...]) -> tuple[list[str], list[Any]]:
    unknown = set(given) - set(allowed)
    if unknown:
        raise TypeError(f"no such filter: {', '.join(sorted(unknown))}; there are {', '.join(allowed)}")
    chosen = {name: value for name, value in given.items() if value}
    return [f"{name} = ?" for name in chosen], list(chosen.values())
