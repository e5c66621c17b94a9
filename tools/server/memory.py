"""The memory of the GPUs that a server uses: what there was before, and whether it comes back."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tools.hardware.gpu import Gpu, read_gpus

SLACK = 128
"""MiB by which it may differ: the driver keeps some for itself."""
SECONDS = 30.0
"""For the driver to give memory back after the last process is gone."""


class Memory:
    """Of the GPUs with these UUIDs; of none where there are none, and then nothing is asked."""

    def __init__(self, gpus: Sequence[str]) -> None:
        self._gpus = frozenset(gpus)
        self._before = self._used()

    def in_use(self) -> bool:
        """Whether more of it is used than before: asked where nothing else tells that anything goes on."""
        now = self._used()
        grew = any(used > self._before.get(uuid, 0) + SLACK for uuid, used in now.items())
        changed, self._last = now != getattr(self, "_last", None), now
        return grew and changed

    def left(self, seconds: float = SECONDS) -> dict[str, int]:
        """MiB by GPU that are not back after ``seconds``. What another process has come to use is no part."""
        until = time.monotonic() + seconds
        while True:
            more = {
                uuid: used - self._before.get(uuid, 0)
                for uuid, used in self._used().items()
                if used > self._before.get(uuid, 0) + SLACK
            }
            if not more or time.monotonic() > until:
                return more
            time.sleep(0.5)

    def _used(self) -> dict[str, int]:
        if not self._gpus:
            return {}
        found: tuple[Gpu, ...] = read_gpus().gpus
        return {gpu.uuid: gpu.memory_used_mib or 0 for gpu in found if gpu.uuid in self._gpus}
