"""A module that a library compiles when it runs, compiled for a target of which no GPU need be there.

The library itself makes the module and its build file, and refuses what it refuses; then its own compiler
commands are run, for all units or for the last few that hold kernels.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import triton_kernel
from .arrays import the_torch

TRITON = "triton"
"""The maker of cells whose function is a kernel of it, not one that makes a module."""

OBJECT = re.compile(r"^build (\S+): (?:\w*compile)\b", re.M)
KERNELS = re.compile(r"^build (\S+): (?:\w*cu\w*compile)\b", re.M)
HOLDS_KERNELS = b"__cudaRegisterFunction"
"""What an object calls for each of its kernels, when it is loaded."""
ERROR = re.compile(r"^.*\b(?:error|fatal)\b.*$", re.M)


class CompileError(Exception):
    """The compiler's first error, then the end of what it said."""


def _value(told: Any) -> Any:
    """``torch.bfloat16`` and the like are types of it."""
    if isinstance(told, str) and told.startswith("torch."):
        return getattr(the_torch(), told.removeprefix("torch."))
    return told


def run(cell: dict[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """``compiled``: the module, its units, those that were compiled (paths of objects), seconds, and whether
    all of them were in the cache already. Raises what the library raises, or :class:`CompileError`."""
    if cell["maker"] == TRITON:
        return triton_kernel.run(cell, stage)
    stage("importing the library")
    module, _, name = cell["function"].partition(":")
    generator = getattr(importlib.import_module(module), name)
    stage("asking for the module")
    begun = time.monotonic()
    spec = generator(**{name: _value(value) for name, value in cell.get("given", {}).items()})
    spec.write_ninja()
    build = Path(spec.ninja_path)
    asked = time.monotonic() - begun
    objects = OBJECT.findall(build.read_text(encoding="utf-8"))
    kernels = KERNELS.findall(build.read_text(encoding="utf-8")) or objects
    stage("compiling")
    begun = time.monotonic()
    if cell["units"]:
        chosen, hit = _last(build, kernels, cell["units"])
    else:
        chosen, hit = objects, all(Path(one).is_file() for one in objects)
        _compile(build, objects)
    return {
        "compiled": {
            "module": spec.name,
            "units": len(objects),
            "objects": chosen,
            "seconds": time.monotonic() - begun,
            "asking_seconds": asked,
            "hit": hit,
        }
    }


def _last(build: Path, units: list[str], count: int) -> tuple[list[str], bool]:
    """Compile from the last unit on, until ``count`` of them hold kernels: some only bind them to Python. All
    that were compiled, those with kernels where there are any, and whether each was there already."""
    chosen: list[str] = []
    tried: list[str] = []
    hit = True
    while len(tried) < len(units) and len(chosen) < count:
        one = units[-1 - len(tried)]
        hit = hit and Path(one).is_file()
        _compile(build, [one])
        tried.append(one)
        if HOLDS_KERNELS in Path(one).read_bytes():
            chosen.append(one)
    return chosen or tried, hit


def _compile(build: Path, objects: list[str]) -> None:
    done = subprocess.run(
        ["ninja", "-C", str(build.parent), "-f", str(build), *objects],  # noqa: S607 - the library's own
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        first = ERROR.search(done.stdout)
        raise CompileError(
            f"{first.group(0).strip() if first else 'no error was told'}\n{done.stdout[-3000:]}"
        )
