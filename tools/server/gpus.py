"""Which GPUs a server gets: those that are named, else the first ones that nobody uses."""

from __future__ import annotations

from collections.abc import Sequence

from tools.errors import ToolError
from tools.hardware.gpu import Gpu, read_gpus

IDLE = 1024
"""MiB in use of a GPU that counts as free."""


def choose_gpus(named: Sequence[str], count: int) -> tuple[Gpu, ...]:
    """``count`` GPUs. ``named``: by index or UUID, also such as others use. Raises :class:`ToolError`."""
    status = read_gpus()
    if not status.gpus:
        why = status.missing or "the driver lists none"
        raise ToolError(
            f"no GPU to run on ({why}); an engine that was built for the CPU: agent serve --cpu", missing=True
        )
    if named:
        found = []
        for name in dict.fromkeys(named):
            fits = [gpu for gpu in status.gpus if name in (str(gpu.index), gpu.uuid)]
            if not fits:
                there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in status.gpus)
                raise ToolError(f"no GPU {name} here; there are {there}")
            found += fits
    else:
        found = [gpu for gpu in status.gpus if not gpu.processes and (gpu.memory_used_mib or 0) <= IDLE]
        busy = len(status.gpus) - len(found)
        found = found[:count]
        if len(found) < count:
            raise ToolError(
                f"{count} GPUs are wanted and {len(found)} are free ({busy} in use by others); "
                "name them with --gpu to share them all the same",
                missing=True,
            )
    if len(found) != count:
        raise ToolError(f"{len(found)} GPUs are named for {count} ranks; name {count}, or change --tp")
    return tuple(found)
