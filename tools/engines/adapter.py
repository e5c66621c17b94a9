"""Engines as data: one small profile each says how an engine is called, started and laid out."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from memory.names import few
from tools.errors import ToolError
from tools.source.tree import SourceTree


@dataclass(frozen=True)
class Launch:
    """Parts of a launch command. An empty ``model`` means that the model is a positional argument."""

    command: tuple[str, ...]
    model: str
    quantisation: str
    tensor_parallel: str
    host: str
    port: str


@dataclass(frozen=True)
class Engine:
    """An inference engine that can be investigated."""

    name: str
    distribution: str
    root: str
    """Top-level package folder."""
    options_under: tuple[str, ...]
    """Folders (or files) of the tree in which the server's own options are declared."""
    models_under: tuple[str, ...]
    model_symbol: str
    """Module-level name that holds a model module's classes; empty where only dictionaries register them."""
    launch: Launch
    kernel_distributions: tuple[str, ...] = ()

    def installed(self, tree: SourceTree) -> bool:
        """Whether the engine's package lies in ``tree``."""
        return (tree.root / self.root).is_dir()


def engines() -> dict[str, Engine]:
    """All engines with a profile, by name."""
    return dict(_load())


def engine(name: str) -> Engine:
    """The engine called ``name``. Raises :class:`ToolError` naming the known ones."""
    known = _load()
    found = known.get(name.strip().lower())
    if found is None:
        raise ToolError(f"unknown engine {name!r}; known: {', '.join(known)}")
    return found


def require_installed(name: str, tree: SourceTree) -> Engine:
    """The engine called ``name`` if its package is in ``tree``, else :class:`ToolError` with the fix."""
    found = engine(name)
    if not found.installed(tree):
        packages = few([f"{p} {v}" for p, v in sorted(tree.packages.items())], 4) or "nothing"
        raise ToolError(
            f"{found.name} is not in this environment ({packages}); "
            f"create one that has it: agent environment create -p {found.distribution}==VERSION",
            missing=True,
        )
    return found


@cache
def _load() -> dict[str, Engine]:
    folder = files("tools.engines") / "profiles"
    found = [
        _engine(tomllib.loads(entry.read_text(encoding="utf-8")))
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    ]
    return {engine.name: engine for engine in found}


def _engine(data: dict[str, Any]) -> Engine:
    launch = data["launch"]
    return Engine(
        name=data["name"],
        distribution=data["distribution"],
        root=data["root"],
        options_under=tuple(data["options_under"]),
        models_under=tuple(data["models_under"]),
        model_symbol=data.get("model_symbol", ""),
        launch=Launch(command=tuple(launch.pop("command")), **launch),
        kernel_distributions=tuple(data.get("kernels", {}).get("distributions", ())),
    )
