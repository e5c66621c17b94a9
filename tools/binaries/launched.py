"""Which device code a host function starts, and whether it does work on an architecture.

When a library is loaded it registers each fat binary and its kernels: the name of a kernel together with the
host function that stands for it. So what a function leads to among those is what it may launch. A kernel is
compiled for every target of its unit, also for those that it was not written for: there it is *hollow*, it
only returns, or prints, or traps where its code for another target goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from memory.architecture import Architecture, ArchitectureError, images
from tools.binaries.cubin import Kernel, kernels
from tools.binaries.elf import BinaryError, Elf, Section, read_elf
from tools.binaries.fatbin import Image, Kind, Packing, device_images
from tools.binaries.host import Host, host
from tools.binaries.library import mapped
from tools.binaries.packing import unpacked

REGISTER = "__cudaRegisterFunction"
WRAPPERS = ".nvFatBinSegment"
RELATIVE = (8, 1027)
"""Kinds of relocation that fill in an address of the library itself (x86-64, AArch64)."""
LONGEST_NAME = 16_384
MOST_CODE = 1 << 30
"""Bytes of device code, unpacked, that are looked through for one operator."""

LARGER = 8
"""How many times larger code that does the work is than code that only prints an error."""
FEW, MANY = 2, 8
"""Traps beyond twice those of the best code: up to so many are usual, more than so many are hollow."""
LITTLE = 4
"""How many times smaller kernels are that only help."""

Code = Mapping[str, Kernel]
"""A kernel's code by target."""


@dataclass(frozen=True)
class Registered:
    name: str
    container: int


def launched(path: Path, operator: str) -> dict[str, Code] | None:
    """The kernels that the operator's host function may start, with their code for each target.

    None where the function was not found, leads to too much, or has code that is not machine code. Raises
    :class:`BinaryError`.
    """
    with mapped(path) as data:
        elf = read_elf(data)
        library = host(elf)
        reached: set[int] = set()
        for function in library.functions(operator):
            led = library.leads_to(function)
            if led is None:
                return None
            reached |= led.addresses
        wanted = {one for at, one in _registered(library).items() if at in reached}
        found: dict[str, dict[str, Kernel]] = {one.name: {} for one in wanted}
        units = {one.container for one in wanted}
        there = [image for image in device_images(elf) if image.container in units]
        if sum(image.whole for image in there) > MOST_CODE:
            return None
        if not all(_read(elf, image, found) for image in there):
            return None
        return dict(found) if found and all(found.values()) else None


def _read(elf: Elf, image: Image, found: dict[str, dict[str, Kernel]]) -> bool:
    """Add the code of an image; False where it cannot be read."""
    if image.kind is not Kind.SASS:
        return False
    packed = image.packing is not Packing.NONE
    code = read_elf(unpacked(elf.data, image)) if packed else read_elf(elf.data, image.offset, image.size)
    for kernel in kernels(code):
        if kernel.name in found:
            found[kernel.name][image.target] = kernel
    return True


def does_work(code: Mapping[str, Code], arch: Architecture) -> bool | None:
    """Whether the operator's main kernels do their work on ``arch``; None where that cannot be told.

    Main are those that are hollow for some target, since they were written for others: where there are any
    and all are hollow here, nothing works, unless a kernel beside them could be what does the work.
    """
    main = _main(code)
    picked = [(one, _picked(one, arch)) for one in main]
    if any(target is not None and _sound(one, target) for one, target in picked):
        return True
    if any(target is not None and not hollow(one, target) for one, target in picked):
        return None
    rest = [_best(one).size for one in code.values() if one not in main]
    written_for_others = any(hollow(one, target) for one in main for target in one)
    little = max(rest, default=0) * LITTLE < max(_best(one).size for one in main)
    return False if written_for_others and little else None


def _main(code: Mapping[str, Code]) -> list[Code]:
    """The kernels that are hollow somewhere; all, where none is."""
    return [one for one in code.values() if any(hollow(one, target) for target in one)] or list(code.values())


def hollow(code: Code, target: str) -> bool:
    """Whether the code for a target only returns, or stops where the best code for another goes on."""
    mine, best = code[target], _best(code)
    return mine.stub or mine.size * LARGER < best.size or mine.traps > 2 * best.traps + MANY


def _sound(code: Code, target: str) -> bool:
    """The opposite, with room for doubt between: it stops hardly more often than the best code does."""
    return not hollow(code, target) and code[target].traps <= 2 * _best(code).traps + FEW


def _best(code: Code) -> Kernel:
    """Of what is not much smaller than the largest code, that which traps least; of equals the largest."""
    largest = max(kernel.size for kernel in code.values())
    whole = [kernel for kernel in code.values() if kernel.size * LARGER >= largest]
    return min(whole, key=lambda kernel: (kernel.stub, kernel.traps, -kernel.size))


def _picked(code: Code, arch: Architecture) -> str | None:
    """The target that the driver takes for ``arch``: the newest that runs there, the most specific first."""
    fitting = [target for target in code if _runs(target, arch)]
    return max(fitting, key=lambda target: (int(re.sub(r"\D", "", target)), target), default=None)


def _runs(target: str, arch: Architecture) -> bool:
    try:
        return arch.base in images(target)
    except ArchitectureError:
        return False


def _registered(library: Host) -> dict[int, Registered]:
    """Host function → the kernel that it stands for."""
    elf = library.elf
    filled = {slot: value for slot, kind, value in library.relocations(".rela.dyn") if kind in RELATIVE}
    # A wrapper is 24 bytes, and the address of its fat binary is in the second eight.
    binaries = {at: filled[at + 8] for at in _within(elf, WRAPPERS, 24) if at + 8 in filled}
    numbers = {address: number for number, address in enumerate(sorted(binaries.values()))}
    found: dict[int, Registered] = {}
    for slot in _within(elf, ".init_array", 8):
        function = library.function_at(filled.get(slot, 0))
        places = list(library.references(function)) if function is not None else []
        container = next((numbers[binaries[place]] for place in places if place in binaries), None)
        if container is not None:
            for at, name in _registrations(library, places):
                found[at] = Registered(name, container)
    return found


def _within(elf: Elf, name: str, step: int) -> range:
    """Addresses in a section, as far as the file holds it."""
    section = elf.named(name)
    size = len(elf.bytes_of(section)) if section is not None else 0
    return range(section.address, section.address + size, step) if section is not None else range(0)


def _registrations(library: Host, places: list[int]) -> Iterator[tuple[int, str]]:
    """Before each call that registers there are the kernel's name and its host function."""
    constants = [section for section in library.elf.sections if section.name.startswith(".rodata")]
    name, function = "", None
    for place in places:
        if library.stubs.get(place) == REGISTER or library.slots.get(place) == REGISTER:
            if name and function is not None:
                yield function, name
            name, function = "", None
        elif text := _constant(library.elf, constants, place):
            name = text
        elif (at := library.function_at(place)) is not None:
            function = at


def _constant(elf: Elf, sections: list[Section], place: int) -> str:
    for section in sections:
        if section.address <= place < section.address + section.size:
            at = elf.start + section.offset + place - section.address
            text = bytes(elf.data[at : at + LONGEST_NAME]).split(b"\0", 1)[0]
            return text.decode("ascii", "replace")
    return ""


def operator_listing(path: Path, operator: str) -> list[str]:
    """The kernels behind an operator as lines: where they work, then each, the largest first.

    Raises :class:`BinaryError`.
    """
    code = launched(path, operator)
    if not code:
        raise BinaryError(f"{path.name}: no device code was found behind {operator}")
    targets = sorted({target for one in code.values() for target in one}, key=lambda name: (len(name), name))
    main = _main(code)
    work = [target for target in targets if any(target in one and not hollow(one, target) for one in main)]
    rest = [target for target in targets if target not in work]
    said = f"{operator}: kernels that work on {', '.join(work)}"
    ordered = sorted(code.items(), key=lambda item: (-_best(item[1]).size, item[0]))
    return [
        said + (f"; hollow on {', '.join(rest)}" if rest else ""),
        *(_line(name, one, targets) for name, one in ordered),
    ]


def _line(name: str, code: Code, targets: list[str]) -> str:
    each = [
        f"{target} {code[target].instructions} instructions, {code[target].traps} traps"
        + (", hollow" if hollow(code, target) else "")
        for target in targets
        if target in code
    ]
    return f"{'; '.join(each)}: {name}"


__all__ = ["BinaryError", "does_work", "launched", "operator_listing"]
