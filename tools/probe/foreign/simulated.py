"""A device that is not there: torch answers as one, so that an engine decides as it would beside it.

Nothing is put into the environment: what torch's queries give is replaced in this process alone. A kernel
cannot run so, and none does.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

from .arrays import the_torch

BLANKED: list[str] = []
"""Packages that could not be imported here, and were replaced by an empty one."""


def simulate(device: dict[str, Any]) -> None:
    """``device``: ``name``, ``major``, ``minor``, ``memory`` (bytes), ``processors``, ``cuda`` (a version),
    ``count``."""
    torch = the_torch()
    about = types.SimpleNamespace(
        name=device["name"],
        major=device["major"],
        minor=device["minor"],
        total_memory=device["memory"],
        multi_processor_count=device["processors"],
        is_integrated=False,
        warp_size=32,
        max_threads_per_multi_processor=1536,
        gcnArchName="",
        uuid="GPU-simulated",
    )
    torch.version.cuda = device["cuda"]
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": device["count"],
        "current_device": 0,
        "get_device_capability": (device["major"], device["minor"]),
        "get_device_properties": about,
        "get_device_name": device["name"],
        "mem_get_info": (device["memory"], device["memory"]),
        "get_arch_list": [f"sm_{device['major']}{device['minor']}"],
        "is_bf16_supported": True,
        "memory_allocated": 0,
        "memory_reserved": 0,
    }
    for name in ("_lazy_init", "set_device", "synchronize", "empty_cache", "init"):
        answers[name] = None
    for name, value in answers.items():
        setattr(torch.cuda, name, _answering(value))
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = _answering(True)
        torch.accelerator.current_accelerator = _answering(torch.device("cuda"))


def _answering(value: Any) -> Any:
    return lambda *_, **__: value


def blank(names: Sequence[str]) -> None:
    """Replace those packages that cannot be imported without a driver: they are there, and nothing in them
    works."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - a library of another machine fails in its own way
            for module in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
                del sys.modules[module]
            BLANKED.append(name)
            sys.meta_path.insert(0, _Blanks(name))
            importlib.import_module(name)


class _Absent:
    """Whatever is asked of it is there, until it is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{self._name} is not there: the device is simulated")


class _Blank(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[:1].isupper() else _Absent(f"{self.__name__}.{name}")


class _Blanks(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name == self._package or name.startswith(f"{self._package}."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        return _Blank(spec.name)

    def exec_module(self, module: Any) -> None:
        module.__version__ = "0+simulated"
