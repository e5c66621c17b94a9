"""Paths of the investigated program. A file of the tree is called as if the tree were the root of all."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from tools.viability.interpreter.concrete import concrete_method
from tools.viability.interpreter.dispatch import reader
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Frame
from tools.viability.interpreter.values import UNKNOWN, FilePath, Native, Taint


def made_of(parts: list[Any]) -> Any:
    """``Path(*parts)``, where all of them are known."""
    if parts and all(isinstance(part, (str, PurePosixPath)) for part in parts):
        return FilePath(*parts)
    return UNKNOWN


def is_there(m: Machine, path: str | PurePosixPath) -> Any:
    """Whether a file exists: known of what lies in the tree, and of what a package in the tree lacks."""
    parts = FilePath(path).parts
    if len(parts) < 2 or parts[0] != "/" or parts[1] not in m.world.roots:
        return UNKNOWN
    return (m.world.tree.root / "/".join(parts[1:])).exists()


@reader(FilePath)
def _of_path(m: Machine, v: FilePath, name: str, frame: Frame | None, node: Any, t: Taint) -> Any:
    if name in ("resolve", "absolute", "expanduser"):
        return Native(name, lambda *_: v)
    if name in ("exists", "is_file", "is_dir"):
        return Native(name, lambda m_, *_: is_there(m_, v))
    if name == "parents":
        return tuple(v.parents)
    return concrete_method(v, name)
