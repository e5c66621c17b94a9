"""Numbers that code asks a device for, by what profiles call them."""

from __future__ import annotations

from memory.architecture import Architecture


def device_fact(name: str, major: int, minor: int) -> int | None:
    """``major`` or ``minor``; or the bytes of shared memory that a ``block`` may opt in to or that a
    ``multiprocessor`` has, None where the data has no such device."""
    if name in ("major", "minor"):
        return minor if name == "minor" else major
    limits = Architecture(major, minor).shared_memory
    return None if limits is None else limits[name == "multiprocessor"]
