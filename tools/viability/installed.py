"""Which packages will be there when the engine runs, as far as metadata tells."""

from __future__ import annotations

import sys
from importlib.metadata import PathDistribution

from packaging.requirements import InvalidRequirement, Requirement

from tools.source.tree import SourceTree
from tools.viability.profile import libraries

STANDARD = frozenset(sys.stdlib_module_names)


def pinned_versions(tree: SourceTree) -> dict[str, str]:
    """Distribution → version: what is in the tree, then what its metadata pins exactly."""
    found = {name: version for name, version in requirements(tree).items() if version}
    for name, version in tree.packages.items():
        found[name.lower().replace("_", "-")] = version
    return found


def requirements(tree: SourceTree) -> dict[str, str | None]:
    """Normalised name of every unconditional requirement of the packages in the tree → exact pin or None."""
    found: dict[str, str | None] = {}
    for info in sorted(tree.root.glob("*.dist-info")):
        for line in PathDistribution(info).requires or []:
            try:
                wanted = Requirement(line)
            except InvalidRequirement:
                continue
            if wanted.marker is not None and "extra" in str(wanted.marker):
                continue
            pins = [spec.version for spec in wanted.specifier if spec.operator == "=="]
            name = wanted.name.lower().replace("_", "-").replace(".", "-")
            found[name] = pins[0] if pins else found.get(name)
    return found


def absent_modules() -> frozenset[str]:
    """Top-level modules that exist for other vendors' hardware only."""
    return frozenset(libraries()["other_hardware"])


def assumed_modules(tree: SourceTree) -> frozenset[str]:
    """Top-level modules that will be there when the engine runs."""
    names = {name.replace("-", "_") for name in requirements(tree)}
    names |= {name.removesuffix("_python") for name in names}
    # One distribution may be renamed over time while its module keeps its name.
    for old, new in libraries()["renamed"]:
        names |= {name.replace(old, new) for name in names}
    for prefix in libraries()["dropped"]:
        names |= {name.removeprefix(prefix) for name in names}
    return frozenset(names) | STANDARD | frozenset(libraries()["assumed"]) | {"builtins"}
