"""Where packages may be copied from: what such a place can be asked for."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from tools.errors import ToolError

MOST_BYTES = 12 << 30
MOST_FILES = 400_000
"""What is taken at most; an engine with its kernel libraries has 2 GB and 15,000 files."""
MOST_INFO = 64 << 20
"""Bytes of one file of a ``*.dist-info``."""


class Place(Protocol):
    """A folder of installed packages somewhere."""

    label: str
    """As the person gave it."""

    def open(self, work: Path) -> None:
        """Get ready. ``work``: a folder for what programs answer. Raises :class:`ToolError`."""

    def close(self) -> None:
        """Leave nothing behind."""

    def mark(self) -> str:
        """What tells that nothing there has changed, without copying it; empty where that cannot be told."""

    def infos(self, site: Path) -> str:
        """Put every ``*.dist-info`` into ``site``; the path of the folder that they lie in there."""

    def take(self, folder: str, names: Sequence[str], site: Path) -> None:
        """Put files and folders called ``names`` in ``folder`` there into ``site``, those that there are."""

    def changes(self, folder: str, work: Path) -> list[str]:
        """Files of a checkout there that were changed since its commit, where that can be told."""


Naming = Callable[[PurePosixPath], PurePosixPath | None]
"""The name under which a member of an archive is kept; None: it is not."""


def unpack(stream: IO[bytes], site: Path, name_of: Naming) -> Iterator[str]:
    """Unpack plain files of a tar stream into ``site``, and give each name.

    Links and devices are passed over, and whatever leads out of ``site``.
    """
    size = count = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if not member.isfile():
                    continue
                name = name_of(PurePosixPath(member.name))
                if name is None or name.is_absolute() or ".." in name.parts or not name.parts:
                    continue
                size, count = size + member.size, count + 1
                if size > MOST_BYTES or count > MOST_FILES:
                    raise ToolError(
                        f"there is more than {MOST_BYTES >> 30} GB or {MOST_FILES} files of it; "
                        "give a folder that holds the packages alone"
                    )
                source = archive.extractfile(member)
                if source is not None:
                    _write(source, site / name)
                    yield name.as_posix()
    except (tarfile.TarError, EOFError) as error:
        raise ToolError(f"what came is no whole archive ({error})") from error


def _write(source: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        while block := source.read(1 << 20):
            file.write(block)


def info_of(path: PurePosixPath) -> PurePosixPath | None:
    """``X.dist-info/FILE`` at the end of a path."""
    parts = path.parts
    if len(parts) >= 2 and parts[-2].endswith(".dist-info"):
        return PurePosixPath(parts[-2], parts[-1])
    return None
