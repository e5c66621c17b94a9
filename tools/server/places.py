"""The folders of one server: what it works in, what it leaves in passing, and the record of whose it is.

Engines put sockets, locks and half-made files where temporary files go, and leave them there when they are
killed. Each server is given such a folder of its own, with a short path: a socket's has a hundred characters.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memory.home import Home
from tools.errors import ToolError
from tools.server.shared import remove

if TYPE_CHECKING:
    import psutil

RECORD = "record.json"
_PREFIX = "assay-server-"


@dataclass(frozen=True)
class Places:
    """``folder`` holds the rest but ``temporary``; of it ``log`` is what stays."""

    folder: Path
    temporary: Path

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def record(self, document: dict[str, object]) -> None:
        """Say what runs, so that another run of the program can end it. Raises :class:`ToolError`."""
        new = self.folder / f"{RECORD}.new"
        try:
            new.write_text(json.dumps(document | {"temporary": str(self.temporary)}, sort_keys=True), "utf-8")
            new.replace(self.folder / RECORD)
        except OSError as error:
            raise _unwritable(self.folder, error) from error


@contextlib.contextmanager
def places(home: Home, server: str) -> Iterator[Places]:
    """Those of a server that is to be started; at the end only its log is left. Raises :class:`ToolError`."""
    import psutil

    made = Places(home.root / "servers" / server, Path(tempfile.gettempdir()) / f"{_PREFIX}{server}")
    try:
        try:
            made.work.mkdir(parents=True, mode=0o700)
            made.record({"owner": identity(psutil.Process())})
            made.temporary.mkdir(mode=0o700)
        except OSError as error:
            raise _unwritable(made.folder, error) from error
        yield made
    finally:
        for name in (RECORD, f"{RECORD}.new"):
            with contextlib.suppress(OSError):
                (made.folder / name).unlink(missing_ok=True)
        shutil.rmtree(made.work, ignore_errors=True)
        shutil.rmtree(made.temporary, ignore_errors=True)


def forget(folder: Path, document: dict[str, object]) -> None:
    """Remove what a record tells of, and the record: of a server that has ended, whoever started it."""
    temporary = document.get("temporary")
    # Nothing but what bears this server's name is removed, whatever a record says.
    if isinstance(temporary, str) and Path(temporary).name == f"{_PREFIX}{folder.name}":
        shutil.rmtree(temporary, ignore_errors=True)
    names = document.get("shared")
    remove(one for one in names if isinstance(one, str)) if isinstance(names, list) else None
    shutil.rmtree(folder / "work", ignore_errors=True)
    with contextlib.suppress(OSError):
        (folder / RECORD).unlink()


def identity(process: psutil.Process) -> list[float]:
    """A process as a record names it: its number may be another's one day, its beginning not."""
    return [process.pid, process.create_time()]


def _unwritable(folder: Path, error: OSError) -> ToolError:
    return ToolError(f"cannot write to {folder} ({error.strerror or error}); free space there")
