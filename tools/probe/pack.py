"""A plan as one folder that runs by itself on a machine with a GPU: plan, scripts, nothing else.

``python -P run.py`` there; ``results.jsonl`` comes back (:mod:`tools.probe.results`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from memory.architecture import Architecture
from memory.artifacts import Artifacts
from memory.home import Home
from tools.environment.model import Environment
from tools.errors import ToolError
from tools.probe.plan import Cell, Plan, operations

PACKAGE = "assay_probe"
SUFFIXED = 9
"""From this major version on, kernels use what only their own architecture has: ``90a``."""
RUN = f"""\
\"\"\"Runs the probes of plan.json; see: python -P run.py --help\"\"\"

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

from {PACKAGE}.supervise import main

sys.exit(main())
"""
_FOREIGN = Path(__file__).with_name("foreign")
_GUARD = Path(__file__).parent.parent / "environment" / "_guard.py"


def make_plan(environment: Environment, cells: Sequence[Cell], arch: Architecture | None = None) -> Plan:
    """``arch``: what is compiled for, where the cells are modules to be compiled."""
    scripts = {name: hashlib.sha256(data).hexdigest() for name, data in _scripts().items()}
    used = {operations()["operation"][cell.operation]["distribution"] for cell in cells if cell.operation}
    used |= {cell.function.partition(".")[0] for cell in cells if not cell.operation}
    data = operations()
    limits = {key: data["limits"][key] for key in ("memory_bytes", "gpu_memory_share", "caches", "carried")}
    if arch is not None:
        target = f"{arch.major}.{arch.minor}{'a' if arch.major >= SUFFIXED else ''}"
        limits["environment"] = dict.fromkeys(data["target"]["variables"], target)
    return Plan(
        environment=environment.path if environment.kind == "adopted" else environment.name,
        fingerprint=environment.fingerprint,
        libraries={name: version for name, version in environment.packages.items() if name in used},
        limits=limits,
        cells=tuple(cells),
        scripts=scripts,
    )


def pack(plan: Plan, folder: Path, home: Home) -> None:
    """Write ``folder``, which must be new or empty, and keep the plan: results are told to be of it.

    Raises :class:`ToolError` where the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ToolError(f"{folder} is not empty; give a new folder")
        (folder / PACKAGE).mkdir()
        for name, data in _scripts().items():
            (folder / PACKAGE / name).write_bytes(data)
        (folder / "run.py").write_text(RUN, encoding="utf-8")
        Artifacts(home.artifacts).put(plan.text().encode())
        (folder / "plan.json").write_text(plan.text(), encoding="utf-8")
    except OSError as error:
        raise ToolError(f"cannot write {folder}: {error.strerror or error}") from error


def _scripts() -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in sorted(_FOREIGN.glob("*.py"))}
    return {**found, "guard.py": _GUARD.read_bytes()}
