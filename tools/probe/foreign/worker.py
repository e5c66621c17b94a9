"""The process in which kernels run: cells come in as lines of JSON, what came of them goes out the same way.

It is warm: the next cell finds torch and the library loaded, until a cell leaves the GPU's context broken.
Then it says so and ends, and another one takes the next cell.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from . import attention, compiling, controls, gemm, moe, quantise, resolving
from .arrays import the_torch
from .case import UnfitError
from .trial import Trial

MAKERS: dict[str, Any] = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in (gemm, moe, attention, quantise)
    for name, value in vars(module).items()
    if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
}
WORDS = 4000
"""Characters of an exception's message that are kept."""


def main(lines: Iterable[str], say: Callable[[dict[str, Any]], None], device: str, cache: str) -> None:
    """Run cells until ``lines`` end. The first thing that is said is ``ready``, with what there is here."""
    say({"stage": "importing torch"})
    try:
        torch = the_torch()
        here = _here(torch, device)
    except Exception as error:  # noqa: BLE001 - whatever a foreign package raises is what there is to say
        say({"lacking": _raised(error)})
        return
    say({"ready": here})
    best: dict[str, float] = {}
    for line in lines:
        cell = json.loads(line)
        begun = time.monotonic()
        row: dict[str, Any] = {"cell": cell["id"], "device": device}
        if device == "cuda" and not best and cell.get("timed"):
            row["ceilings"] = best = _ceilings()
        stage = _Stage(say)
        try:
            if cell["kind"] == "compile":
                row.update(compiling.run(cell, stage))
            elif cell["kind"] == "dry":
                row.update(resolving.run(cell, stage))
            elif cell["kind"] == "control":
                row.update(controls.run(cell, device, stage))
            else:
                row.update(Trial(cell, device, best, cache, stage).run(MAKERS[cell["maker"]]))
            row["ended"] = "returned"
        except UnfitError as error:
            row.update(ended="unfit", stage=stage.name, error=_raised(error))
        except Exception as error:  # noqa: BLE001
            row.update(ended="raised", stage=stage.name, error=_raised(error))
        broken = _broken(torch, device)
        row["seconds"] = time.monotonic() - begun
        row["context"] = "broken" if broken else "clean"
        say({"row": row})
        if broken:
            return


class _Stage:
    """How far a cell has come; the supervisor is told, since it may be the last that is heard."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        self._say = say
        self.name = ""

    def __call__(self, name: str) -> None:
        self.name = name
        self._say({"stage": name})


def _ceilings() -> dict[str, float]:
    from .timing import ceilings

    with suppress(Exception):  # a GPU whose best cannot be measured can still be tried
        return ceilings()
    return {}


def _broken(torch: Any, device: str) -> bool:
    """Whether nothing more can run in this process."""
    if device != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except Exception:  # noqa: BLE001 - an illegal access is kept until the process ends
        return True
    return False


def _here(torch: Any, device: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "pid": os.getpid(),
    }
    for name in ("flashinfer", "triton", "cudnn", "tvm_ffi"):
        with suppress(Exception):
            found[name] = str(importlib.import_module(name).__version__)
    if device == "cuda":
        torch.cuda.init()
        about = torch.cuda.get_device_properties(0)
        found["gpu"] = {
            "name": about.name,
            "capability": f"{about.major}.{about.minor}",
            "memory": about.total_memory,
            "processors": about.multi_processor_count,
        }
        with suppress(Exception):
            found["cudnn_library"] = torch.backends.cudnn.version()
    return found


def _raised(error: BaseException) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "kinds": [one.__name__ for one in type(error).__mro__ if one not in (object, BaseException)],
        "message": str(error)[:WORDS],
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__))[
            -3 * WORDS :
        ],
    }


def start(arguments: dict[str, Any], pipe: int) -> None:
    """``arguments``: ``device``, ``cache``, ``site`` (folders of packages that come first), ``memory`` (the
    share of the GPU's memory that may be taken)."""
    for folder in reversed(arguments["site"]):
        sys.path.insert(0, folder)
    out = os.fdopen(pipe, "w", encoding="utf-8", buffering=1)

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    if arguments["device"] == "cuda":
        with suppress(Exception):
            torch = the_torch()
            torch.cuda.set_per_process_memory_fraction(arguments["memory"])
    main(sys.stdin, say, arguments["device"], arguments["cache"])
