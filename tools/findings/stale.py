"""Whether findings still hold: cited lines hashed again in other packages, versions and machines compared.

What was read holds where all of its lines do; what ran goes stale as soon as a package, the driver or the GPU
of its scope is another. An account holds for the versions that it names. No pydantic here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.home import Home
from memory.names import distribution
from memory.terms import Drift, Level
from memory.views import Views
from tools.environment.model import Environment
from tools.environment.store import list_environments
from tools.findings.drift import Became, Cited, Drifts, Files

HOLDS, CHANGED, GONE, UNKNOWN = "holds", "changed", "gone", "not_comparable"
_WORST = {Drift.SAME: 0, Drift.MOVED: 0, Drift.CHANGED: 1, Drift.GONE: 2}
_DRIFTS = (HOLDS, CHANGED, GONE)


@dataclass(frozen=True)
class Machine:
    """The GPUs of a machine by name, and their driver; None where there is none to compare with."""

    gpus: tuple[str, ...]
    driver: str | None


@dataclass(frozen=True)
class Checked:
    """``drift``: ``holds``, ``changed``, ``gone`` or ``not_comparable``; ``lines``: what became of each cited
    span, with the number of its evidence; ``because``: versions and machines that are others."""

    finding: Mapping[str, Any]
    drift: str
    lines: tuple[tuple[int, Cited, Became], ...]
    because: tuple[str, ...]


def check(
    home: Home,
    views: Views,
    rows: Sequence[Mapping[str, Any]],
    now: Environment,
    machine: Machine | None = None,
    before: Environment | None = None,
) -> Iterator[Checked]:
    """Each of ``rows`` (findings) against the packages of ``now``, and against ``machine`` where it is named.

    ``before``: packages that findings cite, besides the environments of the home, which are looked through.
    """
    read = _Read(home, before)
    versions = {distribution(name): version for name, version in now.packages.items()}
    cited = views.cited(row["id"] for row in rows)
    spans = {
        name: [(one, Cited(*(one[field] for field in Cited._fields))) for one in given]
        for name, given in cited.items()
    }
    drifts = Drifts(now.tree(), (span for given in spans.values() for _, span in given))
    for row in rows:
        lines = [
            (one["number"], span, drifts.of(span, read.of(one["package"], one["version"])))
            for one, span in spans.get(row["id"], ())
        ]
        yield _judge(row, views, lines, versions, machine)


def _judge(
    row: Mapping[str, Any],
    views: Views,
    lines: list[tuple[int, Cited, Became]],
    versions: Mapping[str, str],
    machine: Machine | None,
) -> Checked:
    worst = [_WORST[became.drift] for _, _, became in lines if became.drift in _WORST]
    drift = _DRIFTS[max(worst)] if worst else UNKNOWN
    because: list[str] = []
    if row["level"] == Level.REPORT:
        because = _outside(views, row, versions)
        drift = CHANGED if because else drift
    elif row["level"] != Level.STATIC:
        because = [*_other_versions(views, row, versions), *_other_machine(row, machine)]
        drift = max(drift, CHANGED, key=_rank) if because else HOLDS if drift == UNKNOWN else drift
    return Checked(row, drift, tuple(lines), tuple(because))


def _rank(drift: str) -> int:
    return _DRIFTS.index(drift) if drift in _DRIFTS else -1


def _other_versions(views: Views, row: Mapping[str, Any], versions: Mapping[str, str]) -> list[str]:
    packages = views.parsed(row, "packages")
    return [
        f"{name} {version} is {versions[distribution(name)]}"
        for name, version in packages.items()
        if versions.get(distribution(name), version) != version
    ]


def _other_machine(row: Mapping[str, Any], machine: Machine | None) -> list[str]:
    if machine is None:
        return []
    found = []
    if row["driver"] is not None and machine.driver is not None and row["driver"] != machine.driver:
        found.append(f"driver {row['driver']} is {machine.driver}")
    if row["gpu"] is not None and machine.gpus and row["gpu"] not in machine.gpus:
        found.append(f"GPU {row['gpu']} is {', '.join(dict.fromkeys(machine.gpus))}")
    return found


def _outside(views: Views, row: Mapping[str, Any], versions: Mapping[str, str]) -> list[str]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    ranges = (views.parsed(row, "claim").get("scope") or {}).get("ranges", {})
    found = _other_versions(views, row, versions)
    for name, allowed in ranges.items():
        version = versions.get(distribution(name))
        try:
            if version is not None and not SpecifierSet(allowed, prereleases=True).contains(version):
                found.append(f"{name} {version} is not {allowed}")
        except InvalidSpecifier:
            continue
    return found


class _Read:
    """The packages that were cited, by name and version: where the lines stood then."""

    def __init__(self, home: Home, before: Environment | None) -> None:
        self._environments = [*([before] if before else []), *list_environments(home)]
        self._files: dict[str, Files] = {}
        self._known: dict[tuple[str, str], Files | None] = {}

    def of(self, package: str, version: str) -> Files | None:
        key = package, version
        if key not in self._known:
            self._known[key] = self._find(distribution(package), version)
        return self._known[key]

    def _find(self, package: str, version: str) -> Files | None:
        for one in self._environments:
            if any(
                distribution(name) == package and there == version for name, there in one.packages.items()
            ):
                if one.path not in self._files:
                    self._files[one.path] = Files(one.tree())
                return self._files[one.path]
        return None
