"""GPU architectures: their names, what runs on what, and the GPUs that have them.

All facts are in ``data/gpus.toml``; this module is the algebra. No pydantic here: read paths use it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).with_name("data") / "gpus.toml"
_DEFAULT_PLATFORM = "x86_64"

# Each must match the whole text, lower case. Two digits or more of major and minor run together: the
# last digit is the minor.
_JOINED = re.compile(r"(?:(?:sm|compute)[ _-]?)?(\d{1,2})(\d)([af]?)")
_DOTTED = re.compile(
    r"(?:(?:sm|compute|cc|compute capability|cuda arch|capability)[ _-]?)?(\d{1,2})\.(\d)([af]?)"
)
_TARGET = re.compile(r"(?:(sm|compute|lto)[_-]?)?(\d{1,2})\.?(\d)([af]?)")


class ArchitectureError(ValueError):
    """The text names no architecture, or several. ``candidates`` holds the GPUs that fit, if any."""

    def __init__(self, message: str, candidates: tuple[Gpu, ...] = ()) -> None:
        super().__init__(message)
        self.candidates = candidates


@dataclass(frozen=True, order=True)
class Architecture:
    """A compute capability, ``suffix`` ``"a"`` or ``"f"`` where only that feature set is meant."""

    major: int
    minor: int
    suffix: str = ""

    @property
    def name(self) -> str:
        """``sm120``, ``sm120a``."""
        return f"sm{self.number}{self.suffix}"

    @property
    def number(self) -> int:
        return self.major * 10 + self.minor

    @property
    def capability(self) -> tuple[int, int]:
        return self.major, self.minor

    @property
    def base(self) -> Architecture:
        """The same without suffix."""
        return Architecture(self.major, self.minor)

    @property
    def platform(self) -> str:
        """CPU platform of the wheels that machines with this architecture need, e.g. ``x86_64``."""
        return str(_fact(self.number).get("platform", _DEFAULT_PLATFORM))

    @property
    def generation(self) -> str:
        return str(_fact(self.number).get("generation", ""))

    @property
    def integrated(self) -> bool:
        """A system on chip: images built for discrete GPUs do not run on it, nor the other way round."""
        return bool(_fact(self.number).get("integrated", False))

    @property
    def shared_memory(self) -> tuple[int, int] | None:
        """Bytes of shared memory: what a block may opt in to, and a multiprocessor has. None: not known."""
        kib = _fact(self.number).get("shared_kib")
        return None if kib is None else (int(kib[0]) << 10, int(kib[1]) << 10)

    @property
    def family(self) -> Architecture | None:
        """The architecture that names this one's family (``sm121`` → ``sm120``), if it has one."""
        number = _fact(self.number).get("family")
        return None if number is None else _of_number(int(number))

    def runs(self, target: str) -> bool:
        """Whether an image or PTX for the compiler target ``target`` runs here (see :func:`images`)."""
        return self.base in images(target)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Gpu:
    """A product. ``memory_gib`` is the marketed figure; ``platform`` is that of the machine around it."""

    name: str
    architecture: Architecture
    memory_gib: int
    platform: str
    aliases: tuple[str, ...] = ()


def known_architectures() -> tuple[Architecture, ...]:
    """All in the data, without suffixes, oldest first."""
    return tuple(sorted(_of_number(int(entry["number"])) for entry in _data()["architecture"]))


@cache
def gpus() -> tuple[Gpu, ...]:
    """The table of products, in the order of the data file."""
    return tuple(
        Gpu(
            name=entry["name"],
            architecture=(arch := _of_number(int(entry["arch"]))),
            memory_gib=int(entry["memory_gib"]),
            platform=entry.get("platform", arch.platform),
            aliases=tuple(entry.get("aliases", ())),
        )
        for entry in _data()["gpu"]
    )


def find_gpus(name: str) -> tuple[Gpu, ...]:
    """Every product that goes by ``name``: its full name first, else an alias, else its generation."""
    key = _key(name)
    if not key:
        return ()
    index = _index()
    # The full name with the words that tell "Quadro RTX 6000" from "RTX 6000" decides before aliases.
    exact = " ".join(name.lower().split())
    named = tuple(gpu for gpu in gpus() if exact in {gpu.name.lower(), f"nvidia {gpu.name.lower()}"})
    return named or index.get(key, ())


def parse_architecture(text: str) -> Architecture:
    """``sm120``, ``sm_120a``, ``SM12.0``, ``12.0``, ``compute_120`` or a GPU's name → its architecture.

    Raises :class:`ArchitectureError` with the candidates where a name fits GPUs of several
    architectures, and with what is accepted where it fits none.
    """
    plain = " ".join(text.lower().split())
    if not plain:
        raise ArchitectureError(f"no architecture given; {_accepted()}")
    if found := find_gpus(plain):
        if len({gpu.architecture for gpu in found}) > 1:
            raise ArchitectureError(_ambiguous(text, found), found)
        return found[0].architecture
    match = _JOINED.fullmatch(plain) or _DOTTED.fullmatch(plain)
    if match:
        major, minor, suffix = int(match[1]), int(match[2]), match[3]
        number = major * 10 + minor
        renamed = _former().get(number)
        arch = _of_number(renamed or number)
        if arch in known_architectures():
            return Architecture(arch.major, arch.minor, suffix)
    raise ArchitectureError(f"{text.strip()!r} is no architecture or GPU known here; {_accepted()}")


def images(target: str) -> frozenset[Architecture]:
    """Known architectures that a compiler target (``100a``, ``sm_120f``, ``80``, ``compute_90``) runs on.

    ``sm_`` (the default) is machine code: suffix ``a`` runs on that very architecture; ``f`` on its
    family from there on; none on the same major version from there on, a system on chip and discrete
    GPUs apart. ``compute_`` is PTX and compiled when loaded: none on everything from there on, ``a``
    and ``f`` as above. Raises :class:`ArchitectureError` for what is no target.
    """
    match = _TARGET.fullmatch(target.strip().lower())
    if not match:
        raise ArchitectureError(
            f"{target!r} is no compiler target; expected e.g. 90a, sm_120f, compute_80, 10.0"
        )
    kind, suffix = match[1], match[4]
    number = int(match[2]) * 10 + int(match[3])
    own = _of_number(_former().get(number, number))
    if suffix == "a":
        return frozenset(arch for arch in known_architectures() if arch == own)
    later = [arch for arch in known_architectures() if arch >= own]
    if suffix == "f":
        return frozenset(arch for arch in later if arch.family is not None and arch.family == own.family)
    if kind == "compute":
        return frozenset(later)
    return frozenset(
        arch
        for arch in later
        if arch.major == own.major and (arch == own or arch.integrated == own.integrated)
    )


def _of_number(number: int) -> Architecture:
    return Architecture(*divmod(number, 10))


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(_DATA.read_text("utf-8"))


@cache
def _facts() -> dict[int, dict[str, Any]]:
    return {int(entry["number"]): entry for entry in _data()["architecture"]}


def _fact(number: int) -> dict[str, Any]:
    return _facts().get(number, {})


@cache
def _former() -> dict[int, int]:
    return {int(e["former"]): int(e["number"]) for e in _data()["architecture"] if "former" in e}


@cache
def _index() -> dict[str, tuple[Gpu, ...]]:
    """Key of a name → the products it may mean. A name of its own beats others' aliases."""
    names: dict[str, list[Gpu]] = {}
    aliases: dict[str, list[Gpu]] = {}
    generations: dict[str, list[Gpu]] = {}
    for gpu in gpus():
        names.setdefault(_key(gpu.name), []).append(gpu)
        for alias in dict.fromkeys(_key(alias) for alias in gpu.aliases):
            aliases.setdefault(alias, []).append(gpu)
        generations.setdefault(_key(gpu.architecture.generation), []).append(gpu)
    index = generations | aliases
    for key, found in names.items():
        # "Quadro RTX 6000" reads "rtx 6000" without noise: then it is one candidate among the aliases.
        index[key] = list(dict.fromkeys([*found, *aliases.get(key, [])]))
    return {key: tuple(found) for key, found in index.items()}


def _key(name: str) -> str:
    """A name without case, punctuation, memory size and the words that change nothing."""
    text = re.sub(r"\b\d+ ?gi?b\b", " ", name.lower())
    # "Max-Q" and "SXM4-80GB" come apart into noise words.
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word and word not in _noise()]
    return "".join(words)


@cache
def _noise() -> frozenset[str]:
    return frozenset(_data()["noise"])


def _ambiguous(text: str, found: tuple[Gpu, ...]) -> str:
    by_arch: dict[Architecture, list[str]] = {}
    for gpu in found:
        by_arch.setdefault(gpu.architecture, []).append(gpu.name)
    listed = ", ".join(
        f"{' / '.join(names[:2])}{' …' if len(names) > 2 else ''} ({arch.name})"
        for arch, names in sorted(by_arch.items())
    )
    return f"{text.strip()!r} fits several architectures: {listed}; name one of these"


def _accepted() -> str:
    known = ", ".join(arch.name for arch in known_architectures())
    return f"expected one of {known} (also 12.0, sm_120a, compute_120) or a GPU's name such as {_examples()}"


def _examples() -> str:
    """One product of each of the newest architectures."""
    newest: dict[Architecture, str] = {}
    for gpu in gpus():
        newest.setdefault(gpu.architecture, gpu.name)
    return ", ".join(newest[arch] for arch in sorted(newest, reverse=True)[:3])
