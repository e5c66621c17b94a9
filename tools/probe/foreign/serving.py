"""The worker as the supervisor holds it: started when needed, watched, ended with all below it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from .machine import COMPILERS, below, resident

TAIL = 6000
"""Bytes of a worker's own output that a row keeps."""
GONE = 60.0
"""Seconds in which what was killed must be gone: a driver takes its time with a kernel that runs."""
POLL = 0.25
_ALLOWED = (
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "MAX_JOBS", "CC", "CXX", "CPATH"),
    *("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"),
)


class Serving:
    """``limits``: ``memory_bytes`` of the worker, ``gpu_memory_share``, ``caches`` (variable → folder),
    ``carried`` (variable → folder of an installed package), and ``environment`` (variables that say what is
    compiled for). ``kept``: where what was compiled is looked for, instead of below ``folder``."""

    def __init__(
        self,
        folder: Path,
        limits: dict[str, Any],
        site: list[str],
        device: str,
        gpu: str | None,
        kept: Path | None = None,
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._site = [str(Path(one).resolve()) for one in site]
        self._device = device
        self._gpu = gpu
        self._kept = kept
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._buffer = b""
        self._log: BinaryIO | None = None
        self._pid = 0

    def __enter__(self) -> Serving:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def fresh(self) -> bool:
        """Whether the next cell begins in a process of its own."""
        return self._process is None

    def run(self, cell: dict[str, Any], seconds: float) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The row of a cell; and what there is here, where a worker was started for it."""
        here = None
        until = time.monotonic() + seconds
        if self._process is None:
            self._start()
            said = self._next(until, lambda message: "ready" in message or "lacking" in message)
            if "ready" not in said:
                if "lacking" in said:
                    said = {"ended": "lacking", "error": said["lacking"]}
                row = {"cell": cell["id"], "device": self._device, "stage": "import", **said}
                return self._ended(row), None
            here = said["ready"]
            self._pid = here["pid"]
        assert self._log is not None
        assert self._process is not None
        assert self._process.stdin is not None
        at = self._log.seek(0, os.SEEK_END)
        begun = time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(cell).encode() + b"\n")
            self._process.stdin.flush()
        stages: list[str] = []
        said = self._next(until, lambda message: "row" in message, stages)
        if "row" in said:
            row = said["row"]
            if row["ended"] == "raised":
                row["log"] = self._tail(at)
            if row["context"] == "broken":
                self.end()
            return row, here
        row = {
            "cell": cell["id"],
            "device": self._device,
            "stage": stages[-1] if stages else "import",
            **said,
            "seconds": time.monotonic() - begun,
        }
        return self._ended(row, at), here

    def _start(self) -> None:
        (self._folder / "logs").mkdir(exist_ok=True)
        log = self._folder / "logs" / f"worker-{time.time_ns()}.log"
        self._log = log.open("w+b")
        reads, writes = os.pipe()
        failed, says = os.pipe()
        told = {
            "device": self._device,
            "cache": str(self._cache()),
            "site": self._site,
            "memory": self._limits["gpu_memory_share"],
            "pipe": writes,
        }
        guard = Path(__file__).with_name("guard.py")
        command = [sys.executable, "-I", "-S", str(guard), str(os.getpid()), str(says), "-1", "3.0"]
        command += [sys.executable, "-P", str(self._folder / "run.py"), "--worker", json.dumps(told)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self._empty(),
                pass_fds=(writes, says),
                start_new_session=True,
            )
        finally:
            for one in (writes, says, failed):
                os.close(one)
        self._pipe, self._buffer = reads, b""

    def _cache(self) -> Path:
        return self._folder / "cache" if self._kept is None else self._kept

    def _empty(self) -> Path:
        folder = self._folder / "empty"
        folder.mkdir(exist_ok=True)
        return folder

    def _environment(self) -> dict[str, str]:
        found = {name: os.environ[name] for name in _ALLOWED if name in os.environ}
        if self._gpu is not None:
            found["CUDA_VISIBLE_DEVICES"] = self._gpu
        for variable, name in self._limits["caches"].items():
            folder = self._cache() / name
            folder.mkdir(parents=True, exist_ok=True)
            found[variable] = str(folder)
        for variable, name in self._limits.get("carried", {}).items():
            there = (folder for one in (*self._site, *sys.path) if (folder := Path(one) / name).is_dir())
            if (folder := next(there, None)) is not None:
                found[variable] = str(folder)
        found |= self._limits.get("environment", {})
        if self._site:
            # What the library starts (a compiler, a tool) must find the same packages.
            found["PYTHONPATH"] = os.pathsep.join(self._site)
        return {**found, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}

    def _next(self, until: float, wanted: Any, stages: list[str] | None = None) -> dict[str, Any]:
        """The next message that is wanted, or how it came to none: ``timed_out``, ``memory`` or ``died``."""
        assert self._process is not None
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                message = json.loads(line)
                if "stage" in message and stages is not None:
                    stages.append(message["stage"])
                if wanted(message):
                    return dict(message)
                continue
            if time.monotonic() > until:
                names = sorted(set(below(self._process.pid).values()) & COMPILERS)
                return {"ended": "timed_out", "compiling": names}
            if self._pid and resident(self._pid) > self._limits["memory_bytes"]:
                return {"ended": "memory"}
            if select.select([self._pipe], [], [], POLL)[0]:
                data = os.read(self._pipe, 1 << 16)
                if not data:
                    return {"ended": "died"}
                self._buffer += data

    def _ended(self, row: dict[str, Any], at: int = 0) -> dict[str, Any]:
        """The worker is gone, or is to go: say how, with its last words."""
        code = self.end()
        if row["ended"] == "died":
            row["code"] = code
        row["log"] = self._last
        row["context"] = "gone"
        return row

    def _tail(self, at: int) -> str:
        assert self._log is not None
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(at, size - TAIL))
        return self._log.read().decode("utf-8", "replace")

    def end(self) -> int | None:
        """End the worker and all below it; its exit code, negative for a signal. Bounded."""
        process, self._process, self._pid = self._process, None, 0
        if process is None:
            return None
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        # What is below the guard first: it then ends what these have left behind, and itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
        until = time.monotonic() + GONE
        while process.poll() is None and time.monotonic() < until:
            for pid in below(process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(GONE)
        os.close(self._pipe)
        self._last = self._tail(0)
        if self._log is not None:
            self._log.close()
            self._log = None
        return process.returncode
