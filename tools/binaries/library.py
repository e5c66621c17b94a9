"""One compiled file: which targets it holds code for, and whether an architecture can run any of it."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory.architecture import Architecture, ArchitectureError, images
from tools.binaries.cubin import target_of
from tools.binaries.elf import CUDA_MACHINE, BinaryError, Buffer, read_elf
from tools.binaries.fatbin import MAGIC, Image, Kind, device_images, walk

FAT_MAGIC = MAGIC.to_bytes(4, "little")
Target = tuple[Kind, str]


@dataclass(frozen=True)
class Compiled:
    """What a file holds. ``units``: fat binaries, one a compiled unit; ``targets``: the images of each."""

    units: int
    targets: dict[Target, int]

    def runs_on(self, arch: Architecture) -> bool | None:
        """Whether any of the code runs on ``arch``; None where a target is not known here."""
        answers = {_runs(kind, target, arch) for kind, target in self.targets}
        if True in answers:
            return True
        return None if None in answers else False


def _runs(kind: Kind, target: str, arch: Architecture) -> bool | None:
    if kind is Kind.OTHER:
        return None
    try:
        return arch.base in images(target)
    except ArchitectureError:
        return None


def read_compiled(path: Path) -> Compiled:
    """The device code of a library, a fat binary or a cubin. Raises :class:`BinaryError`."""
    with mapped(path) as data:
        found = list(_images(data))
    counts = Counter((image.kind, image.target) for image in found)
    ordered = sorted(counts, key=lambda target: (target[0].value, len(target[1]), target[1]))
    units = len({image.container for image in found})
    return Compiled(units, {target: counts[target] for target in ordered})


@contextmanager
def mapped(path: Path) -> Iterator[Buffer]:
    """A file's bytes, mapped for reading. Raises :class:`BinaryError`, with the file's name."""
    try:
        data = _map(path)
    except (OSError, ValueError) as error:  # a file of no bytes cannot be mapped
        raise BinaryError(f"{path.name} cannot be read: {error}") from error
    with data:
        try:
            yield data
        except BinaryError as error:
            raise BinaryError(f"{path.name}: {error}") from None


def _map(path: Path) -> mmap.mmap:
    if not path.is_file():  # a pipe would block its reader
        raise ValueError("no plain file")
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _images(data: Buffer) -> Iterator[Image]:
    if data[:4] == FAT_MAGIC:
        yield from walk(data, 0, len(data))
        return
    elf = read_elf(data)
    if elf.machine == CUDA_MACHINE:
        yield Image.alone(target_of(elf), elf.size)
        return
    yield from device_images(elf)
