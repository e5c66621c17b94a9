"""Copying what an investigation reads from a place into an environment of the home."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from contextlib import closing
from pathlib import Path

from memory.canonical import sha256_of
from memory.home import Home
from memory.names import distribution, few
from tools.engines.adapter import engines
from tools.environment.adopt import built_for
from tools.environment.changes import editable, told
from tools.environment.earlier import Progress, write
from tools.environment.model import Environment
from tools.environment.places.place import Place
from tools.environment.staging import Staging, writing
from tools.environment.store import DESCRIPTION, ORIGIN, SITE, list_environments, load, origin_of
from tools.errors import ToolError
from tools.source.tree import SourceTree, name_of_info, read_head, recorded_files

NESTED = ("", "src", "python")
"""Where a checkout keeps its packages."""


def copied(home: Home, place: Place, progress: Progress) -> Environment:
    """The copy of what lies at ``place``, made now unless the same was copied before."""
    with writing(home), Staging(home.prepare().environments) as stage:
        site = stage.whole / SITE
        site.mkdir()
        with closing(place):
            place.open(stage.work)
            mark = place.mark()
            if known := _copied_before(home, place.label, mark):
                progress(f"nothing there has changed: {known.name}")
                return known
            progress(f"copying the engines and kernel libraries of {place.label}")
            folder = place.infos(site)
            checkouts = _take(place, folder, site)
        packages = {distribution(name): version for name, version in SourceTree(site).packages.items()}
        python, platform = built_for(site, folder)
        files = _hashes(site)
        if not files:
            held = few([f"{name} {version}" for name, version in sorted(packages.items())])
            raise ToolError(
                f"{place.label} holds no engine or kernel library known here; it holds {held or 'nothing'}"
            )
        identity = sha256_of({"copied": sorted(packages.items()), "files": files})
        environment = Environment(
            name=f"{_slug(place.label)}-{identity[:10]}",
            kind="adopted",
            path=str(home.environments / f"{_slug(place.label)}-{identity[:10]}" / SITE),
            platform=platform,
            python=python,
            packages=dict(sorted(packages.items())),
            fingerprint=identity,
        )
        for name, where in checkouts.items():
            changed = place.changes(where, stage.work)
            local = f", changed since its commit: {few(changed, 4)}" if changed else ""
            progress(f"{name} is a checkout there: {where}{local}")
        for line in told(site, {distribution(name) for name in wanted()} - checkouts.keys()):
            progress(line)
        write(stage.whole / DESCRIPTION, json.dumps(environment.document(), indent=1, ensure_ascii=False))
        origin = {"from": place.label, "folder": folder, "checkouts": checkouts, "mark": mark}
        write(stage.whole / ORIGIN, json.dumps(origin, indent=1, ensure_ascii=False, sort_keys=True))
        if not stage.publish(environment.name):
            progress("it is as it was copied before")
            return load(home.environments / environment.name)
    progress(f"copied {len(files)} files to {environment.name}")
    return environment


def _copied_before(home: Home, label: str, mark: str) -> Environment | None:
    """The copy that was made of the same, where the place tells that it is."""
    for environment in list_environments(home) if mark else ():
        origin = origin_of(environment)
        if origin.get("from") == label and origin.get("mark") == mark:
            return environment
    return None


def wanted() -> dict[str, str]:
    """The distributions that are copied whole, and what an engine's top folder is called."""
    libraries = {name: "" for one in engines().values() for name in one.kernel_distributions}
    return libraries | {one.distribution: one.root for one in engines().values()}


def _take(place: Place, folder: str, site: Path) -> dict[str, str]:
    """Take the files of the distributions that are read; of those that are checkouts, where they lie."""
    by_name = {distribution(name): root for name, root in wanted().items()}
    checkouts: dict[str, str] = {}
    tops: dict[str, None] = {}
    for info in sorted(site.glob("*.dist-info")):
        name = distribution(name_of_info(info))
        if name not in by_name:
            continue
        if where := editable(info):
            checkouts[name] = where
            _checkout(place, where, _names(info, by_name[name]), info, site)
        else:
            own = (file.split("/", 1)[0] for file in recorded_files(info / "RECORD"))
            tops |= dict.fromkeys(top for top in own if top not in ("", "..", info.name) and top[:1] != ".")
    if tops:
        place.take(folder, list(tops), site)
    return checkouts


def _names(info: Path, root: str) -> list[str]:
    """What a distribution is imported as."""
    told = read_head(info / "top_level.txt").split()
    name = name_of_info(info).replace("-", "_")
    return list(dict.fromkeys(one for one in (root, *told, name) if one.isidentifier()))


def _checkout(place: Place, where: str, names: list[str], info: Path, site: Path) -> None:
    """Take the packages of a checkout, and enter their files into the list of what is installed."""
    for nested in NESTED:
        place.take(f"{where}/{nested}".rstrip("/"), names, site)
        if any((site / name / "__init__.py").is_file() for name in names):
            break
    with (info / "RECORD").open("a", encoding="utf-8", newline="") as record:
        rows = csv.writer(record, lineterminator="\n")
        for name in names:
            rows.writerows(
                (path.relative_to(site).as_posix(), "", "") for path in sorted((site / name).rglob("*"))
            )


def _hashes(site: Path) -> list[tuple[str, str]]:
    """Every file but those of ``*.dist-info``, with its hash."""
    found = []
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site).as_posix()
        if path.is_file() and ".dist-info/" not in name:
            with path.open("rb") as file:
                found.append((name, hashlib.file_digest(file, "sha256").hexdigest()))
    return found


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.")[-60:].strip("-.") or "copy"
