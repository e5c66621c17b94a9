"""No backend is named where verdicts are made: profiles and code know no value that an engine declares."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Wheels
from viability_fixtures.support import BACKENDS, TREE

from tools.engines.options import backend_options, discover_options
from tools.source.tree import SourceTree

REPOSITORY = Path(__file__).parent.parent
PROFILES = sorted((REPOSITORY / "tools/viability/profiles").glob("[sv]*lang.toml")) + sorted(
    (REPOSITORY / "tools/viability/profiles").glob("vllm.toml")
)
CODE = sorted(
    path
    for pattern in ("tools/viability/**/*.py", "agent/*.py", "agent/drivers/*.py")
    for path in REPOSITORY.glob(pattern)
)
ENGINES = ("sglang==0.5.9", "sglang==0.5.14", "sglang==0.5.23")


def declared(root: Path) -> set[str]:
    options = backend_options(discover_options(SourceTree(root), "sglang"))
    return {value.value for option in options for value in option.values}


def strings(value: Any) -> Iterator[str]:
    """Every string of a parsed TOML file, keys too."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def literals(path: Path) -> dict[str, int]:
    """String literal → line, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return {
        node.value: node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    }


def named(values: set[str]) -> list[str]:
    """Where one of ``values`` stands as a whole string, or as a word of a longer one in a profile."""
    found = []
    for path in PROFILES:
        for text in strings(tomllib.loads(path.read_text(encoding="utf-8"))):
            words = {text, *re.findall(r"[A-Za-z0-9_]+", text)}
            found += [f"{path.name}: {word!r} in {text!r}" for word in sorted(words & values)]
    for path in CODE:
        lines = literals(path)
        found += [
            f"{path.relative_to(REPOSITORY)}:{lines[text]}: {text!r}" for text in sorted(values & set(lines))
        ]
    return found


def test_there_is_something_to_look_through() -> None:
    assert {path.name for path in PROFILES} == {"sglang.toml", "vllm.toml"}
    assert {path.parent.name for path in CODE} >= {"viability", "interpreter", "agent", "drivers"}
    assert len(CODE) > 15
    # The search itself works: a word that is there is found, in a profile and in code.
    assert any("sglang.toml" in place for place in named({"get_quant_method"}))
    assert any("evidence.py" in place for place in named({"refusal"}))


def test_no_value_of_the_small_engine_is_known() -> None:
    assert declared(TREE) == set(BACKENDS)
    assert named(declared(TREE) - GENERIC) == []


@pytest.mark.network
@pytest.mark.parametrize("engine", ENGINES)
def test_no_value_of_a_real_engine_is_known(wheels: Wheels, engine: str) -> None:
    environment = wheels(engine)
    values = declared(Path(environment.path))
    assert len(values) > 60
    assert named(values - GENERIC) == []


GENERIC = {"auto", "none", "default", "torch", "static", "file", "full", "kernel"}
"""Words that name no kernel library, so that knowing them says nothing about one.

``auto``, ``none`` and ``default`` are how engines say "you choose" and "nothing": what a person chose has to
be told from what the engine picks by itself. ``torch`` is the framework that engines are written in, whose
calls the interpreter must know, ``static`` a kind of method in Python, and ``file`` a field of every piece of
evidence, ``full`` a kind of environment and ``kernel`` a kind of probe; some engines have values that happen
to be spelt so."""
