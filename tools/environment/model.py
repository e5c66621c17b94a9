"""What an environment is: a named, immutable set of unpacked packages, and its fingerprint.

No pydantic here: read paths use it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from memory.canonical import sha256_of
from memory.names import distribution
from tools.source.tree import SourceTree

PYTHON = "3.12"
"""The Python that source environments are resolved for. None of this version need be installed here."""

DEFAULT_PLATFORM = "x86_64-manylinux_2_39"


@dataclass(frozen=True)
class Wheel:
    """The archive that a package was unpacked from. ``size`` in bytes, None where the index does not tell."""

    name: str
    version: str
    filename: str
    sha256: str
    size: int | None = None


@dataclass(frozen=True)
class Environment:
    """Unpacked packages in one folder.

    ``source``: made here, under the home, never changed afterwards. ``full``: made here too, with all that
    its packages depend on and an interpreter, for running. ``adopted``: a folder of someone else's, only
    read. ``path`` is the absolute folder that holds the packages; ``platform`` and ``python`` are
    ``unknown`` where an adopted folder does not say.
    """

    name: str
    kind: Literal["source", "full", "adopted"]
    path: str
    platform: str
    python: str
    packages: dict[str, str]
    """Version by canonical distribution name (``flashinfer-python``, never ``flashinfer_python``)."""
    fingerprint: str
    wheels: tuple[Wheel, ...] = ()
    requested: tuple[str, ...] = ()
    format: Literal[1] = 1

    @property
    def root(self) -> Path:
        return Path(self.path)

    def tree(self) -> SourceTree:
        """The files, for reading. Raises ``SourceError`` if the folder is gone."""
        return SourceTree(self.root, self.packages)

    def document(self) -> dict[str, Any]:
        """As JSON types, in the order in which it is written down."""
        held = {
            **vars(self),
            "wheels": [vars(wheel) for wheel in self.wheels],
            "requested": [*self.requested],
        }
        return {name: held[name] for name in _SHAPES}


_SHA256 = re.compile("[0-9a-f]{64}")

_SHAPES: dict[str, Callable[[Any], bool]] = {
    "format": lambda value: value == 1,
    "name": lambda value: isinstance(value, str),
    "kind": lambda value: value in get_args(get_type_hints(Environment)["kind"]),
    "path": lambda value: isinstance(value, str),
    "platform": lambda value: isinstance(value, str),
    "python": lambda value: isinstance(value, str),
    "packages": lambda value: isinstance(value, dict) and _strings(value.values()),
    "wheels": lambda value: isinstance(value, list) and all(map(_is_wheel, value)),
    "requested": lambda value: isinstance(value, list) and _strings(value),
    "fingerprint": lambda value: isinstance(value, str) and _SHA256.fullmatch(value) is not None,
}
"""What each field of a description must be."""


def read_description(text: str) -> Environment:
    """The environment that a description (JSON) is of. Raises :class:`ValueError` with what is wrong."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not a description of an environment")
    for name, fits in _SHAPES.items():
        if not fits(document.get(name)):
            raise ValueError(f"{name} is {'wrong' if name in document else 'missing'}")
    if more := sorted(set(document) - set(_SHAPES)):
        raise ValueError(f"{more[0]} is no part of format 1")
    wheels = tuple(Wheel(**wheel) for wheel in document.pop("wheels"))
    return Environment(wheels=wheels, requested=tuple(document.pop("requested")), **document)


def _is_wheel(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    size, texts = value.get("size"), [value.get(name) for name in ("name", "version", "filename", "sha256")]
    known = {"name", "version", "filename", "sha256", "size"}
    return _strings(texts) and (size is None or (isinstance(size, int) and size >= 0)) and known >= set(value)


def _strings(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def fingerprint(platform: str, python: str, wheels: Iterable[Wheel]) -> str:
    """The identity of a source environment: its wheels, its platform and its Python, in whatever order."""
    packages = sorted((distribution(wheel.name), wheel.version, wheel.sha256) for wheel in wheels)
    return sha256_of({"platform": platform, "python": python, "packages": packages})


def full_name(packages: Mapping[str, str], engines: Iterable[str], python: str) -> str:
    """The same for an environment that can run: of the packages that were asked for, with its Python."""
    return f"{environment_name(packages, engines, DEFAULT_PLATFORM)}+python-{python}"


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
