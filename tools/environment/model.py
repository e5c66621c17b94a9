"""What an environment is: a named, immutable set of unpacked packages, and its fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from memory.canonical import sha256_of
from memory.names import distribution
from memory.vocabulary import Contract, EnvironmentSummary, Sha256
from tools.source.tree import SourceTree

PYTHON = "3.12"
"""The Python that source environments are resolved for. None of this version need be installed here."""

DEFAULT_PLATFORM = "x86_64-manylinux_2_39"


class Wheel(Contract):
    """The archive that a package was unpacked from. ``size`` in bytes, None where the index does not tell."""

    name: str
    version: str
    filename: str
    sha256: Sha256
    size: Annotated[int, Field(ge=0)] | None = None


class Environment(Contract):
    """Unpacked packages in one folder.

    ``source``: made here, under the home, never changed afterwards. ``adopted``: a folder of someone else's,
    only read. ``path`` is the absolute folder that holds the packages; ``platform`` and ``python`` are
    ``unknown`` where an adopted folder does not say.
    """

    format: Literal[1] = 1
    name: str
    kind: Literal["source", "adopted"]
    path: str
    platform: str
    python: str
    packages: dict[str, str]
    """Version by canonical distribution name (``flashinfer-python``, never ``flashinfer_python``)."""
    wheels: tuple[Wheel, ...] = ()
    requested: tuple[str, ...] = ()
    fingerprint: Sha256

    @property
    def root(self) -> Path:
        return Path(self.path)

    def tree(self) -> SourceTree:
        """The files, for reading. Raises ``SourceError`` if the folder is gone."""
        return SourceTree(self.root, self.packages)

    def summary(self) -> EnvironmentSummary:
        return EnvironmentSummary(packages=self.packages, name=self.name, fingerprint=self.fingerprint)


def fingerprint(platform: str, python: str, wheels: Iterable[Wheel]) -> str:
    """The identity of a source environment: its wheels, its platform and its Python, in whatever order."""
    packages = sorted((distribution(wheel.name), wheel.version, wheel.sha256) for wheel in wheels)
    return sha256_of({"platform": platform, "python": python, "packages": packages})


def environment_name(packages: Mapping[str, str], engines: Iterable[str], platform: str) -> str:
    """A name a person can type: engines first, then the rest by name, then the machine if not the usual one.

    The same packages give the same name; what tells two such environments apart is the fingerprint.
    """
    first = {distribution(name) for name in engines}
    order = sorted(packages, key=lambda name: (distribution(name) not in first, distribution(name)))
    parts = [f"{distribution(name)}-{packages[name]}" for name in order]
    if platform != DEFAULT_PLATFORM:
        parts.append(platform.split("-", 1)[0])
    name = "+".join(parts)
    # Folder names end at 255 bytes and people give up long before.
    return name if len(name) <= 120 else f"{name[:100].rstrip('+-.')}+{sha256_of(sorted(parts))[:8]}"
