"""How the GPUs are set up and joined: what two runs on the same packages may differ by.

Only what stays as it is while nothing is changed: limits and modes, not the clock or the power of a moment.
Field names are those of ``nvidia-smi --help-query-gpu``; one that this driver does not know is left out.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from pathlib import Path

from memory.vocabulary import Contract
from tools.hardware.gpu import PROGRAM, SECONDS, ask, query

_FIELDS = {
    "power_limit_w": "power.limit",
    "power_default_w": "power.default_limit",
    "max_sm_mhz": "clocks.max.sm",
    "max_memory_mhz": "clocks.max.memory",
    "set_sm_mhz": "clocks.applications.graphics",
    "set_memory_mhz": "clocks.applications.memory",
    "persistence": "persistence_mode",
    "mig": "mig.mode.current",
    "ecc": "ecc.mode.current",
    "pcie_generation": "pcie.link.gen.max",
    "pcie_width": "pcie.link.width.max",
}
_UNKNOWN = re.compile(r'"?([a-z_.]+)"? is not a valid field')
_CUDA = re.compile(r"CUDA Version\s*:\s*(\d+\.\d+)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class GpuSettings(Contract):
    """``gpus``: by uuid, as the driver words them, without what it does not tell; ``topology``: how each
    pair of devices is joined, a line a device; ``cuda``: the newest CUDA that the driver serves."""

    gpus: dict[str, dict[str, str]]
    topology: tuple[str, ...] = ()
    cuda: str | None = None


def gpu_settings(seconds: float = SECONDS) -> GpuSettings:
    """Ask the driver; a machine without one has none."""
    program = shutil.which(PROGRAM)
    if program is None:
        return GpuSettings(gpus={})
    ends = time.monotonic() + seconds

    def left() -> float:
        return max(0.5, ends - time.monotonic())

    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        folder = Path(name)
        fields = dict(_FIELDS)
        while True:
            rows, trouble = query(program, f"--query-gpu=uuid,{','.join(fields.values())}", folder, left())
            unknown = _UNKNOWN.search(trouble or "")
            asked = [field for field, its in fields.items() if unknown and its == unknown[1]]
            if not asked:
                break
            del fields[asked[0]]
        if trouble:
            return GpuSettings(gpus={})
        gpus = {
            uuid: {field: said for field, said in zip(fields, values, strict=True) if _tells(said)}
            for uuid, *values in rows
            if len(values) == len(fields)
        }
        joined, _ = ask(program, ["topo", "-m"], folder, left())
        version, _ = ask(program, ["--version"], folder, left())
    cuda = _CUDA.search(version)
    return GpuSettings(gpus=gpus, topology=_topology(joined), cuda=cuda[1] if cuda else None)


def _tells(said: str) -> bool:
    return bool(said) and not said.startswith("[")


def _topology(text: str) -> tuple[str, ...]:
    """The table, without its legend and its layout."""
    table = _COLOURS.sub("", text).strip().partition("\n\n")[0]
    return tuple(" ".join(line.split()) for line in table.splitlines() if line.strip())
