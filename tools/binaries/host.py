"""The host side of a compiled library: which functions one of them leads to.

A library keeps no list of calls, but every call, jump and address in its machine code names a place relative
to itself. A place that is exactly the beginning of a function, or a slot that the loader fills with an
imported one, is a reference; so what a function leads to is found without understanding its instructions.
That may find a reference too many. Calls through pointers in tables are not followed.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tools.binaries.elf import BinaryError, Elf, Section

X86_64, AARCH64 = 62, 183
RELOCATION = struct.Struct("<QQq")
_REFERRING = re.compile(
    rb"(?=([\xe8\xe9]|\x0f[\x80-\x8f]|[\x8b\x8d\xff][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]))", re.S
)
"""How instructions begin that call, jump, or take an address relative to themselves (x86-64)."""
_OF_A_TYPE = re.compile(r"IN?(?:S[0-9A-Z]*_|St)?(?=\d)")
"""How the arguments of a template begin whose first one is a type with a name."""
LONGEST_FUNCTION = 1 << 20
LONGEST_TEXT = 16_384
MOST_CODE = 256 << 20
"""Bytes of code that are looked through for one library."""
MOST_RELOCATIONS = 5_000_000
MOST_FUNCTIONS = 20_000
"""Functions that are followed from a few; the rest of the way is not known then."""


@dataclass(frozen=True)
class Reached:
    """Functions by name, imported ones too, and by where those of the library begin."""

    names: frozenset[str]
    addresses: frozenset[int]


class Host:
    """Functions of a host library, by name and by address."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self._constants = [s for s in elf.sections if s.name.startswith(".rodata")]
        self.code = [s for s in elf.sections if s.name in (".text", ".text.unlikely")]
        self.names: dict[int, list[str]] = {}
        """Address → the names of the function that begins there."""
        imported: list[str] = []
        for symbol in elf.symbols(".dynsym"):
            imported.append(symbol.name)
            if symbol.function and symbol.section:
                self.names.setdefault(symbol.value, []).append(symbol.name)
        # Functions that a library keeps to itself; a part that the compiler moved away is none.
        inner = {
            symbol.name: symbol.value
            for symbol in elf.symbols(".symtab")
            if symbol.function and symbol.section and ".cold" not in symbol.name
        }
        self.imports = frozenset(imported) - {name for names in self.names.values() for name in names}
        self.starts = sorted({*self._unwound(), *self.names, *inner.values()})
        self._begins = frozenset(self.starts)
        self.slots = dict(self._slots(imported))
        """Address of a slot that the loader fills → the name it fills in."""
        self.stubs = self._stubs()
        """Address of a stub that jumps to what such a slot holds → that name."""
        self._by_name = inner | {name: at for at, names in self.names.items() for name in names}
        self._left = MOST_CODE
        self._led: dict[int, tuple[frozenset[int], frozenset[str]]] = {}

    def functions(self, word: str) -> frozenset[int]:
        """Functions called ``word``, whatever their types; else those whose name ends so; else begins so."""
        called = {name: own_name(name) for name in self._by_name}
        exact = [name for name, own in called.items() if own == word]
        ending = [name for name, own in called.items() if own.endswith(f"_{word}")]
        chosen = exact or ending or [name for name, own in called.items() if own.startswith(f"{word}_")]
        return frozenset(self._by_name[name] for name in chosen)

    def beginning(self, word: str) -> list[int]:
        """Functions whose symbol begins with ``word``."""
        return sorted(at for name, at in self._by_name.items() if name.startswith(word))

    def leads_to(self, functions: Collection[int]) -> Reached | None:
        """All that these functions lead to; None where it is too much."""
        names: set[str] = set()
        seen = set(functions)
        waiting = list(seen)
        while waiting:
            at = waiting.pop()
            names.update(self.names.get(at, ()))
            inner, outer = self.refers_to(at)
            names |= outer
            waiting += inner - seen
            seen |= inner
            if len(seen) > MOST_FUNCTIONS:
                return None
        return Reached(frozenset(names), frozenset(seen))

    def function_at(self, place: int) -> int | None:
        """The function that a reference means: where it begins, or through a slot that the loader fills."""
        named = self.slots.get(place) or self.stubs.get(place)
        target = self._by_name.get(named) if named else place
        return target if target in self._begins else None

    def refers_to(self, at: int) -> tuple[frozenset[int], frozenset[str]]:
        """Functions that the one at ``at`` refers to: of this library, and imported."""
        if at not in self._led:
            inner: set[int] = set()
            outer: set[str] = set()
            for place in self.references(at):
                target = self.function_at(place)
                if target is not None:
                    inner.add(target)
                elif named := self.slots.get(place) or self.stubs.get(place):
                    outer.add(named)
            self._led[at] = frozenset(inner), frozenset(outer)
        return self._led[at]

    def text_at(self, place: int) -> str:
        """The text at an address among the constants; empty where it is none of them."""
        for section in self._constants:
            if section.address <= place < section.address + section.size:
                at = self.elf.start + section.offset + place - section.address
                text = bytes(self.elf.data[at : at + LONGEST_TEXT]).split(b"\0", 1)[0]
                return text.decode("ascii", "replace")
        return ""

    def references(self, at: int) -> Iterator[int]:
        """The places that the function at ``at`` refers to, in the order of its code."""
        place = bisect.bisect_right(self.starts, at)
        end = self.starts[place] if place < len(self.starts) else at + LONGEST_FUNCTION
        body = self._bytes(at, min(end, at + LONGEST_FUNCTION))
        self._left -= len(body)
        if self._left < 0:
            raise BinaryError(f"more than {MOST_CODE} bytes of code would have to be followed")
        if self.elf.machine == X86_64:
            return _relative(body, at)
        return _branches(body, at) if self.elf.machine == AARCH64 else iter(())

    def _bytes(self, start: int, end: int) -> bytes:
        for section in self.code:
            if section.address <= start < section.address + section.size:
                at = self.elf.start + section.offset + start - section.address
                return bytes(self.elf.data[at : at + min(end, section.address + section.size) - start])
        return b""

    def _unwound(self) -> Iterator[int]:
        """Where functions begin, from the table that unwinding uses: it has those without names too."""
        section = self.elf.named(".eh_frame_hdr")
        raw = self.elf.bytes_of(section) if section is not None else b""
        # version 1, a pointer of four bytes, a count of four, a table of pairs relative to the section
        if section is None or len(raw) < 12 or raw[0] != 1 or raw[2] != 0x03 or raw[3] != 0x3B:
            return
        (count,) = struct.unpack_from("<I", raw, 8)
        table = raw[12 : 12 + 8 * min(count, (len(raw) - 12) // 8)]
        for start, _ in struct.iter_unpack("<ii", table):
            yield section.address + start

    def relocations(self, table: str) -> Iterator[tuple[int, int, int]]:
        """``(place, kind and symbol, value)`` of each place that the loader fills."""
        section = self.elf.named(table)
        raw = self.elf.bytes_of(section) if section is not None else b""
        count = len(raw) // RELOCATION.size
        if count > MOST_RELOCATIONS:
            raise BinaryError(f"{table} has {count} entries, at most {MOST_RELOCATIONS} are read")
        return RELOCATION.iter_unpack(raw[: count * RELOCATION.size])

    def _slots(self, symbols: list[str]) -> Iterator[tuple[int, str]]:
        for table in (".rela.plt", ".rela.dyn"):
            for slot, info, _ in self.relocations(table):
                if 0 < info >> 32 < len(symbols) and symbols[info >> 32]:
                    yield slot, symbols[info >> 32]

    def _stubs(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for section in self.elf.sections:
            if section.name in (".plt", ".plt.sec", ".plt.got"):
                found.update(self._stubs_in(section))
        return found

    def _stubs_in(self, section: Section) -> Iterator[tuple[int, str]]:
        raw = self.elf.bytes_of(section)
        find = _relative if self.elf.machine == X86_64 else _branches
        for at in range(0, len(raw), 16):
            for slot in find(raw[at : at + 16], section.address + at):
                if slot in self.slots:
                    yield section.address + at, self.slots[slot]


def host(elf: Elf) -> Host:
    """Raises :class:`BinaryError` for a library of a CPU whose code is not followed."""
    if elf.machine not in (X86_64, AARCH64):
        raise BinaryError(f"code for machine {elf.machine} is not followed")
    return Host(elf)


def own_name(symbol: str) -> str:
    """What a function is called in its source, without namespaces and types."""
    return _parted(symbol)[0]


def template_name(symbol: str) -> str:
    """The same; with what it is made of where that is a type: a template that only runs what it is given."""
    own, rest = _parted(symbol)
    made_of = _OF_A_TYPE.match(rest)
    return f"{own}<{_last(rest[made_of.end() :])[0]}>" if made_of else own


def _parted(symbol: str) -> tuple[str, str]:
    """A function's own name, and what follows it: arguments of its template, then types."""
    if not symbol.startswith("_Z"):
        return symbol, ""
    return _last(symbol[2:].removeprefix("N").removeprefix("K"))


def _last(rest: str) -> tuple[str, str]:
    """The last of the names that ``rest`` begins with, and what follows them."""
    own = ""
    while match := re.match(r"\d{1,4}", rest):
        end = match.end() + int(match[0])
        own, rest = rest[match.end() : end], rest[end:]
    return own, rest


def _relative(body: bytes, at: int) -> Iterator[int]:
    """Places named by the four bytes that follow the beginning of a call, a jump or an address."""
    for found in _REFERRING.finditer(body):
        start = found.end(1)
        yield at + start + 4 + int.from_bytes(body[start : start + 4], "little", signed=True)


def _branches(body: bytes, at: int) -> Iterator[int]:
    """Targets of branches, and addresses made of a page and an offset in it."""
    pages: dict[int, int] = {}
    for number, (word,) in enumerate(struct.iter_unpack("<I", body[: len(body) // 4 * 4])):
        here = at + 4 * number
        if word & 0x7C000000 == 0x14000000:
            yield here + 4 * _signed(word & 0x3FFFFFF, 26)
        elif word & 0x9F000000 == 0x90000000:
            page = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
            pages[word & 31] = (here & ~0xFFF) + (page << 12)
        elif word & 0xFFC00000 in (0x91000000, 0xF9400000) and (word >> 5 & 31) in pages:
            scale = 8 if word & 0x40000000 and word >> 24 == 0xF9 else 1
            yield pages[word >> 5 & 31] + (word >> 10 & 0xFFF) * scale


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
