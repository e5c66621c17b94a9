"""An upgrade: a new environment beside the old one, and the name points to it when it is whole.

What does not change is taken over from the old environment, without a copy where the file system allows it,
and without asking anyone; what changes is fetched. Until the last step, which is one renaming of one small
file, the old environment is what the name stands for, however this ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from memory.clock import Clock
from memory.home import Home
from memory.names import distribution
from tools.environment.choosing import subject
from tools.environment.earlier import Progress
from tools.environment.history import choose
from tools.environment.make import check_unpacked, publish
from tools.environment.model import Environment, Wheel, fingerprint
from tools.environment.plan import Plan, Wanted, plan
from tools.environment.request import parse_request
from tools.environment.staging import Staging, writing
from tools.environment.store import SITE, chosen, list_environments
from tools.environment.uv import Uv, human_size
from tools.errors import ToolError
from tools.source.tree import name_of_info, read_head, recorded_files


def upgrade(
    home: Home,
    given: str,
    wanted: Wanted,
    approve: Callable[[Plan], bool],
    progress: Progress,
    clock: Clock,
) -> tuple[Plan, Environment | None]:
    """Make what ``wanted`` asks for out of the environment ``given``, and let its name stand for it.

    Nothing is fetched (but an engine whose pins must be known) before ``approve`` says yes; None where it
    does not. Raises :class:`ToolError`; then everything is as it was.
    """
    name, before = subject(home, given)
    proposal, made = prepare(home, before, wanted, approve, progress)
    if made is not None and made.name != before.name:
        choose(home, name, chosen(made), f"upgrade {wanted}", clock, before=chosen(before))
    return proposal, made


def prepare(
    home: Home, before: Environment, wanted: Wanted, approve: Callable[[Plan], bool], progress: Progress
) -> tuple[Plan, Environment | None]:
    """The environment that ``wanted`` makes of ``before``, one made earlier or a new one; no name moves."""
    if before.kind == "full":
        from tools.environment.full import prepare_full

        return prepare_full(home, before, wanted, approve, progress)
    if ready := _made_before(home, before, wanted):
        proposal = Plan(before, ready.packages, _differing(before, ready), ready.requested)
        return proposal, ready if not proposal.changes or approve(proposal) else None
    return _obtain(home, before, wanted, approve, progress)


def _obtain(
    home: Home, before: Environment, wanted: Wanted, approve: Callable[[Plan], bool], progress: Progress
) -> tuple[Plan, Environment | None]:
    with writing(home):
        home.prepare()
        with Staging(home.environments) as stage:
            uv = Uv.find(stage.work, progress, wanted.settings)
            proposal = plan(uv, before, wanted, stage.work / "engines", progress)
            if not proposal.changes:
                return proposal, before
            if not approve(proposal):
                return proposal, None
            return proposal, build(home, stage, uv, proposal, progress)


def build(home: Home, stage: Staging, uv: Uv, proposal: Plan, progress: Progress) -> Environment:
    """The environment that ``proposal`` describes, under its name; one that is there already is taken."""
    before = proposal.before
    changed = {name for name, _, _ in proposal.changes}
    kept = [wheel for wheel in before.wheels if wheel.name not in changed]
    wheels = [*kept, *proposal.wheels]
    if not proposal.built and (ready := _equal(home, before, wheels)):
        progress(f"using environment {ready.name}")
        return ready
    site, fresh = stage.whole / SITE, stage.work / "fresh"
    carry(before.root, site, changed)
    if proposal.wheels:
        progress(f"in all: {human_size(proposal.size)} to fetch" if proposal.size else "fetching")
        uv.unpack(proposal.wheels, before.platform, fresh)
        _move(fresh, site)
    for name, requirement in proposal.built.items():
        folder = stage.work / f"built-{name}"
        uv.build(requirement, before.platform, folder)
        wheels.append(_built(folder, name, requirement))
        _move(folder, site)
    check_unpacked(site, wheels)
    made = publish(home, stage, before.platform, proposal.requested, wheels)
    progress(f"created environment {made.name} in {made.path}")
    return made


def _made_before(home: Home, before: Environment, wanted: Wanted) -> Environment | None:
    """An environment that is just what is asked for, where that can be told without asking an index."""
    if wanted.settings or wanted.allow_build or any("==" not in each for each in wanted.to):
        return None
    packages = parse_request(wanted.to).packages
    if wanted.only and set(packages) - {distribution(name) for name in wanted.only}:
        return None
    after = before.packages | {name: version for name, version in packages.items() if version}
    for environment in list_environments(home):
        kept = {wheel for wheel in before.wheels if wheel.name not in packages}
        if (
            environment.packages == after
            and environment.platform == before.platform
            and kept <= set(environment.wheels)
        ):
            return environment
    return None


def _equal(home: Home, before: Environment, wheels: Iterable[Wheel]) -> Environment | None:
    identity = fingerprint(before.platform, before.python, wheels)
    return next((one for one in list_environments(home) if one.fingerprint == identity), None)


def _differing(before: Environment, after: Environment) -> tuple[Wheel, ...]:
    return tuple(wheel for wheel in after.wheels if wheel not in before.wheels)


def carry(source: Path, target: Path, leave: Iterable[str]) -> None:
    """Take over all files of the folder ``source`` but those that only the packages ``leave`` have recorded.

    Files are linked: both environments never change. Where that is not possible they are copied.
    """
    left = {distribution(name) for name in leave}
    dropped: set[str] = set()
    needed: set[str] = set()
    for info in source.glob("*.dist-info"):
        files = {os.path.normpath(file) for file in recorded_files(info / "RECORD")}
        if distribution(name_of_info(info)) in left:
            dropped |= files | {f"{info.name}/{each.name}" for each in info.iterdir()}
        else:
            needed |= files
    dropped -= needed
    for folder, _, names in os.walk(source):
        place = os.path.relpath(folder, source)
        kept = [name for name in names if os.path.normpath(f"{place}/{name}") not in dropped]
        if kept:
            (target / place).mkdir(parents=True, exist_ok=True)
        for name in kept:
            _link(Path(folder, name), target / place / name)
    target.mkdir(parents=True, exist_ok=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _move(source: Path, target: Path) -> None:
    """Put the files of ``source`` into ``target``: each replaces what has its name, and writes into nothing
    that another environment has too."""
    for folder, _, names in os.walk(source):
        place = target / os.path.relpath(folder, source)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            Path(folder, name).replace(place / name)


def _built(folder: Path, name: str, requirement: str) -> Wheel:
    """What was built from source, as if it had come as a wheel: told by its files, and by its commit."""
    for info in folder.glob("*.dist-info"):
        if distribution(name_of_info(info)) == name:
            try:
                come = json.loads(read_head(info / "direct_url.json") or "{}")
                commit = str(come.get("vcs_info", {}).get("commit_id", ""))
            except (ValueError, AttributeError):
                commit = ""
            shown = re.sub(r"://[^/\s@]+@", "://…@", requirement)
            return Wheel(
                name=name,
                version=info.name.removesuffix(".dist-info").rsplit("-", 1)[1],
                filename=f"{shown} ({commit})" if commit else shown,
                sha256=hashlib.sha256((info / "RECORD").read_bytes() + commit.encode()).hexdigest(),
            )
    raise ToolError(f"{requirement} was built and holds no {name}; nothing was kept; check the name")
