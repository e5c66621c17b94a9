"""Full environments: all that the packages depend on, with an interpreter, for running things in.

``environments/NAME/venv`` is a virtual environment that may be moved, ``site`` a link to its packages,
``pylock.toml`` what was resolved. Installing wheels runs nothing of them.
"""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from memory.home import Home
from memory.names import distribution
from tools.environment.earlier import Progress
from tools.environment.make import check_space, publish
from tools.environment.model import Environment, Wheel, fingerprint
from tools.environment.plan import NEWEST, Plan, Wanted
from tools.environment.request import parse_request
from tools.environment.staging import Staging, writing
from tools.environment.store import SITE, list_environments
from tools.environment.uv import RESOLVE_SECONDS, SLOWEST, UnresolvableError, Uv, human_size, locked
from tools.errors import ToolError

LOCK = "pylock.toml"
VENV = "venv"
NOTHING = Environment("", "full", "", "", "", {}, "")
"""What a new environment is compared with."""


def create_full(
    home: Home,
    requirements: Sequence[str],
    python: str | None,
    progress: Progress,
    settings: Mapping[str, str] | None = None,
) -> Environment:
    """``requirements`` and all that they depend on, for this machine and ``python`` (``3.12``; by default the
    one that runs this). What is whole already is taken. Raises :class:`ToolError`."""
    requested = parse_request(requirements).requirements
    _, made = _obtain(home, NOTHING, requested, (), python, settings or {}, lambda _: True, progress)
    assert made is not None
    return made


def prepare_full(
    home: Home, before: Environment, wanted: Wanted, approve: Callable[[Plan], bool], progress: Progress
) -> tuple[Plan, Environment | None]:
    """What ``wanted`` makes of a full environment; what need not change stays at its version."""
    if wanted.allow_build or any(each.startswith("git+") for each in wanted.to):
        raise ToolError("a full environment takes wheels only; build the package, and give --find-links")
    asked = {distribution(each.partition("==")[0]): each for each in before.requested}
    only = {distribution(name) for name in wanted.only}
    newest = set(wanted.to) & set(NEWEST)
    if newest and only:
        moves = {name: name for name in only}
    elif newest:
        moves = {name: name for name in asked}
    else:
        packages = parse_request(wanted.to).packages
        moves = {name: f"{name}=={version}" if version else name for name, version in packages.items()}
    requested = tuple((asked | moves).values())
    # Everything may move where the newest of everything is wanted.
    free = () if newest and not only else tuple(moves)
    return _obtain(
        home, before, requested, free, before.python, wanted.settings, approve, progress,
        keep=not (newest and not only),
    )  # fmt: skip


def interpreter(environment: Environment) -> Path | None:
    """The Python of a full environment, or of a virtual one that a person named; None for one that is only
    read."""
    if environment.kind == "full":
        return Path(environment.path).parent / VENV / "bin" / "python"
    # …/lib/python3.12/site-packages
    root = Path(environment.path).parents[2] if len(Path(environment.path).parents) > 2 else None
    if environment.kind != "adopted" or root is None or not (root / "pyvenv.cfg").is_file():
        return None
    python = root / "bin" / "python"
    return python if python.exists() else None


def _obtain(
    home: Home,
    before: Environment,
    requested: tuple[str, ...],
    free: Sequence[str],
    python: str | None,
    settings: Mapping[str, str],
    approve: Callable[[Plan], bool],
    progress: Progress,
    *,
    keep: bool = False,
) -> tuple[Plan, Environment | None]:
    with writing(home):
        home.prepare()
        with Staging(home.environments) as stage:
            uv = Uv.find(stage.work, progress, settings)
            version, program = _venv(uv, stage.whole / VENV, python)
            lock = stage.whole / LOCK
            if keep:
                shutil.copyfile(Path(before.path).parent / LOCK, lock)
            wheels = _resolve(uv, requested, free, program, lock)
            known = {(wheel.name, wheel.sha256) for wheel in before.wheels}
            changed = tuple(wheel for wheel in wheels if (wheel.name, wheel.sha256) not in known)
            packages = {wheel.name: wheel.version for wheel in wheels}
            named = tuple(f"{each}=={packages[each]}" for each in _names(requested) if each in packages)
            proposal = Plan(before, packages, changed, named, warnings=tuple(uv.warnings))
            if not proposal.changes:
                return proposal, before
            check_space(uv.folder, changed)
            if not approve(proposal):
                return proposal, None
            identity = fingerprint(_here(), version, wheels)
            for known_one in list_environments(home):
                if known_one.fingerprint == identity and known_one.kind == "full":
                    progress(f"using environment {known_one.name}")
                    return proposal, known_one
            _install(uv, wheels, program, progress)
            (site,) = (stage.whole / VENV).glob("lib/python3*/site-packages")
            (stage.whole / SITE).symlink_to(site.relative_to(stage.whole))
            made = publish(home, stage, _here(), named, wheels, version)
            progress(f"created environment {made.name} in {made.path}")
            return proposal, made


def _names(requirements: Sequence[str]) -> list[str]:
    return [distribution(each.partition("==")[0]) for each in requirements]


def _here() -> str:
    """This machine as wheels name it."""
    library, version = platform.libc_ver()
    tag = f"manylinux_{version.replace('.', '_')}" if library == "glibc" else sys.platform
    return f"{platform.machine()}-{tag}"


def _venv(uv: Uv, folder: Path, python: str | None) -> tuple[str, Path]:
    """Make it; returns ``3.12`` and its interpreter. Says what uv can get where there is none."""
    named = python or sys.executable
    flags = ["--relocatable", "--no-project", "--no-python-downloads", "--python", named]
    code, text = uv.run(["venv", str(folder)], "", RESOLVE_SECONDS, "making the environment", common=flags)
    settings = folder / "pyvenv.cfg"
    found = settings.read_text(encoding="utf-8") if settings.is_file() else ""
    match = re.search(r"^version_info = (3\.\d+)", found, re.M)
    if code != 0 or match is None:
        _, there = uv.run(
            ["python", "list", "--output-format", "text"],
            "",
            RESOLVE_SECONDS,
            "looking for Python",
            common=["--only-installed"],
        )
        have = sorted(set(re.findall(r"^cpython-(3\.\d+)", there, re.M)), key=lambda one: int(one[2:]))
        why = " ".join(text.split()).removeprefix("error: ")[:150]
        raise ToolError(
            f"no Python {named} here ({why}); this machine has {', '.join(have) or 'none that uv finds'}; "
            f"uv can bring it: uv python install {named}",
            missing=True,
        )
    return match.group(1), folder / "bin" / "python"


def _resolve(uv: Uv, requested: Sequence[str], free: Sequence[str], program: Path, lock: Path) -> list[Wheel]:
    """With all that they depend on. What ``lock`` holds already keeps its version, but for ``free``."""
    wanted = uv.folder / "requested.txt"
    wanted.write_text("\n".join(requested) + "\n", encoding="utf-8")
    command = ["pip", "compile", wanted.name, "--format", "pylock.toml", "-o", str(lock), "--no-header"]
    for name in free:
        command += ["--upgrade-package", name]
    flags = ["--only-binary", ":all:", "--python", str(program), "--no-python-downloads"]
    code, text = uv.run(command, "", RESOLVE_SECONDS, "resolving all dependencies", common=flags)
    uv.warnings = re.findall(r"^warning: (.*(?:yanked).*)$", text, re.M)
    if code != 0:
        said = re.search(r"[Bb]ecause (.*)", " ".join(text.split()))
        if said and "depends on" in said.group(1):
            raise UnresolvableError(f"these cannot be together: {said.group(1)[:500]}")
        raise uv.explain(text, list(requested), _here())
    return locked(lock)


def _install(uv: Uv, wheels: Sequence[Wheel], program: Path, progress: Progress) -> None:
    total = sum(wheel.size or 0 for wheel in wheels)
    progress(f"{len(wheels)} packages: {human_size(total or None)}")
    wanted = uv.folder / "hashes.txt"
    lines = (f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in wheels)
    wanted.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, text = uv.run(
        ["pip", "install", "-r", wanted.name, "--require-hashes", "--no-deps"],
        "",
        600 + total / SLOWEST,
        f"fetching {human_size(total or None)}",
        packages=len(wheels),
        common=["--only-binary", ":all:", "--python", str(program), "--no-python-downloads"],
    )
    if code != 0:
        raise uv.explain(text, [f"{wheel.name}=={wheel.version}" for wheel in wheels[:5]], _here())
