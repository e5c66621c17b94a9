"""Fat binaries: containers of device code for several targets, walked by their headers alone.

A container is ``magic, version, header size, size``; its entries follow one another, each with a header that
says what it holds (machine code or PTX), for which target, and whether it is compressed. Nothing is
decompressed here, so that a library of a gigabyte takes as long as its headers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tools.binaries.elf import BinaryError, Buffer, Elf

MAGIC = 0xBA55ED50
CONTAINER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQIIIIIIQQQ")

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
"""Where a host library keeps them."""

ARCHITECTURE_SPECIFIC = 0x100000
FAMILY_SPECIFIC = 0x200000
LZ4 = 0x2000
ZSTD = 0x8000
UNKNOWN_COMPRESSION = 0x1000
MOST_IMAGES = 1_000_000
MOST_CONTAINERS = 100_000
STEP = 8
"""Containers and entries begin at multiples of so many bytes; what lies between is zero."""


class Kind(StrEnum):
    """What an image is: ``sass`` runs as it is, ``ptx`` is compiled when loaded, others never run alone."""

    PTX = "ptx"
    SASS = "sass"
    OTHER = "other"


_KINDS = {1: Kind.PTX, 2: Kind.SASS}


class Packing(StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Image:
    """One image. ``target`` as compilers write it (``sm_120a``, ``compute_90``); sizes are in bytes."""

    container: int
    """Number of the container within the file: images of one container come from one compiled unit."""
    kind: Kind
    target: str
    offset: int
    size: int
    packing: Packing
    whole: int
    """Size once unpacked."""

    @classmethod
    def alone(cls, target: str, size: int) -> Image:
        """Machine code that is a file of its own."""
        return cls(0, Kind.SASS, target, 0, size, Packing.NONE, size)


def device_images(elf: Elf) -> Iterator[Image]:
    """Every image of a host library, in file order. Raises :class:`BinaryError`."""
    container = 0
    for section in elf.sections:
        if section.name in SECTIONS and section.size:
            for image in walk(elf.data, elf.start + section.offset, section.size, container):
                container = image.container
                yield image
            container += 1


def walk(data: Buffer, start: int, size: int, first: int = 0) -> Iterator[Image]:
    """Every image between ``start`` and ``start + size``. ``first`` is the number of the first container."""
    at, end, count, container = start, start + size, 0, first
    if end > len(data):
        raise BinaryError(f"device code is said to end at {end}, the file at {len(data)}")
    while at + CONTAINER.size <= end:
        magic, _, header, length = CONTAINER.unpack_from(data, at)
        if magic == 0:
            at = _past_zeros(data, at, end)
            continue
        if magic != MAGIC or header < CONTAINER.size:
            raise BinaryError(f"no fat binary at {at}: it begins with {magic:#010x}")
        if container - first >= MOST_CONTAINERS:
            raise BinaryError(f"more than {MOST_CONTAINERS} fat binaries")
        entry, stop = at + header, at + header + length
        if stop > end:
            raise BinaryError(f"the fat binary at {at} goes on to {stop}, past its section's end at {end}")
        while entry + ENTRY.size <= stop:
            image, following = _entry(data, entry, stop, container)
            count += 1
            if count > MOST_IMAGES:
                raise BinaryError(f"more than {MOST_IMAGES} images")
            yield image
            entry = following
        if entry < stop and any(data[entry:stop]):
            raise BinaryError(f"{stop - entry} bytes at {entry} are too few for an image")
        at = max(stop, at + STEP)
        at += -(at - start) % STEP
        container += 1


def _entry(data: Buffer, at: int, stop: int, container: int) -> tuple[Image, int]:
    kind, _, header, padded, packed, _, _, number, _, _, flags, _, whole = ENTRY.unpack_from(data, at)
    if header < ENTRY.size or at + header + padded > stop:
        raise BinaryError(f"the image at {at} has {header}+{padded} bytes, {stop - at} are left")
    if flags & ZSTD:
        packing = Packing.ZSTD
    elif flags & LZ4:
        packing = Packing.LZ4
    else:
        packing = Packing.UNKNOWN if flags & UNKNOWN_COMPRESSION else Packing.NONE
    suffix = "a" if flags & ARCHITECTURE_SPECIFIC else "f" if flags & FAMILY_SPECIFIC else ""
    what = _KINDS.get(kind, Kind.OTHER)
    size = packed if packing is not Packing.NONE and 0 < packed <= padded else padded
    image = Image(
        container=container,
        kind=what,
        target=f"{'compute' if what is Kind.PTX else 'sm'}_{number}{suffix}",
        offset=at + header,
        size=size,
        packing=packing,
        whole=whole if packing is not Packing.NONE else size,
    )
    return image, at + header + padded


def _past_zeros(data: Buffer, at: int, end: int) -> int:
    """Where the next byte that is not zero begins its step."""
    while at < end:
        block = bytes(data[at : min(at + 65_536, end)])
        rest = block.lstrip(b"\0")
        if rest and len(block) - len(rest) < STEP:
            raise BinaryError(f"no fat binary at {at}: it begins with {block[:STEP].hex()}")
        at += (len(block) - len(rest)) // STEP * STEP if rest else len(block)
        if rest:
            return at
    return end
