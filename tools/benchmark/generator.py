"""The load generator that an engine brings along: found in its environment, its options in its source.

Nothing here makes load. What a generator is called and what its options mean is data, ``generators.toml``.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tools.environment.model import Environment
from tools.errors import ToolError

RESULT = "result.json"


@dataclass(frozen=True)
class Load:
    """What one run of a generator asks for. ``input``, ``output``: tokens of each request."""

    concurrency: int
    input: int
    output: int
    prompts: int
    seed: int = 0


@dataclass(frozen=True)
class Generator:
    """``itl``: whether its inter-token latency is by ``token`` or by ``chunk``; ``key``: the variable in
    which it looks for a server's key."""

    name: str
    module: str
    arguments: tuple[str, ...]
    flags: Mapping[str, str]
    fixed: Mapping[str, str]
    switches: tuple[str, ...]
    key: str
    itl: str

    def command(
        self, python: Path, load: Load, folder: Path, *, url: str, model: str, tokenizer: str | None
    ) -> list[str]:
        """What to run in ``folder``, where it leaves :data:`RESULT`. ``model``: its name at the server."""
        given = {
            "url": url, "model": tokenizer or model, "served": model, "tokenizer": tokenizer,
            "prompts": load.prompts, "concurrency": load.concurrency, "input": load.input,
            "output": load.output, "seed": load.seed,
            "folder": str(folder) if "folder" in self.flags else None,
            "file": RESULT if "folder" in self.flags else str(folder / RESULT),
        }  # fmt: skip
        words = [str(python), "-P", "-m", self.module, *self.arguments]
        for flag, fixed in self.fixed.items():
            words += [flag, fixed]
        for name, value in given.items():
            if value is not None:
                words += [self.flags[name], str(value)]
        return [*words, *self.switches]


def generator_of(environment: Environment, engine: str) -> Generator:
    """The generator of ``engine`` as this version has it. Raises :class:`ToolError` where it has none, or one
    that does not know what a run must ask for."""
    data = next((one for one in _generators() if one["engine"] == engine), None)
    if data is None:
        known = ", ".join(one["engine"] for one in _generators())
        raise ToolError(f"no load generator of {engine!r} is known; known: {known}")
    root = environment.root
    module = next((name for file, name in data["modules"] if (root / file).is_file()), None)
    if module is None:
        raise ToolError(
            f"{data['name']} is not in {environment.name}; name the environment that holds {engine}",
            missing=True,
        )
    there = {flag for file in _sources(root, data["declared"]) for flag in _declared(file)}
    needed = [*data["flags"].values(), *data["fixed"], data["details"]]
    if lacking := [flag for flag in needed if flag not in there]:
        raise ToolError(
            f"{data['name']} of this version knows no {lacking[0]}: a fair load cannot be asked for"
        )
    switches = [data["details"], *(flag for flag in data["switches"] if flag in there)]
    return Generator(
        name=data["name"],
        module=module,
        arguments=tuple(data["arguments"]),
        flags=data["flags"],
        fixed=data["fixed"],
        switches=tuple(switches),
        key=data["key"],
        itl=data["itl"],
    )


def _sources(root: Path, declared: list[str]) -> Iterator[Path]:
    for name in declared:
        place = root / name
        if place.is_dir():
            yield from sorted(place.rglob("*.py"))
        elif place.is_file():
            yield place


def _declared(file: Path) -> Iterator[str]:
    """The options that a file declares with ``add_argument``."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "add_argument":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


@cache
def _generators() -> tuple[dict[str, Any], ...]:
    data = tomllib.loads((files("tools.benchmark") / "generators.toml").read_text("utf-8"))
    return tuple(data["generator"])
