"""Which NVIDIA GPUs this machine has, and who uses them, as the driver's own tool tells."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from memory.vocabulary import Contract, Effect
from tools.base import ToolContext, tool
from tools.environment.child import allowed_environment, run_child
from tools.source.tree import read_head

PROGRAM = "nvidia-smi"
SECONDS = 10.0
"""For all questions together."""

_FIELDS = {
    "index": "index",
    "uuid": "uuid",
    "name": "name",
    "compute_capability": "compute_cap",
    "memory_total_mib": "memory.total",
    "memory_used_mib": "memory.used",
    "driver": "driver_version",
}


class GpuProcess(Contract):
    """A program that holds memory of a GPU. ``memory_mib`` is None where the driver does not tell."""

    pid: int
    name: str
    memory_mib: int | None


class Gpu(Contract):
    """One GPU. ``compute_capability`` as ``12.0``; memory in MiB, None where the driver does not tell."""

    index: int
    uuid: str
    name: str
    compute_capability: str | None
    memory_total_mib: int | None
    memory_used_mib: int | None
    driver: str
    processes: tuple[GpuProcess, ...] = ()


class GpuStatus(Contract):
    """``missing``: why no GPU could be looked for, with what to do; None where the driver answered."""

    gpus: tuple[Gpu, ...]
    missing: str | None = None


class GpuStatusInput(BaseModel):
    pass


@tool(effect=Effect.READS)
def gpu_status(args: GpuStatusInput, context: ToolContext) -> GpuStatus:
    """List the NVIDIA GPUs of this machine: capability, driver, memory in use and by which processes."""
    return read_gpus()


def read_gpus(seconds: float = SECONDS) -> GpuStatus:
    """Ask the driver. A machine without one is an answer, not an error."""
    program = shutil.which(PROGRAM)
    if program is None:
        return GpuStatus(
            gpus=(),
            missing=f"no {PROGRAM} on PATH, so no NVIDIA driver; reading needs none, running needs one",
        )
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        folder = Path(name)
        rows, trouble = query(program, f"--query-gpu={','.join(_FIELDS.values())}", folder, seconds)
        if trouble:
            return GpuStatus(gpus=(), missing=trouble)
        # Not told inside some containers; the GPUs are still worth showing.
        left = max(0.5, seconds - (time.monotonic() - started))
        used, _ = query(program, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", folder, left)
    processes: dict[str, list[GpuProcess]] = {}
    for row in used:
        if len(row) == 4 and (pid := _number(row[1])) is not None:
            processes.setdefault(row[0], []).append(
                GpuProcess(pid=pid, name=row[2], memory_mib=_number(row[3]))
            )
    return GpuStatus(gpus=tuple(_gpu(row, processes) for row in rows if len(row) == len(_FIELDS)))


def query(program: str, what: str, folder: Path, seconds: float) -> tuple[list[list[str]], str | None]:
    """Rows of the answer, or why there is none."""
    text, trouble = ask(program, [what, "--format=csv,noheader,nounits"], folder, seconds)
    if trouble:
        return [], trouble
    try:
        read = [row for row in csv.reader(io.StringIO(text), skipinitialspace=True) if row]
    except csv.Error as error:
        return [], f"{program} gave an answer that is no table ({error}); check the driver"
    return [[cell.strip() for cell in row] for row in read], None


def ask(program: str, args: Sequence[str], folder: Path, seconds: float) -> tuple[str, str | None]:
    """What the driver's tool prints, or why it gave no answer. ``folder``: for its output, written anew."""
    output = folder / "answer.txt"
    try:
        ended = run_child(
            [program, *args],
            environment=allowed_environment(os.environ),
            folder=folder,
            output=output,
            seconds=seconds,
            grace=0.5,
        )
    except OSError as error:
        return "", f"cannot run {program} ({error.strerror or error}); reinstall the driver"
    text = read_head(output)
    if ended.timed_out:
        return "", f"{program} gave no answer in {seconds:.0f} s; the driver may hang: look at dmesg"
    if ended.code != 0:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        return "", f"{program} failed ({first[:200]}); check the driver"
    return text, None


def _gpu(row: Sequence[str], processes: dict[str, list[GpuProcess]]) -> Gpu:
    values = dict(zip(_FIELDS, row, strict=True))
    capability = values["compute_capability"]
    return Gpu(
        index=_number(values["index"]) or 0,
        uuid=values["uuid"],
        name=values["name"],
        compute_capability=capability if capability[:1].isdigit() else None,
        memory_total_mib=_number(values["memory_total_mib"]),
        memory_used_mib=_number(values["memory_used_mib"]),
        driver=values["driver"],
        processes=tuple(processes.get(values["uuid"], ())),
    )


def _number(text: str) -> int | None:
    """``[N/A]`` and the like are None."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None
