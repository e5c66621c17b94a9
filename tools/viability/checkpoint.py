"""A model's ``config.json``: what it says of the model's classes, quantisation and sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from memory.canonical import text_sha256
from tools.errors import ToolError
from tools.viability.interpreter.values import Kind, Open, Taint, Tainted, of
from tools.viability.profile import libraries, scenarios

NAMES = libraries()["checkpoint"]
CONFIG = of(Kind.CONFIG)
OBJECT = "checkpoint config"
"""What the object for one is called where it is written down."""
OBJECTS: dict[str, bool] = NAMES["objects"]
"""Names under which a running engine keeps the config, and whether it is that of the text alone."""


PLAIN = "bf16"
"""The scheme of a model that says nothing of any."""

LARGEST = 1 << 40
"""What a size may be; a greater one is none."""
SHOWN = 60
"""Characters that are shown of what is none."""

SCHEME: list[str] = NAMES["scheme"]
"""Words by which a quantisation is told, the one that must be there first."""


@dataclass(frozen=True)
class Checkpoint:
    """One ``config.json``. Make it with :func:`read_checkpoint`."""

    text: str

    @cached_property
    def data(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.text)
        return loaded

    @property
    def digest(self) -> str:
        """What it is called in a scenario: the same content, the same name."""
        return text_sha256(self.text)[:12]

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that may serve it, as the file names them."""
        named = self.data.get(NAMES["classes"])
        return tuple(str(one) for one in named) if isinstance(named, list) else ()

    @property
    def quantisation(self) -> dict[str, Any] | None:
        """What it says of its quantisation; of a model of several parts, the first that says something."""
        parts = (self.data, *(self.data.get(name) for name in NAMES["parts"]))
        told = (part.get(name) for part in parts if isinstance(part, dict) for name in NAMES["quantisation"])
        return next((one for one in told if isinstance(one, dict)), None)

    def scheme(self) -> str:
        """Its quantisation as a scheme of ours, else the method by the file's own word.

        The words that both sides say must agree: the method, and the algorithm or size where both tell it.
        """
        told = self.quantisation
        if told is None:
            return PLAIN
        for name, entry in scenarios().items():
            known = entry.get("checkpoint", {})
            both = [key for key in SCHEME if key in known and key in told]
            if both[:1] == SCHEME[:1] and all(_same(known[key], told[key]) for key in both):
                return name
        return str(told.get(SCHEME[0], PLAIN))

    def opened(self, *, text: bool = False) -> Open:
        """The engine's object for it, or for its part on ``text``: its fields depend on the model, others are
        not known."""
        part = next((self.data[name] for name in NAMES["parts"] if name in self.data), self.data)
        return _opened(part if text and isinstance(part, dict) else self.data)


def _same(one: Any, other: Any) -> bool:
    return str(one).lower() == str(other).lower()


def read_checkpoint(text: str, name: str) -> Checkpoint:
    """A ``config.json`` by its text; ``name`` is said where it is none. Raises :class:`ToolError`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{name} is no JSON ({error}); expected a model's config.json") from None
    checkpoint = Checkpoint(json.dumps(data, sort_keys=True))
    if not isinstance(data, dict) or not checkpoint.classes:
        raise ToolError(f"{name} has no list {NAMES['classes']!r}; expected a model's config.json")
    wrong = next(_nonsense(data), None)
    if wrong is not None:
        raise ToolError(f"{name}: {wrong}; no model has that, nothing is said of one")
    return checkpoint


def _nonsense(data: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """What a config says of sizes that no model can have, and what was expected; its parts included."""
    for key, value in data.items():
        if isinstance(value, dict) and key in NAMES["parts"]:
            yield from _nonsense(value, f"{within}{key}.")
        for names, least in ((NAMES["positive"], 1), (NAMES["counted"], 0)):
            # One for each layer: some layers may have none.
            every, least = (value, 0) if isinstance(value, list) else ([value], least)
            if key in names and not all(one is None or _counts(one, least) for one in every):
                yield f"{within}{key} is {_shown(value)}, expected a whole number{' above 0' * least}"


def _counts(value: Any, least: int) -> bool:
    return type(value) is int and least <= value <= LARGEST


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _opened(data: Mapping[str, Any], why: Taint = CONFIG) -> Open:
    attrs = {name: value_of(value, why) for name, value in data.items()}
    return Open(OBJECT, attrs, supply=_reader(data, attrs))


def _reader(data: Mapping[str, Any], attrs: dict[str, Any]) -> Callable[[str], Any]:
    """A part that models of one part leave out is the whole."""

    def supply(name: str) -> Any:
        if name in NAMES["parts"] and not any(part in data for part in NAMES["parts"]):
            return _opened(data)
        return NotImplemented

    return supply


def value_of(value: Any, why: Taint = CONFIG) -> Any:
    """A value of the config, every word of which depends on ``why``."""
    if isinstance(value, dict):
        return _opened(value, why)
    if isinstance(value, list):
        return Tainted([value_of(item, why) for item in value], why)
    return Tainted(value, why)
