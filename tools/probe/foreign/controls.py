"""Cells that try the stand itself: a check that misses a planted fault, or a hang that is not ended, would
make every other row worthless. None of them says anything of a backend."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import arrays, faults, formats, gate

CLEAN = 20


def run(cell: dict[str, Any], device: str, stage: Callable[[str], None]) -> dict[str, Any]:
    found: dict[str, Any] = {"gate": _gate, "hang": _hang, "crash": _crash, "die": _die}[cell["control"]](
        cell, device, stage
    )
    return found


def _gate(cell: dict[str, Any], device: str, stage: Callable[[str], None]) -> dict[str, Any]:
    """Plant each fault in a right product, here and on this device, and see it caught."""
    stage("planting faults")
    torch = arrays.the_torch()
    missed: list[str] = []
    rejected = 0
    for m in cell["sweep"]:
        a = formats.normal(m, 512, seed=m, device=device)
        b = formats.normal(256, 512, seed=m + 1, device=device, scale=512**-0.5)
        right = a.float() @ b.float().t()
        for number in range(CLEAN):
            noise = formats.normal(m, 256, seed=number, device=device).float() * 1e-3
            output = (right + noise).to(torch.bfloat16)
            judged = gate.judge(arrays.rows_of(output, right), arrays.rows_of(output, right))
            rejected += judged.outcome is not None
        for fault in faults.FAULTS:
            if fault == "swapped_rows" and m < 2:
                continue
            output = right.to(torch.bfloat16)
            faults.spoil(output, fault)
            judged = gate.judge(arrays.rows_of(output, right), arrays.rows_of(output, right))
            if judged.outcome is None:
                missed.append(f"{fault} at m={m}")
    guarded = arrays.Guarded((4, 8), torch.bfloat16, device)
    if not guarded.intact():
        missed.append("canary is not intact from the start")
    torch.as_strided(guarded.tensor, (1,), (1,), guarded.tensor.storage_offset() + 32).fill_(1.0)
    if guarded.intact():
        missed.append("a write behind the output")
    return {"planted": {"missed": missed, "rejected": rejected, "clean": CLEAN * len(cell["sweep"])}}


def _hang(cell: dict[str, Any], device: str, stage: Callable[[str], None]) -> dict[str, Any]:
    """One kernel after the other, without end; each ends within seconds, so that no GPU is left hanging."""
    stage("running kernels without end")
    torch = arrays.the_torch()
    while True:
        if device == "cuda":
            torch.cuda._sleep(1 << 31)
            torch.cuda.synchronize()


def _crash(cell: dict[str, Any], device: str, stage: Callable[[str], None]) -> dict[str, Any]:
    """An index outside the tensor: on a GPU the context is broken from then on."""
    stage("reading outside of a tensor")
    torch = arrays.the_torch()
    values = torch.zeros(8, device=device)
    indices = torch.tensor([1 << 40], device=device)
    found = values[indices].sum().item()
    return {"read": float(found)}


def _die(cell: dict[str, Any], device: str, stage: Callable[[str], None]) -> dict[str, Any]:
    """The process is gone from one moment to the next."""
    stage("ending without a word")
    os.abort()
