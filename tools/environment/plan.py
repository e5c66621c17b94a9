"""What an upgrade would do, before it does anything: which wheels, and who asks for something else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from memory.names import distribution, few
from tools.environment.earlier import Progress
from tools.environment.make import check_space
from tools.environment.model import Environment, Wheel
from tools.environment.pins import conflicts, kernel_pins, machine_of, profiles
from tools.environment.request import Request, parse_request
from tools.environment.uv import UnresolvableError, Uv
from tools.environment.uv_settings import settings_of
from tools.errors import ToolError

NEWEST = ("latest", "nightly")
EXPECTED = "expected latest, nightly, NAME==VERSION or git+URL@REVISION"


@dataclass(frozen=True)
class Wanted:
    """What a person or a driver asks for.

    ``to``: ``latest`` or ``nightly`` alone, ``git+URL@REVISION`` alone, or packages. ``only``: the packages
    that may change. ``indexes`` come before the configured one, ``find_links`` beside it. ``allow_build``:
    packages that may be built from source, which runs code of theirs.
    """

    to: tuple[str, ...]
    only: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    allow_build: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, str]:
        return settings_of(self.indexes, self.find_links, pre=self.to == ("nightly",))

    def __str__(self) -> str:
        shown = re.sub(r"://[^/\s@]+@", "://…@", " ".join(f"--to {each}" for each in self.to))
        return " ".join([shown, *(f"--only {each}" for each in self.only)])


@dataclass(frozen=True)
class Plan:
    """``packages``: what there would be; of ``wheels`` those that differ; ``built``: requirement by package
    for what a person allowed to be built from source, whose version shows only then."""

    before: Environment
    packages: dict[str, str]
    wheels: tuple[Wheel, ...]
    requested: tuple[str, ...]
    built: dict[str, str] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changes(self) -> list[tuple[str, str | None, str | None]]:
        """``(package, version before, version after)``, None where it is not there."""
        old, differs = self.before.packages, {wheel.name for wheel in self.wheels} | set(self.built)
        names = [*old, *(name for name in self.packages if name not in old)]
        return [
            (name, old.get(name), self.packages.get(name))
            for name in names
            if name in differs or old.get(name) != self.packages.get(name)
        ]

    @property
    def size(self) -> int:
        """Bytes to fetch, as far as the index tells."""
        return sum(wheel.size or 0 for wheel in self.wheels)


def plan(uv: Uv, before: Environment, wanted: Wanted, folder: Path, progress: Progress) -> Plan:
    """Ask the index what ``wanted`` means. ``folder``: where an engine may be unpacked to see what it pins.

    Raises :class:`ToolError`: nothing like it, a package that may not change, too little disk space.
    """
    only = tuple(distribution(name) for name in wanted.only)
    if missing := sorted(set(only) - set(before.packages)):
        raise ToolError(f"--only {few(missing)}: not in {before.name}; it holds {few([*before.packages])}")
    built: dict[str, str] = {}
    wheels: list[Wheel] = []
    gone: set[str] = set()
    warnings: list[str] = []
    if any(each.startswith("git+") for each in wanted.to):
        built = _from_git(wanted, only)
    elif set(wanted.to) & set(NEWEST):
        if len(wanted.to) != 1:
            raise ToolError(f"--to {' --to '.join(wanted.to)}: {EXPECTED}")
        wheels, gone, warnings = _newest(uv, before, only, folder, progress)
    else:
        wheels, built = _named(uv, before, wanted, only)
    warnings += uv.warnings
    same = {(wheel.name, wheel.version, wheel.sha256) for wheel in before.wheels}
    changed = tuple(wheel for wheel in wheels if (wheel.name, wheel.version, wheel.sha256) not in same)
    check_space(uv.folder, changed)
    packages = {name: version for name, version in before.packages.items() if name not in gone}
    packages |= {wheel.name: wheel.version for wheel in changed} | built
    roots = dict.fromkeys(before.packages, before.root)
    for wheel in changed:
        roots.pop(wheel.name, None)
    for name in {wheel.name for wheel in changed} & set(profiles()):
        roots[name] = _unpacked(uv, before, [wheel for wheel in changed if wheel.name == name], folder)
    for name in built:
        roots.pop(name, None)
    asked = {name: version for name, version in packages.items() if name not in built}
    return Plan(
        before=before,
        packages=packages,
        wheels=changed,
        requested=_requested(before, packages, built),
        built=built,
        conflicts=tuple(conflicts(asked, roots, machine_of(before.platform))),
        warnings=tuple(warnings),
    )


def _named(
    uv: Uv, before: Environment, wanted: Wanted, only: Sequence[str]
) -> tuple[list[Wheel], dict[str, str]]:
    request = parse_request(wanted.to)
    if only and (more := sorted(set(request.packages) - set(only))):
        raise ToolError(
            f"--to names {few(more)}, and --only does not; name them in both, or leave --only out"
        )
    allowed = {distribution(name) for name in wanted.allow_build}
    built = {
        name: f"{name}=={version}" if version else name
        for name, version in request.packages.items()
        if name in allowed
    }
    packages = {name: version for name, version in request.packages.items() if name not in built}
    asked = Request(packages, before.platform, with_pins=False)
    wheels = uv.resolve(asked.requirements, before.platform) if packages else []
    return wheels, built


def _from_git(wanted: Wanted, only: Sequence[str]) -> dict[str, str]:
    if len(wanted.to) != 1 or len(only) != 1:
        raise ToolError("a git revision is of one package: --to git+URL@REVISION --only NAME")
    if only[0] not in {distribution(name) for name in wanted.allow_build}:
        raise ToolError(
            f"a git revision is built from source, which runs its code here; a person allows it with: "
            f"--allow-build {only[0]}"
        )
    if "://" not in wanted.to[0]:
        raise ToolError(
            f"{wanted.to[0]!r} names no repository; expected git+URL@REVISION[#subdirectory=FOLDER]"
        )
    return {only[0]: f"{only[0]} @ {wanted.to[0]}"}


def _newest(
    uv: Uv, before: Environment, only: Sequence[str], folder: Path, progress: Progress
) -> tuple[list[Wheel], set[str], list[str]]:
    """The newest of everything, or of ``only``; kernel libraries are what the engine beside them pins."""
    targets = list(only) or list(before.packages)
    libraries = {} if only else _libraries(before)
    plain = [name for name in targets if name not in libraries]
    wheels = uv.resolve(plain, before.platform) if plain else []
    warnings = list(uv.warnings)
    wants: dict[str, str] = dict.fromkeys(libraries, "")
    gone: set[str] = set()
    for engine in dict.fromkeys(libraries.values()):
        mine = [wheel for wheel in wheels if wheel.name == engine]
        root = before.root
        if mine and mine[0].version != before.packages[engine]:
            progress(f"fetching {engine} {mine[0].version}, to see what it pins")
            root = _unpacked(uv, before, mine, folder)
        pins = kernel_pins(root, engine, machine_of(before.platform))
        if _came_with(before, engine):
            gone |= {name for name in libraries if name not in pins}
            wants = {name: "" for name in wants if name not in gone} | dict.fromkeys(pins, "")
        wants |= {name: version for name, version in pins.items() if name in wants}
    for name, version in wants.items():
        requirement = f"{name}=={version}" if version else name
        try:
            wheels += uv.resolve([requirement], before.platform)
            warnings += uv.warnings
        except UnresolvableError as error:
            if name in before.packages and not version:
                raise
            gone.add(name)
            warnings.append(f"left out {requirement}: {error}")
    uv.warnings = []
    return wheels, gone, warnings


def _libraries(environment: Environment) -> dict[str, str]:
    """Kernel library in the environment → the engine in it that it belongs to."""
    return {
        library: engine
        for engine, profile in profiles().items()
        if engine in environment.packages
        for library in profile.kernel_libraries
        if library in environment.packages
    }


def _came_with(environment: Environment, engine: str) -> bool:
    """Whether only the engine was asked for, and its libraries came along."""
    asked = {distribution(each.partition("==")[0]) for each in environment.requested}
    return asked == {engine} and len(environment.packages) > 1


def _requested(before: Environment, packages: Mapping[str, str], built: Mapping[str, str]) -> tuple[str, ...]:
    """What the new one would have been asked for as: the same names, in the versions that it has."""
    engine = next((name for name in profiles() if name in packages and _came_with(before, name)), None)
    names = [engine] if engine else list(packages)
    return tuple(built.get(name) or f"{name}=={packages[name]}" for name in names)


def _unpacked(uv: Uv, before: Environment, wheels: Sequence[Wheel], folder: Path) -> Path:
    target = folder / f"{wheels[0].name}-{Version(wheels[0].version)}"
    if not target.is_dir():
        uv.unpack(wheels, before.platform, target)
    return target
