"""What was asked for: packages, a platform, and whether the engine's own pins come along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from memory.architecture import Architecture
from memory.canonical import sha256_of
from memory.names import distribution
from tools.environment.pins import default_engine, profiles
from tools.errors import ToolError

EXPECTED = "expected NAME==VERSION or NAME, for example sglang==0.5.9"


@dataclass(frozen=True)
class Request:
    """``packages``: version by canonical name, None for the newest. ``platform`` as ``uv`` names it."""

    packages: dict[str, str | None]
    platform: str
    with_pins: bool

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(f"{name}=={version}" if version else name for name, version in self.packages.items())

    @property
    def engine_alone(self) -> str | None:
        """The engine whose pinned kernel libraries are wanted too: only where nothing else was named."""
        names = list(self.packages)
        return names[0] if self.with_pins and len(names) == 1 and names[0] in profiles() else None

    @property
    def exact(self) -> bool:
        """Every version is given: the same request means the same packages on every day."""
        return None not in self.packages.values()

    @property
    def key(self) -> str:
        return sha256_of([sorted(self.requirements), self.platform, self.engine_alone])[:16]


def parse_request(
    requirements: Sequence[str], arch: Architecture | None = None, *, with_pins: bool = True
) -> Request:
    """Read what a person typed; nothing at all means the newest default engine. Raises :class:`ToolError`."""
    packages: dict[str, str | None] = {}
    for text in requirements:
        name, version = _requirement(text)
        if name in packages and packages[name] != version:
            raise ToolError(
                f"{name} is asked for twice, as {packages[name] or 'newest'} and {version or 'newest'}"
            )
        packages[name] = version
    machine = arch.platform if arch else "x86_64"
    return Request(packages or {default_engine(): None}, f"{machine}-manylinux_2_39", with_pins)


def _requirement(text: str) -> tuple[str, str | None]:
    """Canonical name and version. URLs, ranges, extras and markers are refused."""
    shown = text.strip()
    try:
        requirement = Requirement(shown)
    except InvalidRequirement as error:
        raise ToolError(f"{shown!r} is not a package; {EXPECTED}") from error
    if requirement.url:
        raise ToolError(f"{shown!r} is not on the package index; {EXPECTED}, or give a folder with -e PATH")
    if requirement.extras or requirement.marker:
        raise ToolError(
            f"{shown!r} has extras or conditions, which a source environment has no use for; {EXPECTED}"
        )
    parts = list(requirement.specifier)
    if not parts:
        return distribution(requirement.name), None
    if len(parts) > 1 or parts[0].operator != "==" or "*" in parts[0].version:
        raise ToolError(f"{shown!r} allows several versions; {EXPECTED}")
    try:
        return distribution(requirement.name), str(Version(parts[0].version))
    except InvalidVersion as error:
        raise ToolError(f"{shown!r} has no valid version; {EXPECTED}") from error


def read_requirements(path: str) -> list[str]:
    """The packages that a file names, one a line; comments and empty lines are passed over, as are options
    of pip that only say where from or by which hash. Raises :class:`ToolError`."""
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ToolError(f"cannot read {path} ({why}); expected a file with a package a line") from error
    bare = (re.split(r"\s#|\s--hash", f" {line}", maxsplit=1)[0].strip() for line in lines)
    return [line for line in bare if line and not line.startswith(("#", "-"))]
