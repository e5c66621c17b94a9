"""Device code on its own (``*.cubin``): its target, and the kernels in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.binaries.elf import CUDA_MACHINE, BinaryError, Elf, Section

ENTRY = 0x10
"""Flag of a symbol that can be launched."""
INSTRUCTION = 16
"""Bytes of one instruction, on every architecture known here."""
OPCODE = 0xFFF
EXIT = 0x94D
TRAP = 0x95C
SET_UP = frozenset({0x918, 0xA02, 0xB82, 0x7AC})
"""Opcodes that do no work: none, and loads of a constant (where the stack is) into a register."""
LONGEST_SET_UP = 1024
"""Bytes at the beginning of a kernel in which a stub has come to its end."""
LONGEST_KERNEL = 4 << 20
SPECIFIC = 0x8
OLD_LAYOUT = 8
"""From this version on the architecture stands in the second byte of the flags."""
_ASSEMBLED_FOR = re.compile(rb"-arch[ =]+(sm_\d{2,3}[af]?)\b")


@dataclass(frozen=True)
class Kernel:
    """``size`` in bytes; ``stub``: it only returns; ``traps``: instructions that stop with an error."""

    name: str
    size: int
    stub: bool
    traps: int

    @property
    def instructions(self) -> int:
        return self.size // INSTRUCTION


def target_of(elf: Elf) -> str:
    """``sm_100f``: what the assembler was told, else what the flags say. Raises :class:`BinaryError`."""
    if elf.machine != CUDA_MACHINE:
        raise BinaryError(f"an ELF file for machine {elf.machine}, not device code")
    note = elf.named(".note.nv.tkinfo")
    if note is not None and (told := _ASSEMBLED_FOR.search(elf.bytes_of(note))):
        return told[1].decode()
    new = bytes(elf.data[elf.start + 8 : elf.start + 9])[0] >= OLD_LAYOUT
    number = elf.flags >> 8 & 0xFF if new else elf.flags & 0xFF
    return f"sm_{number}{'a' if new and elf.flags & SPECIFIC else ''}"


def kernels(elf: Elf) -> Iterator[Kernel]:
    """Everything that can be launched."""
    seen: dict[int, tuple[bool, int]] = {}
    left = elf.size  # code of one kernel is not code of another
    for symbol in elf.symbols(".symtab"):
        if symbol.function and symbol.other & ENTRY and 0 < symbol.section < len(elf.sections):
            section = elf.sections[symbol.section]
            if symbol.section not in seen:
                left -= section.size
                if left < 0:
                    raise BinaryError("kernels are said to be larger than the file that holds them")
                seen[symbol.section] = _only_returns(elf, section), _traps(elf, section)
            yield Kernel(symbol.name, symbol.size or section.size, *seen[symbol.section])


def _only_returns(elf: Elf, section: Section) -> bool:
    """Whether nothing stands before the first exit but what sets up the stack."""
    start = elf.start + section.offset
    for at in range(start, start + min(section.size, LONGEST_SET_UP), INSTRUCTION):
        opcode = int.from_bytes(elf.data[at : at + 2], "little") & OPCODE
        if opcode == EXIT:
            return True
        if opcode not in SET_UP:
            return False
    return section.size == 0


def _traps(elf: Elf, section: Section) -> int:
    """How many instructions stop with an error: what stands where the code is not for this architecture."""
    start = elf.start + section.offset
    code = bytes(elf.data[start : start + min(section.size, LONGEST_KERNEL)])
    low, high = code[::INSTRUCTION], code[1::INSTRUCTION]
    return sum(
        high[found.start()] & 0xF == TRAP >> 8
        for found in re.finditer(re.escape(bytes([TRAP & 0xFF])), low)
        if found.start() < len(high)
    )
