"""A Triton kernel compiled for a target of which no GPU need be there, with Triton's own compiler.

What it is called with is told: types of pointers and numbers, values of what is known when it is compiled. An
argument that is not told is a length or a stride, or has a default.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .case import UnfitError

NOTHING = "none"
"""What stands for an operand that is left out."""
INTEGER, CONSTANT = "i32", "constexpr"
_TYPE = re.compile(r"\*?(?:i\d+|u\d+|fp\w+|bf16)")
_NAMED = "triton.language."


def run(cell: dict[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """``compiled``, as of a module: one unit, its machine code as it would be loaded. Raises what Triton or
    the library raises, or :class:`UnfitError` for an argument of which nothing is told."""
    stage("importing the library")
    module, _, name = cell["function"].partition(":")
    kernel = getattr(importlib.import_module(module), name)
    while not hasattr(kernel, "arg_names"):
        kernel = kernel.fn  # what chooses among settings stands around it
    compiler = importlib.import_module("triton.compiler")
    backends = importlib.import_module("triton.backends.compiler")
    number = int(cell["arch"].removeprefix("sm"))
    stage("compiling")
    begun = time.monotonic()
    signature, constants = _called(kernel, cell["given"])
    source = compiler.ASTSource(kernel, signature=signature, constexprs=constants)
    made = compiler.compile(source, target=backends.GPUTarget("cuda", number, 32))
    code = Path(os.environ["TRITON_CACHE_DIR"]) / f"{name}-{made.hash}.cubin"
    hit = code.is_file()
    code.write_bytes(made.asm["cubin"])
    return {
        "compiled": {
            "module": name,
            "units": 1,
            "objects": [str(code)],
            "seconds": time.monotonic() - begun,
            "asking_seconds": 0.0,
            "hit": hit,
        }
    }


def _called(kernel: Any, told: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The type of each argument, and the values of those that are constants."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for one in inspect.signature(kernel.fn).parameters.values():
        fixed = "constexpr" in str(one.annotation)
        value = told.get(one.name, one.default)
        if value is inspect.Parameter.empty:
            if fixed:
                raise UnfitError(f"nothing is told of the argument {one.name} of {kernel.fn.__name__}")
            value = INTEGER
        elif one.name not in told and not fixed and isinstance(value, int):
            value = INTEGER
        if isinstance(value, str) and _TYPE.fullmatch(value):
            signature[one.name] = value
            continue
        signature[one.name] = CONSTANT
        constants[one.name] = _constant(value)
    return signature, constants


def _constant(value: Any) -> Any:
    if value == NOTHING:
        return None
    if isinstance(value, str) and value.startswith(_NAMED):
        return getattr(importlib.import_module(_NAMED.rstrip(".")), value.removeprefix(_NAMED))
    return value
