"""An operator in a compiled library: where it is defined, and what its host function leads to.

Operators are registered by strings (``name(Tensor a) -> Tensor`` for one that torch knows, ``name`` alone for
a function of an extension module), which stand among the library's constants. The host function behind one
usually has its name; what that leads to says whether device code of this library does the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tools.binaries.elf import BinaryError, Elf, read_elf
from tools.binaries.host import Host, host
from tools.binaries.library import Compiled, mapped, read_compiled
from tools.binaries.registration import entry_points, registered

_CONSTANTS = ".rodata"


@dataclass(frozen=True)
class Operator:
    """One operator in one library. ``reaches``: names of the functions that it leads to, of the library and
    imported; where the operator's own function was not found, all that the library imports. ``told``: torch
    is told of it under this name when the library is loaded."""

    compiled: Compiled
    reaches: frozenset[str]
    told: bool


def find_operator(path: Path, name: str) -> Operator | None:
    """The operator ``name`` if the library seems to define it. Raises :class:`BinaryError`.

    Its namespace is not looked for: compilers put short strings into the code.
    """
    with mapped(path) as data:
        elf = read_elf(data)
        if not _has(elf, rb"(?<!\w)%s[\0(.]" % re.escape(name.encode())):
            return None
        library = host(elf)
        return Operator(read_compiled(path), _reached(library, name), bool(registered(library, name)))


def _reached(library: Host, name: str) -> frozenset[str]:
    led = library.leads_to(entry_points(library, name))
    return led.names if led is not None and led.names else library.imports


def _has(elf: Elf, pattern: bytes) -> bool:
    wanted = re.compile(pattern)
    return any(
        wanted.search(elf.bytes_of(section)) is not None
        for section in elf.sections
        if section.name.startswith(_CONSTANTS)
    )


__all__ = ["BinaryError", "Operator", "find_operator"]
