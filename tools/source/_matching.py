"""Matching lines of files against a pattern. Runs in a process of its own for patterns that could run away.

Only the standard library is used, and nothing of the program: the file is started by its path.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

LINE_LIMIT = 4_000
"""Characters of a line that are looked at; longer lines are generated."""
SHOWN = 400
COUNT_LIMIT = 100_000
SNIFF = 8192
READ_LIMIT = 16 << 20
"""As ``tools.source.tree.READ_LIMIT``: a larger file is no text."""


def decode(data: bytes) -> str:
    """As ``tools.source.tree.decode``."""
    return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def match_files(job: dict[str, Any]) -> dict[str, Any]:
    """Hits of ``pattern`` in ``files`` below ``root``, by file, then line.

    All hits are counted (up to :data:`COUNT_LIMIT`); the first ``limit`` are given, each with ``context``
    lines before and after.
    """
    flags = re.IGNORECASE | re.ASCII if job["ignore_case"] else 0
    pattern = re.compile(job["pattern"], flags)
    hits: list[dict[str, Any]] = []
    count, files = 0, 0
    for file in job["files"]:
        data = read_text(Path(job["root"]) / file)
        if data is None:
            continue
        lines = decode(data).split("\n")
        before = count
        for number, line in enumerate(lines):
            if not pattern.search(line[:LINE_LIMIT]):
                continue
            count += 1
            if len(hits) < job["limit"]:
                around = job["context"]
                hits.append(
                    {
                        "file": file,
                        "line": number + 1,
                        "text": _cut(line),
                        "before": [_cut(text) for text in lines[max(0, number - around) : number]],
                        "after": [_cut(text) for text in lines[number + 1 : number + 1 + around]],
                    }
                )
        files += count > before
        if count >= COUNT_LIMIT:
            break
    return {"hits": hits, "count": count, "files_with_hits": files}


def read_text(path: Path) -> bytes | None:
    """The bytes of a text file; None for one that is binary, too large, or cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(SNIFF)
            rest = b"" if b"\0" in head else file.read(READ_LIMIT + 1 - len(head))
    except OSError:
        return None
    return None if b"\0" in head or len(head) + len(rest) > READ_LIMIT else head + rest


def _cut(line: str) -> str:
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


if __name__ == "__main__":
    json.dump(match_files(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), sys.stdout)
