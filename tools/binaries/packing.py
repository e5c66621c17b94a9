"""Unpacking compressed images: ``zstd`` as compilers write it now, LZ4 blocks as they did before."""

from __future__ import annotations

import zstandard

from tools.binaries.elf import BinaryError, Buffer
from tools.binaries.fatbin import Image, Packing

LARGEST = 128 << 20
"""Bytes that one image may have once unpacked."""


def unpacked(data: Buffer, image: Image) -> bytes:
    """The image as it is loaded. Raises :class:`BinaryError`."""
    raw = bytes(data[image.offset : image.offset + image.size])
    if image.whole > LARGEST:
        raise BinaryError(f"an image of {image.whole} bytes; at most {LARGEST} are unpacked")
    match image.packing:
        case Packing.NONE:
            return raw
        case Packing.ZSTD:
            return _zstd(raw, image.whole)
        case Packing.LZ4:
            return _lz4(raw, image.whole)
        case _:
            raise BinaryError("an image is compressed in a way that is not known here")


def _zstd(raw: bytes, size: int) -> bytes:
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw) as reader:
            return reader.read(size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise BinaryError(f"an image cannot be unpacked: {error}") from error


def _lz4(raw: bytes, size: int) -> bytes:
    """Literals, then a copy of what came before, again and again."""
    out = bytearray()
    at = 0
    try:
        while at < len(raw):
            token, at = raw[at], at + 1
            length, at = _length(raw, at, token >> 4)
            out += raw[at : at + length]
            at += length
            if at >= len(raw) or len(out) >= size:
                break
            back, at = raw[at] | raw[at + 1] << 8, at + 2
            length, at = _length(raw, at, token & 15)
            length += 4
            if not 0 < back <= len(out) or len(out) + length > size:
                raise BinaryError("an image cannot be unpacked: it copies from outside")
            piece = out[-back:]
            out += (piece * (length // back + 1))[:length]
    except IndexError:
        raise BinaryError("an image cannot be unpacked: it ends too soon") from None
    return bytes(out)


def _length(raw: bytes, at: int, length: int) -> tuple[int, int]:
    """A length of four bits, and the bytes that go on with it."""
    if length == 15:
        while (more := raw[at]) == 255:
            length, at = length + 255, at + 1
        length, at = length + more, at + 1
    return length, at
