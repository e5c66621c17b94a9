"""Compiled files made byte by byte: fat binaries, cubins and libraries, as small as they can be."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

SUFFIX = {"": 0, "a": 0x100000, "f": 0x200000}


def image(
    target: str, payload: bytes = b"", *, flags: int = 0, kind: int | None = None, whole: int | None = None
) -> bytes:
    """One entry of a fat binary. ``target``: ``sm_120a`` or ``compute_90``."""
    form, _, number = target.partition("_")
    suffix = number[-1] if number[-1] in "af" else ""
    payload = payload or bytes(8)
    padded = payload + bytes(-len(payload) % 8)
    packed = len(payload) if flags else 0
    header = struct.pack(
        "<HHIQIIIIIIQQQ",
        kind if kind is not None else {"compute": 1}.get(form, 2),
        0x101,
        64,
        len(padded),
        packed,
        0,
        0x10008,
        int(number.removesuffix(suffix)),
        0,
        0,
        0x11 | SUFFIX[suffix] | flags,
        0,
        (whole or len(payload) * 4) if flags else 0,
    )
    return header + padded


def fat_binary(*images: bytes) -> bytes:
    body = b"".join(images)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(
    sections: Sequence[tuple[str, int, bytes]], *, machine: int = 62, version: int = 0, flags: int = 0
) -> bytes:
    """An ELF file. ``sections``: name, kind, bytes; a table of symbols links to the section after it."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    at, body, table = 64, b"", [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for number, (name, kind, data) in enumerate([*sections, (".shstrtab", 3, names)], 1):
        offset = names.index(b"\0" + name.encode() + b"\0") + 1
        link = number + 1 if kind in (2, 11) else 0
        table.append(struct.pack("<IIQQQQIIQQ", offset, kind, 0, at, at, len(data), link, 0, 8, 0))
        padded = data + bytes(-len(data) % 8)
        body, at = body + padded, at + len(padded)
    ident = b"\x7fELF\x02\x01\x01" + bytes([0, version]) + bytes(7)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, 3, machine, 1, 0, 0, at, flags, 64, 0, 0, 64, len(table), len(table) - 1
    )
    return head + body + b"".join(table)


def library(
    *fat_binaries: bytes, strings: Sequence[str] = (), functions: Mapping[str, Sequence[str]] | None = None
) -> bytes:
    """A host library with this device code; without any, a library of the host alone.

    ``strings`` are among its constants. ``functions``: exported name → what it calls, exported or imported,
    and the strings that it takes.
    """
    functions = functions or {}
    imported = sorted({name for calls in functions.values() for name in calls} - {*functions, *strings})
    symbols, names = [struct.pack("<IBBHQQ", *[0] * 6)], b"\0"
    text, relocations = b"", b""
    begins = {name: 64 + 64 * number for number, name in enumerate(functions)}
    for name in [*functions, *imported]:
        symbols.append(struct.pack("<IBBHQQ", len(names), 0x12, 0, name in begins, begins.get(name, 0), 64))
        names += name.encode() + b"\0"
    slots = {name: (1 << 20) + 8 * number for number, name in enumerate(imported)}
    for name, slot in slots.items():
        relocations += struct.pack("<QQq", slot, (1 + len(functions) + imported.index(name)) << 32 | 6, 0)
    constants = b"".join(b"\0" + one.encode() for one in strings) + b"\0"
    for calls in functions.values():
        body = b""
        for name in calls:  # an address, a call through a slot that the loader fills, or a direct one
            code, place = (b"\xff\x15", slots[name]) if name in slots else (b"\xe8", begins.get(name, 0))
            if name in strings:
                at = constants.index(b"\0" + name.encode() + b"\0") + 1
                code, place = b"\x48\x8d\x3d", 64 + 64 * len(functions) + at
            after = 64 + len(text) + len(body) + len(code) + 4
            body += code + struct.pack("<i", place - after)
        text += body.ljust(64, b"\xc3")
    sections = [
        (".text", 1, text or bytes(16)),
        (".rodata", 1, constants),
        (".dynsym", 11, b"".join(symbols)),
        (".dynstr", 3, names),
        (".rela.dyn", 4, relocations),
    ]
    return elf([*sections, (".nv_fatbin", 1, b"".join(fat_binaries))] if fat_binaries else sections)


def cubin(target: str, kernels: dict[str, Sequence[int]]) -> bytes:
    """Device code; ``kernels``: name → the opcodes of its instructions."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in kernels)
    sections, symbols = [], struct.pack("<IBBHQQ", *[0] * 6)
    for number, (name, opcodes) in enumerate(kernels.items(), 1):
        code = b"".join(struct.pack("<H", opcode) + bytes(14) for opcode in opcodes)
        sections.append((f".text.{name}", 1, code))
        symbols += struct.pack("<IBBHQQ", names.index(name.encode()), 0x12, 0x10, number, 0, len(code))
    note = b"\0ptxas\0-arch " + target.encode() + b" -m 64\0"
    tail = [(".symtab", 2, symbols), (".strtab", 3, names), (".note.nv.tkinfo", 7, note)]
    return elf([*sections, *tail], machine=190, version=8)


def launching(
    operator: str,
    kernels: Mapping[str, Mapping[str, Sequence[int]]],
    pack: Callable[[bytes], bytes] | None = None,
    registered: str = "",
    ptx: bytes = b"",
    apart: str = "",
) -> bytes:
    """A host library whose function ``operator`` starts kernels; ``kernels``: name → target → opcodes.

    As compilers make it: a function that runs at start-up registers the fat binary, and the name of each
    kernel with the host function that stands for it; and tells torch that the function is the operator
    ``registered``. ``ptx`` is the text of PTX for ``compute_80`` beside the machine code.
    Where there is ``apart``, that is the operator, told through a function of its own, and ``registered`` is
    the first kernel's host function.
    """
    targets = sorted({target for code in kernels.values() for target in code})
    codes = {
        one: cubin(one, {name: code[one] for name, code in kernels.items() if one in code}) + bytes(64)
        for one in targets
    }
    unit = fat_binary(
        *(
            image(one, pack(code), flags=0x2000, whole=len(code)) if pack else image(one, code)
            for one, code in codes.items()
        ),
        *([image("compute_80", ptx)] if ptx else []),
    )
    named = [name for name in (apart, registered) if name]
    strings = [operator, *kernels, *named]
    rodata = b"\0" + b"".join(name.encode() + b"\0" for name in strings)
    stubs = [f"host_{name}" for name in kernels]
    functions = [f"_Z{len(operator)}{operator}v", *stubs, *(["tell"] if apart else []), "start_up"]
    begins = {name: 64 + 64 * number for number, name in enumerate(functions)}
    text_size = begins["start_up"] - 64 + -(-(7 + 20 * len(strings)) // 8) * 8
    constants = 64 + text_size
    wrapper = constants + len(rodata) + -len(rodata) % 8
    start_up = wrapper + 24
    outside = ["cudaLaunchKernel", "__cudaRegisterFunction", *(["torch_library_impl"] if named else [])]
    imported = {name: (1 << 20) + 8 * number for number, name in enumerate(outside)}

    def refer(code: bytes, at: int, place: int) -> bytes:
        return code + struct.pack("<i", place - (at + len(code) + 4))

    calls, bodies = b"", []
    for name in kernels:
        calls += refer(b"\xe8", 64 + len(calls), begins[f"host_{name}"])
        bodies.append(
            refer(b"\xff\x15", begins[f"host_{name}"], imported["cudaLaunchKernel"]).ljust(64, b"\xc3")
        )
    if apart:
        bodies.append(refer(b"\xff\x15", begins["tell"], imported["torch_library_impl"]).ljust(64, b"\xc3"))
    begin = refer(b"\x48\x8d\x3d", begins["start_up"], wrapper)
    told = [(name, f"host_{name}", "__cudaRegisterFunction") for name in kernels]
    told += [(apart, functions[0], "tell")] if apart else []
    told += [(registered, (stubs if apart else functions)[0], "torch_library_impl")] if registered else []
    for name, function, tells in told:
        here = begins["start_up"] + len(begin)
        begin += refer(b"\x48\x8d\x15", here, constants + rodata.index(b"\0" + name.encode() + b"\0") + 1)
        begin += refer(b"\x48\x8d\x35", here + 7, begins[function])
        code, place = (b"\xe8", begins[tells]) if tells in begins else (b"\xff\x15", imported[tells])
        begin += refer(code, here + 14, place)
    text = (calls.ljust(64, b"\xc3") + b"".join(bodies) + begin).ljust(text_size, b"\xc3")

    names, symbols = b"\0", struct.pack("<IBBHQQ", *[0] * 6)
    for name in [*functions, *imported]:
        symbols += struct.pack("<IBBHQQ", len(names), 0x12, 0, name in begins, begins.get(name, 0), 64)
        names += name.encode() + b"\0"
    relocations = struct.pack("<QQq", start_up, 8, begins["start_up"])
    for number, slot in enumerate(imported.values(), 1 + len(functions)):
        relocations += struct.pack("<QQq", slot, number << 32 | 6, 0)
    sizes = [len(symbols), len(names), 24 * (len(imported) + 2)]
    binary = start_up + 8 + sum(size + -size % 8 for size in sizes)
    relocations += struct.pack("<QQq", wrapper + 8, 8, binary)
    return elf(
        [
            (".text", 1, text),
            (".rodata", 1, rodata),
            (".nvFatBinSegment", 1, struct.pack("<IIQQ", 0x466243B1, 1, 0, 0)),
            (".init_array", 14, bytes(8)),
            (".dynsym", 11, symbols),
            (".dynstr", 3, names),
            (".rela.dyn", 4, relocations),
            (".nv_fatbin", 1, unit),
        ]
    )
