"""The fingerprint as a document: all that what is found in an environment may depend on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory.canonical import sha256_of
from tools.environment.model import Environment
from tools.hardware.gpu import gpu_status
from tools.hardware.programs import NVCC, version_of
from tools.hardware.settings import gpu_settings

_DATA = Path(__file__).with_name("data") / "variables.toml"
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.I)


def marks(environment: Environment, variables: Mapping[str, str], context: Any) -> dict[str, Any]:
    """``environment`` is its fingerprint, ``machine`` that of all the rest: GPUs with limits and modes, how
    they are joined, CUDA; ``variables``: those of the process that engines and their libraries heed, secrets
    left out."""
    wheels = {wheel.name: wheel for wheel in environment.wheels}
    status = gpu_status.run(gpu_status.input(), context)
    packages = [
        {
            "package": name,
            "version": version,
            "sha256": wheels[name].sha256 if name in wheels else None,
            "from": wheels[name].filename if name in wheels else None,
        }
        for name, version in environment.packages.items()
    ]
    settings = gpu_settings()
    gpus = [
        {
            "name": gpu.name,
            "capability": gpu.compute_capability,
            "driver": gpu.driver,
            "uuid": gpu.uuid,
            "settings": settings.gpus.get(gpu.uuid, {}),
        }
        for gpu in status.gpus
    ]
    machine: dict[str, Any] = {
        "gpus": gpus,
        "topology": list(settings.topology),
        "cuda": {"driver": settings.cuda, "compiler": version_of(NVCC)},
    }
    heeded = {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(_prefixes()) and not _SECRET.search(name)
    }
    return {
        "format": 1,
        "name": environment.name,
        "environment": environment.fingerprint,
        "machine": sha256_of({**machine, "variables": heeded}),
        "platform": environment.platform,
        "python": environment.python,
        "packages": packages,
        **machine,
        "variables": heeded,
    }


def _prefixes() -> tuple[str, ...]:
    return tuple(tomllib.loads(_DATA.read_text(encoding="utf-8"))["prefixes"])
