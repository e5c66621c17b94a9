"""What the supervisor asks of the machine: its GPUs, who uses them, what runs below a process."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

SECONDS = 10.0
USED = 1024
"""MiB that a GPU nobody uses may hold."""
COMPILERS = frozenset(
    {"ninja", "nvcc", "cicc", "ptxas", "cudafe++", "fatbinary", "cc1plus", "gcc", "g++", "c++"}
)


class MachineError(Exception):
    """One line: what is not there, or not free; ``code`` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Gpu:
    uuid: str
    name: str
    capability: str
    driver: str
    used: int
    """MiB."""
    users: list[str] = field(default_factory=list)
    """Processes, as the driver names them."""


def gpus() -> list[Gpu]:
    """As the driver's own tool tells. Raises :class:`MachineError` where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise MachineError("no nvidia-smi on PATH, so no NVIDIA GPU that could be used here", 3)
    rows = _ask(program, "--query-gpu=uuid,name,compute_cap,driver_version,memory.used")
    found = [Gpu(row[0], row[1], row[2], row[3], _number(row[4])) for row in rows if len(row) == 5]
    if not found:
        raise MachineError("nvidia-smi tells of no GPU", 3)
    for row in _ask(program, "--query-compute-apps=gpu_uuid,pid,process_name", needed=False):
        for gpu in found:
            if len(row) == 3 and row[0] == gpu.uuid:
                gpu.users.append(f"{row[2]} ({row[1]})")
    return found


def chosen(named: str | None) -> Gpu:
    """The GPU that was named, by index or UUID, else the first that nobody uses."""
    there = gpus()
    if named is not None:
        fitting = [gpu for number, gpu in enumerate(there) if named in (str(number), gpu.uuid)]
        if not fitting:
            raise MachineError(f"no GPU {named} here; there are {', '.join(gpu.uuid for gpu in there)}", 2)
        return fitting[0]
    free = [gpu for gpu in there if not gpu.users and gpu.used <= USED]
    if not free:
        who = "; ".join(f"{gpu.uuid}: {', '.join(gpu.users) or f'{gpu.used} MiB in use'}" for gpu in there)
        raise MachineError(f"every GPU is in use ({who}); name one with --gpu to take it all the same", 4)
    return free[0]


def memory_used(uuid: str) -> int | None:
    """MiB, or None where the driver does not tell."""
    with contextlib.suppress(MachineError):
        return next((gpu.used for gpu in gpus() if gpu.uuid == uuid), None)
    return None


@contextlib.contextmanager
def held(uuid: str, seconds: float, say: object) -> Iterator[None]:
    """Have the GPU to oneself, as far as others of this program go, whoever started them. Waits ``seconds``.

    The lock is the kernel's, on a file that all users of the machine may open: it ends with its holder."""
    path = _shared() / f"assay-{quote(f'gpu:{uuid}', safe=':')}"
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o444))
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise MachineError(f"{path} is no plain file; remove it", 4)
        until, told = time.monotonic() + seconds, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise MachineError(
                        f"GPU {uuid} is taken by another probe; wait for it, or give --wait SECONDS", 4
                    ) from None
                if not told and callable(say):
                    say(f"waiting for GPU {uuid}: another probe comes first")
                    told = True
                time.sleep(0.2)
        yield
    finally:
        os.close(file)


def _shared() -> Path:
    for folder in map(Path, ("/run/lock", "/tmp")):  # noqa: S108 - what TMPDIR says is not the same for all
        with contextlib.suppress(OSError):
            mode = folder.stat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH:
                return folder
    raise MachineError("neither /run/lock nor /tmp is a folder that all users share", 3)


def below(pid: int) -> dict[int, str]:
    """Processes below ``pid``, each with the name of its program."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                name = text[text.index("(") + 1 : text.rindex(")")]
                parents[int(entry.name)] = (int(text[text.rindex(")") + 2 :].split()[1]), name)
    found: dict[int, str] = {}
    wanted = {pid}
    while wanted:
        wanted = {child for child, (parent, _) in parents.items() if parent in wanted and child not in found}
        found |= {child: parents[child][1] for child in wanted}
    return found


def resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _ask(program: str, what: str, *, needed: bool = True) -> list[list[str]]:
    try:
        done = subprocess.run(
            [program, what, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        if needed:
            raise MachineError(
                f"{program} does not answer ({type(error).__name__}); check the driver", 3
            ) from None
        return []
    if done.returncode != 0:
        if needed:
            words = " ".join((done.stdout or done.stderr).split())[:200]
            raise MachineError(f"{program} failed ({words}); check the driver", 3)
        return []
    rows = csv.reader(io.StringIO(done.stdout), skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in rows if row]


def _number(text: str) -> int:
    try:
        return int(float(text))
    except ValueError:
        return 0
