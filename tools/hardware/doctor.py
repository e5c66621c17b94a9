"""What this machine has and lacks for the work, each with the command that mends it."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from memory.home import Home, HomeError
from memory.vocabulary import Contract
from tools.base import ToolError
from tools.environment.pins import default_engine
from tools.environment.uv import Uv, find_uv
from tools.hardware.gpu import read_gpus
from tools.hardware.programs import NVCC, version_of

SECONDS = 4.5
"""Each check is given this long; they run side by side. What hangs is ended within one second more."""

LEAST_DISK = 5_000_000_000
"""Bytes: an engine, its kernel libraries and what is unpacked of them."""


class Check(Contract):
    """``ok``: True, False (needed for the main job and not there), or None (optional and not there)."""

    name: str
    ok: bool | None
    found: str
    fix: str | None = None


def checks(home: Home, environment: Mapping[str, str] = os.environ, seconds: float = SECONDS) -> list[Check]:
    """Look at everything at once. ``environment``: variables to look at; the values of keys never show."""
    each: Sequence[Callable[[], Check]] = (
        _python,
        lambda: _uv(seconds),
        lambda: _network(seconds),
        lambda: _home(home),
        lambda: _disk(home),
        lambda: _program(
            "rg",
            "ripgrep",
            seconds,
            "searches use grep or Python without it; apt-get install ripgrep, or brew install ripgrep",
        ),
        lambda: _program(
            NVCC, "CUDA compiler", seconds, "needed only to compile kernels: install the CUDA toolkit"
        ),
        lambda: _gpu(seconds),
        lambda: _model(environment),
    )
    with ThreadPoolExecutor(len(each)) as pool:
        return [future.result() for future in [pool.submit(check) for check in each]]


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check(
        name="python",
        ok=ok,
        found=f"{platform.python_version()} ({sys.executable})",
        fix=None if ok else "install Python 3.11 or newer",
    )


def _uv(seconds: float) -> Check:
    try:
        program = find_uv()
    except ToolError as error:
        return Check(name="uv", ok=False, found="not found", fix=str(error))
    version = version_of(str(program), seconds)
    return Check(
        name="uv",
        ok=version is not None,
        found=f"{version or 'does not run'} ({program})",
        fix=None if version else "pip install --force-reinstall uv",
    )


def _network(seconds: float) -> Check:
    """Whether ``uv`` reaches the index it is configured for: the smallest question that goes there."""
    fix = "needed to create environments; check the network, proxy variables and uv's index settings"
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        try:
            uv = Uv.find(Path(name), lambda _: None)
            reached = uv.reaches_index(default_engine(), seconds)
        except ToolError as error:
            return Check(name="network", ok=False, found=f"not asked: {error}", fix=fix)
    found = "uv reaches its package index" if reached else "uv does not reach its package index"
    return Check(name="network", ok=reached, found=found, fix=None if reached else fix)


def _home(home: Home) -> Check:
    try:
        home.prepare()
        probe = home.root / f".write-{secrets.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except (HomeError, OSError) as error:
        return Check(
            name="home",
            ok=False,
            found=f"{home.root} cannot be written ({error})",
            fix="set ASSAY_HOME to a folder that can be written",
        )
    return Check(name="home", ok=True, found=f"{home.root} can be written")


def _disk(home: Home) -> Check:
    folder = home.root
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(
            name="disk", ok=False, found=f"cannot look at {folder} ({error.strerror})", fix="set ASSAY_HOME"
        )
    ok = free >= LEAST_DISK
    return Check(
        name="disk",
        ok=ok,
        found=f"{free / 1e9:.1f} GB free for {home.root}",
        fix=None if ok else f"free {LEAST_DISK / 1e9:.0f} GB, or set ASSAY_HOME to a larger disk",
    )


def _program(name: str, what: str, seconds: float, fix: str) -> Check:
    program = shutil.which(name)
    if program is None:
        return Check(name=name, ok=None, found=f"no {what} on PATH (optional)", fix=fix)
    version = version_of(str(program), seconds)
    if version is None:
        return Check(name=name, ok=None, found=f"{program} does not run (optional)", fix=fix)
    return Check(name=name, ok=True, found=f"{version} ({program})")


def _gpu(seconds: float) -> Check:
    status = read_gpus(seconds)
    if status.gpus:
        named = ", ".join(f"{gpu.name} ({gpu.compute_capability or '?'})" for gpu in status.gpus)
        return Check(
            name="gpu", ok=True, found=f"{len(status.gpus)}: {named}; driver {status.gpus[0].driver}"
        )
    return Check(
        name="gpu",
        ok=None,
        found=f"{status.missing or 'the driver lists no GPU'} (optional)",
        fix="needed only to run probes, servers and benchmarks",
    )


def _model(environment: Mapping[str, str]) -> Check:
    key, url = (bool(environment.get(name)) for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    if key or url:
        where = "OPENAI_BASE_URL is set" if url else "the provider's default endpoint"
        return Check(name="model", ok=True, found=f"key {'present' if key else 'absent'}, {where}")
    return Check(
        name="model",
        ok=None,
        found="none configured (optional): the built-in planner drives",
        fix="set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own",
    )
