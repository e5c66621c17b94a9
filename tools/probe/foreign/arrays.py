"""What the gate wants to know of tensors, computed where they lie. ``torch`` is the foreign environment's."""

from __future__ import annotations

import importlib
from typing import Any

from .gate import Rows

CANARY = 0x5A
GUARD = 4096
"""Bytes in front of an output and behind it that nobody may write to."""


def the_torch() -> Any:
    """The investigated environment's torch; never imported where the project itself runs."""
    return importlib.import_module("torch")


def rows_of(output: Any, reference: Any) -> Rows:
    """Norms per row in float32 of tensors of two dimensions and the same shape."""
    torch = the_torch()
    out, there = output.float(), reference.float()
    bad = (~torch.isfinite(out)).sum(dim=1)
    numbers = torch.stack(
        [
            torch.linalg.vector_norm(out, dim=1),
            torch.linalg.vector_norm(there, dim=1),
            (out * there).sum(dim=1),
            torch.linalg.vector_norm(out - there, dim=1),
        ]
    )
    norm, norms, dot, off = numbers.double().cpu().tolist()
    return Rows(bad.cpu().tolist(), norm, norms, dot, off)


class Guarded:
    """An output tensor in the middle of memory that is watched, poisoned: what is not written is NaN."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: str) -> None:
        torch = the_torch()
        count = 1
        for size in shape:
            count *= size
        self._bytes = count * torch.empty((), dtype=dtype).element_size()
        self._memory = torch.full((self._bytes + 2 * GUARD,), CANARY, dtype=torch.uint8, device=device)
        self.tensor = self._memory[GUARD : GUARD + self._bytes].view(dtype).view(shape)
        self.poison()

    def poison(self) -> None:
        self.tensor.fill_(float("nan"))

    def intact(self) -> bool:
        before, behind = self._memory[:GUARD], self._memory[GUARD + self._bytes :]
        return bool((before == CANARY).all()) and bool((behind == CANARY).all())
