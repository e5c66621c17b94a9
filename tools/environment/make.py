"""Making a source environment: wheels for the target's platform, unpacked into a folder of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.version import Version

from memory.home import Home
from memory.names import distribution
from tools.environment.earlier import Progress, existing, note, noted, write
from tools.environment.model import PYTHON, Environment, Wheel, environment_name, fingerprint, full_name
from tools.environment.pins import kernel_pins, machine_of, profiles
from tools.environment.request import Request
from tools.environment.staging import Staging
from tools.environment.store import DESCRIPTION, SITE, load
from tools.environment.uv import UnresolvableError, Uv, human_size
from tools.errors import ToolError
from tools.source.tree import SourceTree

UNPACKED = 4
"""How many times a wheel's size it takes: fetched, kept by uv, and unpacked (text packs to a third)."""


def make(
    home: Home,
    request: Request,
    progress: Progress,
    now: Callable[[], float],
    settings: Mapping[str, str] | None = None,
) -> Environment:
    progress(f"resolving {', '.join(request.requirements)} for {request.platform}, Python {PYTHON}")
    with Staging(home.environments) as stage:
        uv = Uv.find(stage.work, progress, settings)
        try:
            wheels = uv.resolve(request.requirements, request.platform)
        except UnresolvableError:
            raise
        except ToolError as error:
            if error.missing and not request.exact and (old := noted(home, request)):
                progress(f"cannot ask for newer versions; using {old.name}, the newest when last asked")
                return old
            raise
        exact = replace(request, packages={wheel.name: wheel.version for wheel in wheels})
        known = existing(home, exact, now(), lambda _: None)
        # The version alone is not enough here: an index may hold another wheel of it by now.
        if known and {wheel.sha256 for wheel in wheels} <= {wheel.sha256 for wheel in known.wheels}:
            progress(f"using environment {known.name}")
            note(home, request, known, now())
            return known
        site = stage.whole / SITE
        _fetch(uv, wheels, [], request.platform, site, progress)
        if engine := request.engine_alone:
            wheels = [*wheels, *_fetch_pinned(uv, engine, wheels, request.platform, site, progress)]
        check_unpacked(site, wheels)
        environment = publish(home, stage, request.platform, request.requirements, wheels)
    for each in (request, exact):
        note(home, each, environment, now())
    progress(f"created environment {environment.name} in {environment.path}")
    return environment


def _fetch(
    uv: Uv,
    wheels: Sequence[Wheel],
    before: Sequence[Wheel],
    platform: str,
    site: Path,
    progress: Progress,
) -> None:
    for wheel in wheels:
        progress(f"{wheel.name} {wheel.version}: {human_size(wheel.size)} ({wheel.filename})")
    every = [*before, *wheels]
    if len(every) > 1:
        progress(f"in all: {human_size(sum(wheel.size or 0 for wheel in every))} to fetch")
    check_space(uv.folder, wheels)
    uv.unpack(wheels, platform, site)


def _fetch_pinned(
    uv: Uv, engine: str, before: Sequence[Wheel], platform: str, site: Path, progress: Progress
) -> list[Wheel]:
    """Bring the kernel libraries that the unpacked engine pins; one without a wheel is left out, and said."""
    pins = kernel_pins(site, engine, machine_of(platform))
    if not pins:
        return []
    named = [f"{name}=={version}" for name, version in pins.items()]
    progress(f"{engine} pins {', '.join(named)}")
    try:
        wheels = uv.resolve(named, platform)
    except UnresolvableError:
        wheels = []
        for requirement in named:
            try:
                wheels += uv.resolve([requirement], platform)
            except UnresolvableError as error:
                progress(f"warning: left out {requirement}: {error}")
    if wheels:
        _fetch(uv, wheels, before, platform, site, progress)
    return wheels


def check_unpacked(site: Path, wheels: Sequence[Wheel]) -> None:
    """Raises :class:`ToolError` unless ``site`` holds what the wheels say that they are."""
    there = {distribution(name): Version(version) for name, version in SourceTree(site).packages.items()}
    for wheel in wheels:
        if there.get(wheel.name) != Version(wheel.version):
            raise ToolError(
                f"{wheel.filename} does not hold {wheel.name} {wheel.version}; nothing was kept; "
                "choose another version"
            )


def check_space(folder: Path, wheels: Iterable[Wheel], free: int | None = None) -> None:
    """Raises :class:`ToolError` where the wheels will hardly fit into ``folder``, fetched and unpacked.

    ``free``: bytes, by default what the file system has.
    """
    need = sum(wheel.size or 0 for wheel in wheels) * UNPACKED
    left = shutil.disk_usage(folder).free if free is None else free
    if need > left:
        raise ToolError(
            f"about {human_size(need)} are needed in {folder} and {human_size(left)} are free; free some "
            "(agent environment gc), or set ASSAY_HOME to a folder with more room",
            missing=True,
        )


def publish(
    home: Home,
    stage: Staging,
    platform: str,
    requested: tuple[str, ...],
    wheels: Sequence[Wheel],
    python: str | None = None,
) -> Environment:
    """Give the unpacked packages their name, or take the equal environment that someone was first with.

    ``python``: of the interpreter that a full environment brings; None for a source environment.
    """
    packages = {wheel.name: wheel.version for wheel in sorted(wheels, key=lambda wheel: wheel.name)}
    identity = fingerprint(platform, python or PYTHON, wheels)
    plain = environment_name(packages, profiles(), platform)
    if python is not None:
        asked = {distribution(each.partition("==")[0]) for each in requested}
        plain = full_name({name: packages[name] for name in asked & set(packages)}, profiles(), python)
    # The same versions from other wheels (an index of one's own) are another environment.
    for name in (plain, f"{plain}+{identity[:8]}"):
        environment = Environment(
            name=name,
            kind="source" if python is None else "full",
            path=str(home.environments / name / SITE),
            platform=platform,
            python=python or PYTHON,
            packages=packages,
            wheels=tuple(sorted(wheels, key=lambda wheel: wheel.name)),
            requested=requested,
            fingerprint=identity,
        )
        write(stage.whole / DESCRIPTION, json.dumps(environment.document(), indent=1, ensure_ascii=False))
        if stage.publish(name):
            return environment
        existing = load(home.environments / name)
        if existing.fingerprint == identity:
            return existing
    raise ToolError(f"{home.environments / name} is in the way; remove it and try again")
