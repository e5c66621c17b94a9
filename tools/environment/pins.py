"""Which kernel libraries an engine asks for, in its own words: the ``Requires-Dist`` of its metadata."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from memory.names import distribution
from tools.environment.model import PYTHON, Environment
from tools.source.tree import decode

_DATA = Path(__file__).with_name("data") / "engines.toml"


@dataclass(frozen=True)
class EngineProfile:
    """``kernel_libraries``: canonical names of the packages that belong to a default environment."""

    name: str
    kernel_libraries: tuple[str, ...]


@cache
def profiles() -> dict[str, EngineProfile]:
    """Every engine known here, by distribution name."""
    engines = tomllib.loads(_DATA.read_text(encoding="utf-8"))["engine"]
    return {
        distribution(name): EngineProfile(
            distribution(name), tuple(distribution(package) for package in table["kernel_libraries"])
        )
        for name, table in engines.items()
    }


def default_engine() -> str:
    return distribution(tomllib.loads(_DATA.read_text(encoding="utf-8"))["default"])


def requirements_of(root: Path, package: str, machine: str) -> list[Requirement]:
    """What the unpacked ``package`` requires on Linux on ``machine`` (``x86_64``), extras left out."""
    facts = {
        "extra": "",
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{PYTHON}.0",
        "python_version": PYTHON,
        "sys_platform": "linux",
    }
    found = []
    for line in _metadata(root, package):
        if not line.startswith("Requires-Dist:"):
            continue
        try:
            requirement = Requirement(line.removeprefix("Requires-Dist:").strip())
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate(facts):
            found.append(requirement)
    return found


def kernel_pins(root: Path, engine: str, machine: str) -> dict[str, str]:
    """Kernel library → the exact version that the unpacked ``engine`` pins."""
    wanted = profiles()[distribution(engine)].kernel_libraries
    pins = {}
    for requirement in requirements_of(root, engine, machine):
        exact = [part.version for part in requirement.specifier if part.operator in ("==", "===")]
        if distribution(requirement.name) in wanted and len(exact) == 1 and "*" not in exact[0]:
            pins[distribution(requirement.name)] = exact[0]
    return pins


def pin_warnings(environment: Environment) -> list[str]:
    """One sentence for each kernel library whose version is not one that its engine asks for."""
    machine = machine_of(environment.platform)
    warnings = []
    for engine, profile in profiles().items():
        if engine not in environment.packages:
            continue
        for requirement in requirements_of(environment.root, engine, machine):
            library = distribution(requirement.name)
            version = environment.packages.get(library)
            if library in profile.kernel_libraries and version and not _allows(requirement, version):
                warnings.append(
                    f"{engine} {environment.packages[engine]} asks for {library}{requirement.specifier}, "
                    f"this environment has {library} {version}"
                )
    return warnings


def conflicts(packages: Mapping[str, str], roots: Mapping[str, Path], machine: str) -> list[str]:
    """One sentence for each package that would have another version than one of the others asks for.

    ``roots``: for each package whose metadata can be read the folder in which it lies unpacked.
    """
    found = []
    for package, version in packages.items():
        for requirement in requirements_of(roots[package], package, machine) if package in roots else ():
            wanted = distribution(requirement.name)
            other = packages.get(wanted)
            if other and not _allows(requirement, other):
                found.append(
                    f"{package} {version} asks for {wanted}{requirement.specifier}, not {wanted} {other}"
                )
    return found


def closure(root: Path, packages: Mapping[str, str], machine: str) -> set[str]:
    """Canonical names of the packages and of all that they require directly."""
    names = {distribution(name) for name in packages}
    for package in packages:
        names |= {distribution(requirement.name) for requirement in requirements_of(root, package, machine)}
    return names


def machine_of(platform: str) -> str:
    """CPU of a platform tag, ``x86_64`` where it does not say."""
    return "aarch64" if "aarch64" in platform else "x86_64"


def _allows(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:  # a checkout that does not tell its version
        return True


def _metadata(root: Path, package: str) -> list[str]:
    """Header lines of the package's METADATA; empty where it has none (a checkout)."""
    for info in sorted(root.glob("*.dist-info")):
        name = info.name.removesuffix(".dist-info").rsplit("-", 1)[0]
        if distribution(name) == distribution(package) and (info / "METADATA").is_file():
            return decode((info / "METADATA").read_bytes()).split("\n\n", 1)[0].splitlines()
    return []
