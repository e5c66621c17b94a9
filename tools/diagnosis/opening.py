"""Opening a log: any file or stream as one that can be read twice, or why not, in one line."""

from __future__ import annotations

import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tools.errors import ToolError

MOST = 4 << 30
"""Bytes that are taken from a stream, which may never end."""
HEAD = 1 << 16
_PACKED = {
    b"\x1f\x8b": "zcat",
    b"(\xb5/\xfd": "zstdcat",
    b"BZh": "bzcat",
    b"\xfd7zXZ": "xzcat",
    b"PK\x03\x04": "unzip -p",
}
"""How compressed files begin, and what unpacks them."""


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """The log called ``name``; ``-`` is standard input. Raises :class:`ToolError`."""
    if name == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise ToolError(
                "- is standard input, and nothing is piped in: docker logs NAME 2>&1 | agent diagnose -"
            )
        with _kept(sys.stdin.buffer) as file:
            yield _checked(file, name)
        return
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            raise ToolError(f"{name} is a folder; expected the file that the engine's output went to")
        with path.open("rb") as file:
            if stat.S_ISREG(path.stat().st_mode):
                yield _checked(file, name)
            else:  # a pipe, a device
                with _kept(file) as kept:
                    yield _checked(kept, name)
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ToolError(
            f"cannot read {name[:200]}: {why}; expected an engine's log, or - for standard input"
        ) from None


@contextmanager
def _kept(stream: BinaryIO) -> Iterator[BinaryIO]:
    """What a stream gives, in a file without a name."""
    with tempfile.TemporaryFile() as file:
        left = MOST
        while left > 0 and (block := stream.read(min(left, 1 << 20))):
            file.write(block)
            left -= len(block)
        file.seek(0)
        yield file


def _checked(file: BinaryIO, name: str) -> BinaryIO:
    head = file.read(HEAD)
    file.seek(0)
    if not head:
        raise ToolError(
            f"{name} is empty: the engine wrote nothing there; was its standard error kept (2>&1)?"
        )
    for mark, program in _PACKED.items():
        if head.startswith(mark):
            raise ToolError(f"{name} is compressed; unpack it: {program} {name} | agent diagnose -")
    return file


def is_binary(file: BinaryIO) -> bool:
    """Whether the beginning of a file is hardly text. NULs alone do not count: a log that was cut off while
    its program went on writing begins with many."""
    file.seek(0)
    head = file.read(HEAD).replace(b"\0", b"")
    odd = sum(byte < 32 and byte not in b"\t\n\r\x1b\x08" for byte in head)
    return not head or odd * 20 > len(head)
