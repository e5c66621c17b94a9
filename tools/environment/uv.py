"""``uv`` as a child process: which wheels a request means, and unpacking exactly those.

uv finds its index, proxies and certificates by its own configuration; no host is named here. Its resolution
is read from a ``pylock.toml``: per package the one wheel that fits the target, with hash and size. Unpacking
then requires that hash.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from memory.names import distribution
from tools.environment.child import GRACE, run_child
from tools.environment.model import DEFAULT_PLATFORM, PYTHON, Wheel
from tools.environment.uv_settings import child_environment
from tools.errors import ToolError
from tools.source.tree import decode

RESOLVE_SECONDS = 120.0
BUILD_SECONDS = 3600.0
SLOWEST = 100_000
"""Bytes per second below which a download counts as stuck."""

_UNREACHABLE = (
    "network was disabled",
    "network connectivity is disabled",
    "failed to fetch",
    "error sending request",
    "request failed",
    "client error (connect)",
    "dns error",
    "timed out",
)


class UnresolvableError(ToolError):
    """The index answered and has nothing that fits: a wrong name or version, no wheel for the target."""


class Uv:
    """One ``uv`` program and a folder for its working files. ``progress`` is told what takes long."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        progress: Callable[[str], None],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """``settings``: variables of uv's own beside those that it is started with, e.g. another index."""
        self.program = program
        self.folder = folder
        self.progress = progress
        self.settings = dict(settings or {})
        self.warnings: list[str] = []
        """What uv warned of in its last resolution, e.g. a version that was yanked."""
        # Stops uv from looking for settings of a project that the folder happens to lie in.
        (folder / "uv.toml").touch()

    @classmethod
    def find(
        cls, folder: Path, progress: Callable[[str], None], settings: Mapping[str, str] | None = None
    ) -> Uv:
        return cls(find_uv(), folder, progress, settings)

    def resolve(self, requirements: Sequence[str], platform: str) -> list[Wheel]:
        """The wheels that ``requirements`` mean on ``platform``, without what they depend on.

        Raises :class:`UnresolvableError`, or a ``missing`` :class:`ToolError` without a way to the index.
        """
        wanted, lock = self.folder / "requested.txt", self.folder / "pylock.toml"
        wanted.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        lock.unlink(missing_ok=True)
        code, text = self.run(
            ["pip", "compile", wanted.name, "--format", "pylock.toml", "-o", lock.name],
            platform,
            RESOLVE_SECONDS,
            "asking the package index",
        )
        self.warnings = re.findall(r"^warning: (.*(?:yanked).*)$", text, re.M)
        if code != 0 or not lock.is_file():
            raise self.explain(text, requirements, platform)
        return locked(lock)

    def unpack(self, wheels: Sequence[Wheel], platform: str, target: Path) -> None:
        """Fetch exactly these wheels and unpack them into ``target``. Raises :class:`ToolError`."""
        wanted = self.folder / "hashes.txt"
        lines = (f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in wheels)
        wanted.write_text("\n".join(lines) + "\n", encoding="utf-8")
        total = sum(wheel.size or 0 for wheel in wheels)
        code, text = self.run(
            ["pip", "install", "-r", wanted.name, "--require-hashes", "--target", str(target)],
            platform,
            600 + total / SLOWEST,
            f"fetching {human_size(total) if total else 'wheels'}",
            packages=len(wheels),
        )
        (target / ".lock").unlink(missing_ok=True)
        if code != 0:
            raise self.explain(text, [f"{wheel.name}=={wheel.version}" for wheel in wheels], platform)

    def build(self, requirement: str, platform: str, target: Path) -> None:
        """Fetch one package and unpack it into ``target``, built from its source where there is no wheel.

        What is built runs here, as this user: only where a person has allowed it.
        """
        wanted = self.folder / "build.txt"
        wanted.write_text(requirement + "\n", encoding="utf-8")
        command = ["pip", "install", "-r", wanted.name, "--target", str(target)]
        code, text = self.run(
            command, platform, BUILD_SECONDS, f"building {requirement}", packages=1, build=True
        )
        (target / ".lock").unlink(missing_ok=True)
        if code != 0:
            raise self.explain(text, [requirement], platform)

    def reaches_index(self, name: str, seconds: float) -> bool:
        """Whether the index answers a question about ``name`` now, whatever uv remembers of it."""
        try:
            code, _ = self.run(
                ["pip", "compile", "-", "--quiet", "--refresh"],
                DEFAULT_PLATFORM,
                seconds,
                "asking the package index",
                text=name,
                grace=0.5,
            )
        except ToolError:
            return False
        return code == 0

    def versions(self, name: str, low: str, high: str, platform: str) -> list[str]:
        """Every version from ``low`` to ``high`` that has a wheel for ``platform``, oldest first; without
        those that were taken back, and pre-releases. Raises as :meth:`resolve`."""
        found: list[str] = []
        below = f"<={high}"
        while True:
            requirement = f"{name}>={low},{below}"
            command = ["pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"]
            doing = f"listing versions of {name}, {len(found)} so far"
            code, text = self.run(command, platform, RESOLVE_SECONDS, doing, text=requirement)
            match = re.search(r"==(\S+)", text) if code == 0 else None
            if match is None:
                flat = " ".join(text.split()).lower()
                if code != 0 and (not found or any(sign in flat for sign in _UNREACHABLE)):
                    raise self.explain(text, [requirement], platform)
                return found[::-1]
            found.append(match.group(1))
            below = f"<{match.group(1)}"

    def nearest(self, name: str, version: str, platform: str) -> list[str]:
        """Existing versions next to one that does not exist: the one below, the one above."""
        found = []
        for requirement, extra in (
            (f"{name}<{version}", []),
            (f"{name}>{version}", ["--resolution", "lowest"]),
        ):
            code, text = self.run(
                ["pip", "compile", "-", "--quiet", "--no-header", "--no-annotate", *extra],
                platform,
                RESOLVE_SECONDS,
                "looking for versions near it",
                text=requirement,
            )
            if code == 0 and (match := re.search(r"==(\S+)", text)):
                found.append(match.group(1))
        return found

    def run(
        self,
        command: list[str],
        platform: str,
        seconds: float,
        doing: str,
        *,
        packages: int = 0,
        text: str | None = None,
        grace: float = GRACE,
        build: bool = False,
        common: Sequence[str] | None = None,
    ) -> tuple[int, str]:
        """Exit code and output, both streams together. ``common``: what is said besides, by default that
        only the named packages are meant, as wheels for ``platform``."""
        if text is not None:  # stdin is closed: what would be piped goes through a file
            (self.folder / "near.txt").write_text(text + "\n", encoding="utf-8")
            command = ["near.txt" if part == "-" else part for part in command]
        log = self.folder / "uv.log"
        told = 0.0

        def tick(gone: float) -> None:
            nonlocal told
            if gone - told >= (1.0 if told < 5 else 5.0):
                told = gone
                done = decode(log.read_bytes()).count(" Downloaded ") if packages else 0
                of = f", {done} of {packages} done" if packages > 1 else ""
                self.progress(f"{doing}{of} ({gone:.0f} s)")

        if common is None:
            common = ["--no-deps", "--python", sys.executable, "--no-python-downloads"]
            # What is built is built by the Python that runs it: another can only be stated for wheels.
            if not build:
                common += [
                    "--only-binary",
                    ":all:",
                    "--python-version",
                    PYTHON,
                    "--python-platform",
                    platform,
                ]
        try:
            ended = run_child(
                [
                    str(self.program),
                    *command,
                    *common,
                ],
                environment=child_environment(retries=not packages) | self.settings,
                folder=self.folder,
                output=log,
                seconds=seconds,
                tick=tick,
                grace=grace,
            )
        except OSError as error:
            raise ToolError(
                f"cannot run {self.program} ({error.strerror or error}); reinstall it: pip install uv",
                missing=True,
            ) from error
        if ended.timed_out:
            raise ToolError(
                f"{doing} took more than {seconds:.0f} s; check the network and try again", missing=True
            )
        return ended.code, decode(log.read_bytes())

    def explain(self, text: str, requirements: Sequence[str], platform: str) -> ToolError:
        """One line of what uv says, with what to do next."""
        flat = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
        # This goes into transcripts: an index of one's own may be reached with a password.
        flat = re.sub(r"://[^/\s@]+@", "://…@", flat)
        asked = ", ".join(requirements)
        if re.search(r"no space left", flat, re.I):
            return ToolError(
                f"no space left while fetching {asked}; free some, or set ASSAY_HOME", missing=True
            )
        if "invalid peer certificate" in flat.lower():
            return ToolError(
                f"the package index for {asked} shows a certificate that uv does not trust; "
                "set SSL_CERT_FILE to your network's, or UV_SYSTEM_CERTS=1 to use the system's",
                missing=True,
            )
        if "git operation failed" in flat.lower():
            said = re.search(r"fatal: (.{1,200})", flat)
            return UnresolvableError(
                f"git cannot get {re.sub(r'://[^/@ ]+@', '://…@', asked)}: "
                f"{said.group(1) if said else 'it gave no reason'}; check the repository and the revision"
            )
        if any(sign in flat.lower() for sign in _UNREACHABLE):
            return ToolError(
                f"cannot reach the package index for {asked}; check the network and uv's settings "
                "(UV_OFFLINE, proxy, index), or use an environment that exists: agent environment list",
                missing=True,
            )
        if match := re.search(r"(?:Because )?(\S+) was not found in the (?:package registry|cache)", flat):
            return UnresolvableError(f"no package {match.group(1)!r} on the package index; check its name")
        if match := re.search(r"no version of ([\w.-]+)==(\S+?)(?:,| and |$)", flat):
            name, version = match.groups()
            near = self.nearest(name, version, platform)
            there = f"; nearest: {', '.join(near)}" if near else ""
            return UnresolvableError(f"no version {version} of {name}{there}")
        if match := re.search(r"(\S+?)(?:==(\S+))? has no (?:usable wheels|wheels with a matching)", flat):
            name, version = match.groups()
            near = self.nearest(name, version, platform) if version else []
            there = f", which {' and '.join(near)} {'have' if len(near) > 1 else 'has'}" if near else ""
            return UnresolvableError(
                f"{name}{' ' + version if version else ''} has no wheel for {platform} and Python {PYTHON}"
                f"{there}; choose another version, or another architecture"
            )
        if match := re.search(r"Hash mismatch for `?([^`\s]+)", flat):
            return ToolError(
                f"the wheel of {match.group(1)} is not the one that the index promised (its sha256 differs); "
                "nothing was kept; try again, and mistrust the index if it stays so"
            )
        reason = flat.removeprefix("error: ")[:300]
        return ToolError(f"uv could not provide {asked}: {reason or 'it gave no reason'}")


def find_uv() -> Path:
    """The ``uv`` that came with this program, else the one on PATH. Raises :class:`ToolError`."""
    try:
        from uv import find_uv_bin

        return Path(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise ToolError(
            "uv is needed to fetch packages and is not installed; bring it with: pip install uv", missing=True
        )
    return Path(found)


def human_size(size: int | None) -> str:
    """``39.1 MB``: decimal megabytes, as indexes and networks count."""
    if size is None:
        return "size unknown"
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def locked(lock: Path) -> list[Wheel]:
    """The wheels of a ``pylock.toml`` that uv has written."""
    return [_wheel(package) for package in tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]]


def _wheel(package: dict[str, Any]) -> Wheel:
    """The wheel that uv chose, from an entry of the lock."""
    wheels = package.get("wheels") or []
    name = distribution(package["name"])
    if not wheels:
        raise ToolError(f"uv named no wheel for {name}; update it: pip install 'uv>=0.10'")
    # Several fit where an index holds one version twice: the hash then says which of them is meant.
    wheel = wheels[0]
    place = str(wheel.get("name") or wheel.get("url") or wheel.get("path") or "")
    sha256 = wheel.get("hashes", {}).get("sha256")
    if sha256 is None:
        raise ToolError(
            f"the package index gives no sha256 for {name} {package['version']}; use another index"
        )
    return Wheel(
        name=name,
        version=str(package["version"]),
        filename=unquote(place.split("#", 1)[0].split("?", 1)[0].rsplit("/", 1)[-1]),
        sha256=sha256,
        size=wheel.get("size"),
    )
