"""What a library registers when it is loaded: its kernels with CUDA, its operators with torch.

Both happen in functions that run at start-up. Before each call that registers there are the name, a string
among the library's constants, and the host functions that stand for it. So the names need no resemblance to
the functions that do the work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tools.binaries.elf import Elf
from tools.binaries.host import Host

KERNEL = "__cudaRegisterFunction"
OPERATOR = ("torch_library_impl", "_ZNR5torch7Library5_impl", "_ZNR5torch7Library4_def")
"""Beginnings of the functions that tell torch what implements an operator."""
WRAPPERS = ".nvFatBinSegment"
RELATIVE = (8, 1027)
"""Kinds of relocation that fill in an address of the library itself (x86-64, AArch64)."""
DEPTH = 3
"""How many calls lie between start-up and the function that registers operators."""
MOST_FUNCTIONS = 50_000
"""Functions of start-up that are looked through for operators."""
_NAME = re.compile(r"(?:\w+::)?(\w+(?:\.\w+)?)(?:\(|$)")


@dataclass(frozen=True)
class Registered:
    """A kernel, and the number of the fat binary that holds it."""

    name: str
    container: int


def entry_points(library: Host, operator: str) -> frozenset[int]:
    """The host functions behind an operator: those registered under its name, else those called so."""
    return registered(library, operator) or library.functions(operator)


def registered(library: Host, operator: str) -> frozenset[int]:
    """The host functions that torch is told of under an operator's name, with any overload."""
    found = operators_of(library)
    return frozenset(at for name, own in found.items() if name.partition(".")[0] == operator for at in own)


def kernels_of(library: Host) -> dict[int, Registered]:
    """Host function → the kernel that it stands for."""
    elf = library.elf
    filled = _filled(library)
    # A wrapper is 24 bytes, and the address of its fat binary is in the second eight.
    binaries = {at: filled[at + 8] for at in _within(elf, WRAPPERS, 24) if at + 8 in filled}
    numbers = {address: number for number, address in enumerate(sorted(binaries.values()))}
    found: dict[int, Registered] = {}
    for function in _start_up(library, filled):
        places = list(library.references(function))
        container = next((numbers[binaries[place]] for place in places if place in binaries), None)
        if container is not None:
            for names, functions in _calls(library, places, (KERNEL,)):
                if names and functions:
                    found[functions[-1]] = Registered(names[-1], container)
    return found


def operators_of(library: Host) -> dict[str, frozenset[int]]:
    """Name of an operator, with its overload where it has one → host functions registered for it."""
    told: list[tuple[str, frozenset[int]]] = []
    registering = _registering(library)
    for function in registering:
        # A part of the registering call may stand in a function of its own.
        through = frozenset(registering) - {function}
        for names, functions in _calls(library, list(library.references(function)), OPERATOR, through):
            spelt = [match[1] for name in names if (match := _NAME.match(name))]
            if spelt and functions:
                told.append((spelt[-1], frozenset(functions)))
    counts = Counter(at for _, functions in told for at in functions)
    found: dict[str, frozenset[int]] = {}
    for name, given in told:
        # What stands before several of the calls helps to register and is none of the operators.
        own = frozenset(at for at in given if counts[at] == 1) or given
        found[name] = found.get(name, frozenset()) | own
    return found


def _registering(library: Host) -> list[int]:
    """Functions of start-up that register operators."""
    if not any(name.startswith(OPERATOR) for name in library.imports):
        return []
    seen: dict[int, None] = {}
    level = [*_start_up(library, _filled(library)), *library.beginning("PyInit_")]
    found = []
    for _ in range(DEPTH):
        following: dict[int, None] = {}
        for at in level:
            if at in seen or len(seen) > MOST_FUNCTIONS:
                continue
            seen[at] = None
            inner, outer = library.refers_to(at)
            if any(name.startswith(OPERATOR) for name in outer):
                found.append(at)
            following.update(dict.fromkeys(sorted(inner)))
        level = list(following)
    return found


def _start_up(library: Host, filled: dict[int, int]) -> list[int]:
    slots = _within(library.elf, ".init_array", 8)
    functions = (library.function_at(filled.get(slot, 0)) for slot in slots)
    return [function for function in functions if function is not None]


def _filled(library: Host) -> dict[int, int]:
    return {slot: value for slot, kind, value in library.relocations(".rela.dyn") if kind in RELATIVE}


def _within(elf: Elf, name: str, step: int) -> range:
    """Addresses in a section, as far as the file holds it."""
    section = elf.named(name)
    size = len(elf.bytes_of(section)) if section is not None else 0
    return range(section.address, section.address + size, step) if section is not None else range(0)


def _calls(
    library: Host, places: list[int], called: tuple[str, ...], through: frozenset[int] = frozenset()
) -> Iterator[tuple[list[str], list[int]]]:
    """The strings and the functions that are referred to before each such call, since the call before.

    ``through`` are functions of the library that make such calls.
    """
    names: list[str] = []
    functions: list[int] = []
    for place in places:
        imported = library.stubs.get(place) or library.slots.get(place) or ""
        if imported.startswith(called):
            yield names, functions
            names, functions = [], []
        elif text := library.text_at(place):
            names.append(text)
        elif (at := library.function_at(place)) in through:
            yield names, functions
            names, functions = [], []
        elif at is not None:
            functions.append(at)
