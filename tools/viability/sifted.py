"""Lists of compiler targets that what was fetched is sifted by: which of the kernels in it are kept.

A library may fetch the kernels of several generations of devices and keep those that a literal list names.
The function that fetched them hands both on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from memory.architecture import Architecture, ArchitectureError, images
from tools.viability.interpreter.asked import whole
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.records import Fetch, Frame
from tools.viability.interpreter.values import Unknown, bare, strip

TARGET = re.compile(r"sm_?(\d{2,3}[af]?)", re.IGNORECASE)


def note_sieve(m: Machine, given: list[Any], frame: Frame) -> None:
    """Note that what the calling function has fetched is sifted, if this call is handed a list for that."""
    if not any(isinstance(bare(value), Unknown) for value in given):
        return
    for value in given:
        inner, why = strip(value)
        names = (
            [whole(bare(name)) for name in inner] if isinstance(inner, (tuple, list, set, frozenset)) else []
        )
        site = next((site for site in reversed(why.sites) if site.role == "list"), None)
        if site is None or not names or not all(_is_target(name) for name in names):
            continue
        package, stack = frame.module.file.partition("/")[0], tuple(m.stack)
        for number, fetch in enumerate(m.fetches):
            own = fetch.site.file.partition("/")[0] == package
            if own and fetch.stack[: len(stack)] == stack:
                m.fetches[number] = replace(fetch, targets=tuple(sorted(names)), sieve=site)


def _is_target(name: Any) -> bool:
    return isinstance(name, str) and TARGET.fullmatch(name) is not None


def keeps(fetch: Fetch, arch: Architecture) -> bool | None:
    """Whether a kernel that is kept of what was fetched may run on ``arch``; None where nothing is sifted."""
    found = [match[1] for name in fetch.targets if (match := TARGET.fullmatch(name))]
    try:
        return any(arch in images(target) for target in found) if found else None
    except ArchitectureError:
        return None
