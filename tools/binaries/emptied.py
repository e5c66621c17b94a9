"""Kernels that were compiled to nothing: their body is behind a condition that the target does not meet."""

from __future__ import annotations

from pathlib import Path

from memory.architecture import Architecture, ArchitectureError, images
from tools.binaries.cubin import Kernel, kernels, target_of
from tools.binaries.elf import CUDA_MACHINE, read_elf
from tools.binaries.fatbin import Kind, device_images
from tools.binaries.launched import kernels_in
from tools.binaries.library import mapped


def kernels_for(path: Path, arch: Architecture) -> list[Kernel]:
    """The kernels in a compiled unit of which machine code runs on ``arch``; a ``stub`` only returns.

    Raises :class:`BinaryError`."""
    with mapped(path) as data:
        elf = read_elf(data)
        if elf.machine == CUDA_MACHINE:
            return list(kernels(elf)) if _runs(target_of(elf), arch) else []
        return [
            kernel
            for image in device_images(elf)
            if image.kind is Kind.SASS and _runs(image.target, arch)
            for kernel in kernels_in(elf, image)
        ]


def _runs(target: str, arch: Architecture) -> bool:
    try:
        return arch.base in images(target)
    except ArchitectureError:
        return False
