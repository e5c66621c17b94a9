"""A store of whole results by content: what a transcript only points to.

``<root>/ab/cdef…`` holds the bytes whose sha256 is ``abcdef…``. A file is complete or not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArtifactError(Exception):
    """An artifact is missing, damaged, or cannot be written. The message says which and why."""


class Artifacts:
    def __init__(self, root: Path) -> None:
        """``root``: usually ``Home.artifacts``; made when the first artifact is put."""
        self.root = root

    def path(self, sha256: str) -> Path:
        """Where an artifact lies, there or not. Raises :class:`ArtifactError` for what is no sha256."""
        if not _SHA256.fullmatch(sha256):
            raise ArtifactError(f"{sha256[:80]!r} is no sha256: expected 64 hexadecimal digits, lower case")
        return self.root / sha256[:2] / sha256[2:]

    def put(self, data: bytes) -> str:
        """Keep ``data``; returns its sha256. On disk when this returns."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        try:
            # A damaged file of that name (a disk that was full, a hand) is written anew, not trusted.
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                return sha256
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, data)
        except OSError as error:
            raise ArtifactError(
                f"cannot keep an artifact of {len(data)} bytes in {self.root}: {error.strerror or error}"
            ) from error
        return sha256

    def get(self, sha256: str) -> bytes:
        """The bytes, checked against their name."""
        path = self.path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise ArtifactError(f"no artifact {sha256} in {self.root}") from None
        except OSError as error:
            raise ArtifactError(f"cannot read artifact {sha256}: {error.strerror or error}") from error
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise ArtifactError(f"artifact {sha256} is damaged: its {len(data)} bytes hash to {found}")
        return data

    def __contains__(self, sha256: str) -> bool:
        return self.path(sha256).is_file()


def document(sha256: str, data: bytes) -> Any:
    """The JSON that an artifact holds. Raises :class:`ArtifactError` where it holds something else."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ArtifactError(
            f"artifact {sha256} holds no JSON; expected a result or a message, bring the right one"
        ) from None


def _write_whole(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name in ``folder`` survive a loss of power, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
