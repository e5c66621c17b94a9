"""Sections and symbols of a 64-bit little-endian ELF file: host libraries and device code alike."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

Buffer = bytes | mmap.mmap

MAGIC = b"\x7fELF"
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")

CUDA_MACHINE = 190
NO_BITS = 8
FUNCTION = 2
MOST_SECTIONS = 200_000
MOST_SYMBOLS = 5_000_000
MOST_BYTES = 256 << 20
"""Bytes of one section that are looked into: code is walked by its headers, and tables are shorter."""
LONGEST_NAME = 65_536
SHARED_NAMES = 16
"""How often over a table of names may be read: several symbols may share one, but not all the longest."""


class BinaryError(Exception):
    """A compiled file that is not what its headers promise; the message says where."""


@dataclass(frozen=True)
class Section:
    """``offset`` and ``size`` are bytes in the file, ``address`` is where it is mapped when loaded."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    """``section``: index of its section, 0 for what comes from elsewhere; ``other``: the maker's flags."""

    name: str
    function: bool
    other: int
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class Elf:
    """The headers of a file that begins at ``start`` of ``data`` and has at most ``size`` bytes."""

    data: Buffer
    start: int
    size: int
    machine: int
    flags: int
    sections: tuple[Section, ...]

    def named(self, name: str) -> Section | None:
        return next((section for section in self.sections if section.name == name), None)

    def bytes_of(self, section: Section) -> bytes:
        """What the file holds of a section; empty for one that is only reserved."""
        if section.kind == NO_BITS:
            return b""
        if section.size > MOST_BYTES:
            raise BinaryError(f"{section.name} has {section.size} bytes, at most {MOST_BYTES} are read")
        at = self.start + section.offset
        return bytes(self.data[at : at + section.size])

    def symbols(self, table: str) -> Iterator[Symbol]:
        """The symbols of ``.symtab`` or ``.dynsym``; none where there is no such table."""
        section = self.named(table)
        if section is None or section.link >= len(self.sections):
            return
        names = _Names(self.bytes_of(self.sections[section.link]))
        raw = self.bytes_of(section)
        if len(raw) // SYMBOL.size > MOST_SYMBOLS:
            raise BinaryError(f"{table} has more than {MOST_SYMBOLS} symbols")
        raw = raw[: len(raw) // SYMBOL.size * SYMBOL.size]
        for name, info, other, index, value, size in SYMBOL.iter_unpack(raw):
            yield Symbol(names.at(name), info & 0xF == FUNCTION, other, index, value, size)


def read_elf(data: Buffer, start: int = 0, size: int | None = None) -> Elf:
    """The headers of the ELF file at ``start``. Raises :class:`BinaryError`."""
    size = len(data) - start if size is None else min(size, len(data) - start)
    if size < HEADER.size:
        raise BinaryError(f"{max(size, 0)} bytes at {start} are too few for an ELF file")
    ident, _, machine, _, _, _, table, flags, _, _, _, width, count, names = HEADER.unpack_from(data, start)
    if ident[:4] != MAGIC or ident[4] != 2 or ident[5] != 1:
        raise BinaryError(f"no 64-bit little-endian ELF file at {start}")
    if table == 0:
        return Elf(data, start, size, machine, flags, ())
    if width != SECTION.size or table + SECTION.size > size:
        raise BinaryError(f"the section table at {table} is not within the {size} bytes of the file")
    first = SECTION.unpack_from(data, start + table)
    # Where the counts do not fit their two bytes the first section holds them.
    count = count or first[5]
    names = first[6] if names == 0xFFFF else names
    if count > MOST_SECTIONS or table + count * SECTION.size > size:
        raise BinaryError(f"{count} sections do not fit the {size} bytes of the file")
    raw = [SECTION.unpack_from(data, start + table + number * SECTION.size) for number in range(count)]
    for _, kind, _, _, offset, length, *_ in raw:
        if kind not in (0, NO_BITS) and offset + length > size:
            raise BinaryError(
                f"a section of {length} bytes at {offset} goes past the {size} bytes of the file"
            )
    if names >= count:
        raise BinaryError(f"section names are said to be section {names} of {count}")
    length = min(raw[names][5], MOST_BYTES)
    strings = _Names(bytes(data[start + raw[names][4] : start + raw[names][4] + length]))
    sections = (
        Section(strings.at(name), kind, address, offset, length, link)
        for name, kind, _, address, offset, length, link, *_ in raw
    )
    return Elf(data, start, size, machine, flags, tuple(sections))


class _Names:
    """A table of names that end in a zero byte."""

    def __init__(self, table: bytes) -> None:
        self.table = table
        self.left = len(table) * SHARED_NAMES + LONGEST_NAME

    def at(self, offset: int) -> str:
        end = self.table.find(b"\0", offset, offset + LONGEST_NAME)
        name = self.table[offset : end if end >= 0 else offset + LONGEST_NAME]
        self.left -= len(name)
        if self.left < 0:
            raise BinaryError(f"names are longer than their table of {len(self.table)} bytes allows")
        return name.decode("utf-8", "replace")
