"""One event as one line, and back: canonical JSON and the hash chain of :mod:`transcripts.events`.

The bytes themselves are checked, without parsing: ``hash`` stands between ``data`` and ``prev`` in
sorted order, so cutting it out of the line gives exactly what was hashed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from memory.canonical import canonical

# The end of every line; 9 + 64 + 10 + 64 + 8 + digits + 1 bytes.
_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})","prev":"([0-9a-f]{64})","seq":(0|[1-9][0-9]{0,17})\}$')
_TAIL_BYTES = 180


@dataclass(frozen=True)
class Link:
    """What the chain needs of a line, read from its end."""

    seq: int
    hash: str
    prev: str
    intact: bool
    """The line's bytes hash to ``hash``."""


def encode(seq: int, at: str, data: dict[str, Any], prev: str) -> tuple[bytes, str]:
    """The line of an event, newline included, and its hash."""
    head = f'{{"at":{canonical(at)},"data":{canonical(data)}'.encode()
    tail = f',"prev":"{prev}","seq":{seq}}}'.encode()
    digest = hashlib.sha256(head + tail).hexdigest()
    return head + f',"hash":"{digest}"'.encode() + tail + b"\n", digest


def link(line: bytes) -> Link | None:
    """The chain's part of a line (without or with its newline); None where it is no line of ours."""
    line = line.removesuffix(b"\n")
    match = _TAIL.search(line, max(0, len(line) - _TAIL_BYTES))
    if match is None:
        return None
    hashed = hashlib.sha256(line[: match.start()])
    hashed.update(line[match.end(1) + 1 :])
    claimed = match[1].decode()
    return Link(int(match[3]), claimed, match[2].decode(), hashed.hexdigest() == claimed)


def parse(line: bytes) -> dict[str, Any] | None:
    """A line as JSON object; None where it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class LogError(Exception):
    """A transcript cannot be written or read. One line: which file, what is wrong, what to do."""


class LogWriteError(LogError):
    """Nothing is wrong with what was asked, but it cannot be written down: a full disk, another writer."""

    exit_code = 4
