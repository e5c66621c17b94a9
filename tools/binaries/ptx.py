"""PTX: the kernels in its text, measured so that they compare with machine code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.binaries.cubin import INSTRUCTION, Kernel

_ENTRY = re.compile(rb"^\.(?:visible \.|weak \.)?entry ([\w$]+)", re.M)
_NEXT = re.compile(rb"^\.(?:visible|weak|entry|func|extern)\b", re.M)
_FIRST = re.compile(rb"^\s*(?:@!?%\w+ )?([a-z][\w.:]*)", re.M)


def ptx_kernels(text: bytes) -> Iterator[Kernel]:
    """Everything that can be launched; a size is what as many machine instructions take."""
    for entry in _ENTRY.finditer(text):
        following = _NEXT.search(text, entry.end())
        body = text[entry.end() : following.start() if following else len(text)].partition(b"\n{")[2]
        first = _FIRST.search(body)
        yield Kernel(
            entry[1].decode("ascii", "replace"),
            body.count(b";") * INSTRUCTION,
            first is not None and first[1] == b"ret",
            body.count(b"trap;"),
        )
