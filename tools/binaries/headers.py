"""Kernels that a library builds when it runs: the headers that its host code hands to a compiler by name.

Such a library holds no device code. The text that it has compiled begins with ``#include <…>``, and stands
among its constants; a pair of braces in a name stands for what is filled in when it runs.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.binaries.elf import read_elf
from tools.binaries.host import host
from tools.binaries.library import mapped
from tools.binaries.registration import entry_points

_INCLUDE = re.compile(r"#\s*include\s*[<\"]([^<>\"\s]+)[>\"]")


def included(path: Path, operator: str) -> frozenset[str]:
    """Names of the headers that the operator's host functions lead to, as they stand in the text.

    None of them where no function was found, or it leads to too much. Raises :class:`BinaryError`.
    """
    with mapped(path) as data:
        library = host(read_elf(data))
        led = library.leads_to(entry_points(library, operator))
        if led is None:
            return frozenset()
        texts = (library.text_at(place) for at in led.addresses for place in library.references(at))
        return frozenset(name for text in texts for name in _INCLUDE.findall(text))
