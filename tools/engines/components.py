"""The name of the component that an option belongs to, derived from its flag by rule."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _rules() -> dict[str, Any]:
    return tomllib.loads((files("tools.engines") / "components.toml").read_text(encoding="utf-8"))


def words_of(flag_or_field: str) -> list[str]:
    """The words of ``--moe-runner-backend`` or ``moe_runner_backend``, in the vocabulary's spelling."""
    words = flag_or_field.lstrip("-").lower().replace("-", "_").replace(".", "_").split("_")
    return [_rules()["words"].get(word, word) for word in words if word]


def component_of(flag_or_field: str) -> str:
    """``--moe-runner-backend`` → ``moe_runner``, ``--kv-cache-dtype`` → ``kv_cache``."""
    words = words_of(flag_or_field)
    while len(words) > 1 and words[-1] in _rules()["suffixes"]["words"]:
        words.pop()
    name = "_".join(words)
    return str(_rules()["phrases"].get(name, name))


def chooses_implementation(flag_or_field: str) -> bool:
    """Whether the option's words say that its values are implementations of the same thing."""
    marks = _rules()["implementations"]["words"]
    return any(word in marks for word in words_of(flag_or_field))


def common_components() -> list[str]:
    """Names of components that the vocabulary has; an engine may have more."""
    return list(_rules()["vocabulary"]["names"])
