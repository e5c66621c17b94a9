"""Resources of which each has one user at a time on this machine: a GPU, a port, an environment.

A resource is a name with its kind in front: ``gpu:UUID``, ``port:30000``, ``environment:NAME``. Holding it
is holding a lock of the kernel's (``flock``) on an empty file, so it ends with whoever holds it, also where
that is killed. The files stay: one that is removed while somebody has it open would be locked twice. What
belongs to the machine is locked in a folder that all its users share, the rest below the home. Locks keep
those apart who mean well; they are no defence against a user who locks what is not theirs.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from memory.home import Home
from tools.errors import ToolError
from tools.stopping import pause

OF_THE_MACHINE = ("gpu", "port")
"""Kinds of which the machine has one, whoever uses it."""
PATIENCE = 1.0
"""Seconds after which the person is told what is waited for."""
POLL = 0.01
LONGEST_NAME = 150
"""Characters of a file's name, which may have 255."""


def shared_folder() -> Path:
    """Where every user of this machine may make files and nobody may remove another's."""
    for folder in map(Path, ("/run/lock", "/tmp")):  # noqa: S108 - what TMPDIR says is not the same for all
        with suppress(OSError):
            mode = folder.stat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH:
                return folder
    raise ToolError(
        "neither /run/lock nor /tmp is a folder that all users share; expected mode 1777", missing=True
    )


@contextmanager
def holding(
    resources: Iterable[str], home: Home, tell: Callable[[str], None], shared: Path | None = None
) -> Iterator[None]:
    """Have every resource to oneself; waits for those that others hold, and tells so after :data:`PATIENCE`.

    They are taken in sorted order, so that two who want the same never wait for each other. ``shared``: the
    folder of what belongs to the machine, by default :func:`shared_folder`. Not to be entered again from
    within for the same resource: that would wait for itself. Raises :class:`ToolError` where there can be
    no lock.
    """
    with ExitStack() as held:
        for name in sorted(set(resources)):
            kind, colon, what = name.partition(":")
            if not (kind and colon and what):
                raise ToolError(f"{name!r} is no resource; expected KIND:NAME, e.g. port:30000")
            common = kind in OF_THE_MACHINE
            folder = (shared or shared_folder()) if common else home.root / "locks"
            held.enter_context(_held(name, folder, tell, common=common))
        yield


@contextmanager
def _held(name: str, folder: Path, tell: Callable[[str], None], *, common: bool) -> Iterator[None]:
    door, lock = _Lock(folder, f"{_file(name)}+next", common), _Lock(folder, _file(name), common)
    try:
        with _explained(name, folder):
            waiting = _Waiting(name, tell)
            # Whoever waits stands in the door: who lets go of the resource cannot have it again before them.
            door.take(waiting)
            lock.take(waiting)
            door.free()
        yield
    finally:
        door.free()
        lock.free()


@contextmanager
def _explained(name: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(
            f"cannot lock {name} in {folder} ({error.strerror or error}); see to it that you can write there",
            missing=True,
        ) from error


def _file(resource: str) -> str:
    """A file's name for a resource: nothing in it leads to another folder, and no two have the same."""
    name = f"assay-{quote(resource, safe=':')}"  # no plus sign is left in it
    return name if len(name) <= LONGEST_NAME else f"{name[:60]}-{sha256(resource.encode()).hexdigest()}"


class _Waiting:
    """Waiting for one resource: told once, not at all where it is short, and ended by a request to stop."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self._name = name
        self._tell = tell
        self._since = time.monotonic()
        self._told = False

    def a_moment(self, file: int) -> None:
        pause(POLL)
        if not self._told and time.monotonic() - self._since >= PATIENCE:
            self._told = True
            self._tell(f"waiting for {self._name}: {_holder(file)} comes first")


def _holder(file: int) -> str:
    """Who holds the lock on an open file, where the system tells."""
    about = os.fstat(file)
    wanted = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
            match line.split():
                case [_, "FLOCK", _, _, process, where, *_] if where == wanted:
                    return f"process {process}"
    return "another process"


class _Lock:
    """One file's lock. It is this process's, not a thread's: two threads that take it have one each."""

    def __init__(self, folder: Path, name: str, common: bool) -> None:
        self._path = folder / name
        self._common = common
        self._file = -1

    def take(self, waiting: _Waiting) -> None:
        while True:
            self._file = self._open()
            while not self._try():
                waiting.a_moment(self._file)
            # Something that clears up old files may have been here meanwhile: then nobody else has this one.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._file), self._path.lstat()):
                    return
            self.free()

    def free(self) -> None:
        if self._file >= 0:
            # Closing alone is not enough: a forked child has the same lock.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _open(self) -> int:
        # Another user's file can be read and not written, which is enough; some file systems want more, and
        # what lies in the home is our own. No link is followed, and no pipe waited for.
        flags = (os.O_RDONLY if self._common else os.O_RDWR) | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            try:
                file = os.open(self._path, flags)
            except FileNotFoundError:
                self._make()
                continue
            if stat.S_ISREG(os.fstat(file).st_mode):
                return file
            os.close(file)
            raise FileExistsError(None, "something that is no plain file is in the way", str(self._path))

    def _make(self) -> None:
        """Make the empty file, unless somebody else is quicker."""
        with suppress(FileExistsError):
            if not self._common:
                self._path.parent.mkdir(mode=0o700, exist_ok=True)
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                return
            # With its mode from the first moment, whatever our mask: another user may be about to open it.
            handle, name = tempfile.mkstemp(prefix=".assay-", dir=self._path.parent)
            try:
                os.fchmod(handle, 0o444)
                os.link(name, self._path)
            finally:
                os.close(handle)
                Path(name).unlink()
