"""One call of a kernel with operands, and what must come of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .gate import TIGHT


class UnfitError(Exception):
    """The operation as it is installed wants something that is not made here: nothing was tried."""


@dataclass
class Case:
    """``call`` takes the tensor to write to (None where ``takes_out`` is false) and returns the output as
    ``shape``; ``tight`` and ``loose`` are float32, two dimensions, as many elements as ``shape``."""

    call: Callable[[Any], Any]
    shape: tuple[int, ...]
    dtype: Any
    tight: Any
    loose: Any = None
    takes_out: bool = True
    limit: float = TIGHT
    flops: float = 0.0
    moved: float = 0.0
    """Bytes that must be read and written, each once."""
    unit: str = "bf16"
    """Which ceiling counts where arithmetic does: ``bf16`` or ``fp8``."""
    timed: Callable[[], Any] | None = None
    """What is timed, where ``call`` does more than the kernel."""
    used: str | None = None
    """The backend that the operation says it took, where it says."""


@dataclass(frozen=True)
class Asked:
    """What a maker is given. ``function`` is the installed library's; ``choice`` one of its backends, None
    where it has none; ``m`` the rows of the input; ``routing``: ``even``, ``hot`` or ``empty`` experts."""

    function: Any
    choice: str | None
    size: dict[str, Any]
    m: int
    seed: int
    device: str
    routing: str = "even"

    def options(self) -> dict[str, Any]:
        return {} if self.choice is None else {"backend": self.choice}


_LISTED = re.compile(r"^\s+(\w+) ?:", re.M)


def bound(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Those of ``given`` that ``function`` takes by name; where it hands names on, those that it documents,
    if it documents any. Raises :class:`UnfitError` if it needs others."""
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        listed = {*_LISTED.findall(function.__doc__ or "")} - set(parameters)
        return {name: value for name, value in given.items() if not listed or name in {*parameters, *listed}}
    needed = [
        name
        for name, one in parameters.items()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    lacking = [name for name in needed if name not in given and name != "self"]
    if lacking:
        raise UnfitError(f"{getattr(function, '__name__', function)} needs {', '.join(lacking)}")
    return {name: value for name, value in given.items() if name in parameters}


def accepts(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
