"""A module that a library compiles when it runs, compiled for a target of which no GPU need be there.

The library itself makes the module and its build file, and refuses what it refuses; then its own compiler
commands are run, for all units or for the last few that hold kernels (instantiations come last).
"""

from __future__ import annotations

import importlib
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OBJECT = re.compile(r"^build (\S+): (?:\w*compile)\b", re.M)
KERNELS = re.compile(r"^build (\S+): (?:\w*cu\w*compile)\b", re.M)
ERROR = re.compile(r"^.*\b(?:error|fatal)\b.*$", re.M)


class CompileError(Exception):
    """The compiler's first error, then the end of what it said."""


def run(cell: dict[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """``compiled``: the module, its units, those that were compiled (paths of objects), seconds, and whether
    all of them were in the cache already. Raises what the library raises, or :class:`CompileError`."""
    stage("importing the library")
    module, _, name = cell["function"].partition(":")
    generator = getattr(importlib.import_module(module), name)
    stage("asking for the module")
    begun = time.monotonic()
    spec = generator()
    spec.write_ninja()
    build = Path(spec.ninja_path)
    asked = time.monotonic() - begun
    objects = OBJECT.findall(build.read_text(encoding="utf-8"))
    kernels = KERNELS.findall(build.read_text(encoding="utf-8")) or objects
    chosen = kernels[-cell["units"] :] if cell["units"] else objects
    hit = all(Path(one).is_file() for one in chosen)
    stage("compiling")
    begun = time.monotonic()
    done = subprocess.run(
        ["ninja", "-C", str(build.parent), "-f", str(build), *chosen],  # noqa: S607 - the library's own
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        first = ERROR.search(done.stdout)
        raise CompileError(
            f"{first.group(0).strip() if first else 'no error was told'}\n{done.stdout[-3000:]}"
        )
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
