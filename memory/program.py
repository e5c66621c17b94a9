"""Which program this is, to the byte: what it judged is remembered under it, and forgotten with it."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path


@cache
def program_version(*folders: str) -> str:
    """Hash of the sources and data of these top-level folders of the project, and of Python's version."""
    digest = hashlib.sha256(sys.version.encode())
    root = Path(__file__).parents[1]
    for top in folders:
        for folder, inner, files in os.walk(root / top):
            inner.sort()
            for name in sorted(files):
                if name.endswith((".py", ".toml")):
                    path = Path(folder, name)
                    digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
