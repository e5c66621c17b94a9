"""Which device code a host function starts.

What a function leads to among the host functions that stand for kernels is what it may launch. The kernels
are read from the images of the units that they were compiled in.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from tools.binaries.cubin import Kernel, kernels
from tools.binaries.elf import BinaryError, Elf, read_elf
from tools.binaries.fatbin import Image, Kind, Packing, device_images
from tools.binaries.host import host
from tools.binaries.library import mapped
from tools.binaries.packing import unpacked
from tools.binaries.ptx import ptx_kernels
from tools.binaries.registration import entry_points, kernels_of
from tools.binaries.work import Code, hollow, largest, works_on

MOST_CODE = 1 << 30
"""Bytes of device code, unpacked, that are looked through for one operator."""


def launched(path: Path, operator: str) -> dict[str, Code] | None:
    """The kernels that the operator's host functions may start, with their code for each target.

    None where no function was found, it leads to too much, or has code that cannot be read. Raises
    :class:`BinaryError`.
    """
    with mapped(path) as data:
        elf = read_elf(data)
        library = host(elf)
        led = library.leads_to(entry_points(library, operator))
        if led is None:
            return None
        wanted = {one for at, one in kernels_of(library).items() if at in led.addresses}
        found: dict[str, dict[str, Kernel]] = {one.name: {} for one in wanted}
        units = {one.container for one in wanted}
        there = [image for image in device_images(elf) if image.container in units]
        if any(image.kind is Kind.OTHER for image in there):
            return None
        there.sort(key=lambda image: (image.container, image.kind is Kind.PTX))
        if sum(image.whole for image in there if image.kind is Kind.SASS) > MOST_CODE:
            return None
        read: dict[tuple[int, str], list[Kernel]] = {}
        for image in there:
            # PTX for an architecture is made of the same source as the machine code for it beside it.
            beside = read.get((image.container, image.target.replace("compute_", "sm_")))
            read[image.container, image.target] = here = beside or _read(elf, image, found)
            for kernel in here:
                found[kernel.name][image.target] = kernel
        return dict(found) if found and all(found.values()) else None


def _read(elf: Elf, image: Image, names: Container[str]) -> list[Kernel]:
    """Of the kernels in an image those with these names."""
    return [kernel for kernel in kernels_in(elf, image) if kernel.name in names]


def kernels_in(elf: Elf, image: Image) -> list[Kernel]:
    """The kernels in an image of a file. Raises :class:`BinaryError`."""
    packed = image.packing is not Packing.NONE
    if image.kind is Kind.PTX:
        whole = bytes(elf.data[image.offset : image.offset + image.size])
        return list(ptx_kernels(unpacked(elf.data, image) if packed else whole))
    data, at = (unpacked(elf.data, image), 0) if packed else (elf.data, image.offset)
    return list(kernels(read_elf(data, at, None if packed else image.size)))


def operator_listing(path: Path, operator: str) -> list[str]:
    """The kernels behind an operator as lines: where they work, then each, the largest first.

    Raises :class:`BinaryError`.
    """
    code = launched(path, operator)
    if not code:
        raise BinaryError(f"{path.name}: no device code was found behind {operator}")
    targets = works_on(code)
    work, rest = ([target for target, works in targets.items() if works is so] for so in (True, False))
    said = f"{operator}: kernels that work on {', '.join(work)}"
    ordered = sorted(code.items(), key=lambda item: (-largest(item[1]), item[0]))
    return [
        said + (f"; hollow on {', '.join(rest)}" if rest else ""),
        *(_line(name, one, list(targets)) for name, one in ordered),
    ]


def _line(name: str, code: Code, targets: list[str]) -> str:
    each = [
        f"{target} {code[target].instructions} instructions, {code[target].traps} traps"
        + (", hollow" if hollow(code, target) else "")
        for target in targets
        if target in code
    ]
    return f"{'; '.join(each)}: {name}"


__all__ = ["BinaryError", "launched", "operator_listing"]
