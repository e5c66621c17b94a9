"""Making a source environment: wheels for the target's platform, unpacked into a folder of their own.

Nothing of the packages is ever imported, executed or byte-compiled, and nothing that they depend on comes
along. The same request gives the same environment; one that exists needs neither network nor ``uv``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.version import Version

from memory.architecture import Architecture
from memory.home import Home, HomeError
from memory.names import distribution
from tools.base import ToolError
from tools.environment.model import (
    PYTHON,
    Environment,
    Wheel,
    environment_name,
    fingerprint,
)
from tools.environment.pins import kernel_pins, machine_of, pin_warnings, profiles
from tools.environment.request import Request, parse_request
from tools.environment.staging import Staging, exclusive
from tools.environment.store import DESCRIPTION, SITE, list_environments, load
from tools.environment.uv import UnresolvableError, Uv, find_uv, human_size
from tools.source.tree import SourceTree

NOTES = ".requests"
FRESH = 24 * 3600.0
"""Seconds for which "the newest" is not asked again."""

Progress = Callable[[str], None]


def create_environment(
    home: Home,
    requirements: Sequence[str],
    arch: Architecture | None = None,
    progress: Progress = lambda _: None,
    *,
    with_pins: bool = True,
    refresh: bool = False,
    now: Callable[[], float] = time.time,
) -> Environment:
    """The environment that ``requirements`` (``NAME==VERSION`` or ``NAME``: the newest) mean.

    An engine alone brings the kernel libraries that it pins, unless ``with_pins`` is off; nothing at all
    means the default engine. Other packages are taken exactly as named, with a warning through ``progress``
    where they are not what the engine pins. ``refresh`` asks again for the newest. ``now`` is in seconds
    since the epoch.

    Raises :class:`ToolError`; ``missing`` where the network, ``uv`` or a writable home is.
    """
    request = parse_request(requirements, arch, with_pins=with_pins)
    environment = _obtain(home, request, progress, refresh, now)
    for warning in pin_warnings(environment):
        progress(f"warning: {warning}")
    return environment


def _obtain(
    home: Home, request: Request, progress: Progress, refresh: bool, now: Callable[[], float]
) -> Environment:
    if not refresh and (found := _existing(home, request, now(), progress)):
        return found
    try:
        home.prepare()
        find_uv()
        with exclusive(
            home.environments,
            request.key,
            lambda: progress("another process is creating this environment; waiting"),
        ):
            # Whoever was first may have made it meanwhile.
            if not refresh and (found := _existing(home, request, now(), progress)):
                return found
            return _create(home, request, progress, now)
    except HomeError as error:
        raise ToolError(str(error), missing=True) from error
    except OSError as error:
        raise ToolError(
            f"cannot write to {home.environments} ({error.strerror or error}); free some space, or set "
            "ASSAY_HOME to a folder that can be written",
            missing=True,
        ) from error


def _create(home: Home, request: Request, progress: Progress, now: Callable[[], float]) -> Environment:
    progress(f"resolving {', '.join(request.requirements)} for {request.platform}, Python {PYTHON}")
    with Staging(home.environments) as stage:
        uv = Uv.find(stage.work, progress)
        try:
            wheels = uv.resolve(request.requirements, request.platform)
        except UnresolvableError:
            raise
        except ToolError as error:
            if error.missing and not request.exact and (old := _noted(home, request)):
                progress(f"cannot ask for newer versions; using {old.name}, the newest when last asked")
                return old
            raise
        exact = replace(request, packages={wheel.name: wheel.version for wheel in wheels})
        known = _existing(home, exact, now(), lambda _: None)
        # The version alone is not enough here: an index may hold another wheel of it by now.
        if known and {wheel.sha256 for wheel in wheels} <= {wheel.sha256 for wheel in known.wheels}:
            progress(f"using environment {known.name}")
            _note(home, request, known, now())
            return known
        site = stage.whole / SITE
        _fetch(uv, wheels, request.platform, site, progress)
        if engine := request.engine_alone:
            wheels = [*wheels, *_fetch_pinned(uv, engine, request.platform, site, progress)]
        _check_unpacked(site, wheels)
        environment = _publish(home, stage, request, wheels)
    for each in (request, exact):
        _note(home, each, environment, now())
    progress(f"created environment {environment.name} in {environment.path}")
    return environment


def _fetch(uv: Uv, wheels: Sequence[Wheel], platform: str, site: Path, progress: Progress) -> None:
    for wheel in wheels:
        progress(f"{wheel.name} {wheel.version}: {human_size(wheel.size)} ({wheel.filename})")
    if len(wheels) > 1:
        progress(f"in all: {human_size(sum(wheel.size or 0 for wheel in wheels))} to fetch")
    uv.unpack(wheels, platform, site)


def _fetch_pinned(uv: Uv, engine: str, platform: str, site: Path, progress: Progress) -> list[Wheel]:
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
        _fetch(uv, wheels, platform, site, progress)
    return wheels


def _check_unpacked(site: Path, wheels: Sequence[Wheel]) -> None:
    there = {distribution(name): Version(version) for name, version in SourceTree(site).packages.items()}
    for wheel in wheels:
        if there.get(wheel.name) != Version(wheel.version):
            raise ToolError(
                f"{wheel.filename} does not hold {wheel.name} {wheel.version}; nothing was kept; "
                "choose another version"
            )


def _publish(home: Home, stage: Staging, request: Request, wheels: Sequence[Wheel]) -> Environment:
    """Give the unpacked packages their name, or take the equal environment that someone was first with."""
    packages = {wheel.name: wheel.version for wheel in sorted(wheels, key=lambda wheel: wheel.name)}
    identity = fingerprint(request.platform, PYTHON, wheels)
    plain = environment_name(packages, profiles(), request.platform)
    # The same versions from other wheels (an index of one's own) are another environment.
    for name in (plain, f"{plain}+{identity[:8]}"):
        environment = Environment(
            name=name,
            kind="source",
            path=str(home.environments / name / SITE),
            platform=request.platform,
            python=PYTHON,
            packages=packages,
            wheels=tuple(sorted(wheels, key=lambda wheel: wheel.name)),
            requested=request.requirements,
            fingerprint=identity,
        )
        _write(stage.whole / DESCRIPTION, environment.model_dump_json(indent=1))
        if stage.publish(name):
            return environment
        existing = load(home.environments / name)
        if existing.fingerprint == identity:
            return existing
    raise ToolError(f"{home.environments / name} is in the way; remove it and try again")


def _existing(home: Home, request: Request, now: float, progress: Progress) -> Environment | None:
    """A stored environment that is what ``request`` means, without asking anyone."""
    if found := _noted(home, request, None if request.exact else now - FRESH):
        newest = "" if request.exact else " (the newest when last asked, less than a day ago)"
        progress(f"using environment {found.name}{newest}")
        return found
    if not request.exact or request.engine_alone:
        return None
    for environment in list_environments(home):
        if environment.platform == request.platform and environment.packages == request.packages:
            progress(f"using environment {environment.name}")
            return environment
    return None


def _noted(home: Home, request: Request, since: float | None = None) -> Environment | None:
    """What this request gave before, at ``since`` (seconds since the epoch) or later."""
    try:
        note = json.loads((home.environments / NOTES / request.key).read_text(encoding="utf-8"))
        if since is not None and not float(note["at"]) >= since:
            return None
        return load(home.environments / Path(note["environment"]).name)
    except (OSError, ValueError, KeyError, TypeError, ToolError):
        return None  # a note only saves work


def _note(home: Home, request: Request, environment: Environment, at: float) -> None:
    folder = home.environments / NOTES
    folder.mkdir(exist_ok=True)
    _write(folder / request.key, json.dumps({"environment": environment.name, "at": at}))


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and on disk."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
