"""Which backend a component really has, and whether that is the one that was asked for.

Three witnesses, the better one first: the kernels that ran, as a trace of the device names them; a line of
the log that says which was chosen; what the server says of its own settings. The last repeats what start-up
made of the request: it can contradict it, and proves nothing.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from memory.vocabulary import Contract
from tools.errors import ToolError
from tools.server.start import Server
from tools.server.watch import Said
from tools.stopping import pause

LARGEST = 512 << 20
"""Bytes of a trace that are read."""
TRACE_SECONDS = 60.0
"""For a trace to be written."""
LEFT = frozenset({"", "auto", "none", "null"})
"""Values that leave the choice to the engine: whatever it takes is what was asked for."""
_KERNELS = re.compile(r'"cat"\s*:\s*"kernel"\s*,\s*"name"\s*:\s*"((?:[^"\\]|\\.){1,1000})"')
_SHOWN = 400


class Used(Contract):
    """``backend``: None where nothing tells. ``line``: of the log. ``says``: the words, or the kernels."""

    component: str
    asked: str | None
    backend: str | None
    witness: Literal["kernels", "log", "settings"] | None
    says: str = ""
    line: int | None = None

    @property
    def substituted(self) -> bool:
        """Whether something else runs than was asked for. What nobody tells is no substitution."""
        if self.asked is None or self.backend is None or plain(self.asked) in LEFT:
            return False
        return plain(self.asked) not in {plain(one) for one in self.backend.split(" and ")}


def plain(name: str) -> str:
    """A backend's name however it is spelt: ``FLASHINFER_CUTLASS``, ``FlashInfer CUTLASS``."""
    return re.sub(r"[\s-]+", "_", name.strip()).lower()


def used_backends(server: Server, kernels: Iterable[str] = ()) -> tuple[Used, ...]:
    """By component, of those that were asked for and those that somebody tells of."""
    ran = _by_kernel(server, kernels)
    said: dict[str, Said] = {}
    for one in server.watch.said:
        said.setdefault(one.component, one)
    settings = server.info()
    found = []
    for component in sorted({*server.plan.asked, *ran, *said}):
        asked = server.plan.asked.get(component)
        if component in ran:
            names = ran[component]
            backend, says = " and ".join(names), ", ".join(names.values())
            found.append(_used(component, asked, backend, "kernels", says))
        elif component in said:
            line = said[component]
            found.append(_used(component, asked, line.backend, "log", line.text, line.line))
        else:
            field = server.plan.fields.get(component, "")
            value = settings.get(field)
            told = value if isinstance(value, str) and plain(value) not in LEFT else None
            says = f"{field}={value}" if told else ""
            found.append(_used(component, asked, told, "settings" if told else None, says))
    return tuple(found)


def _used(
    component: str,
    asked: str | None,
    backend: str | None,
    witness: Literal["kernels", "log", "settings"] | None,
    says: str,
    line: int | None = None,
) -> Used:
    return Used(
        component=component, asked=asked, backend=backend, witness=witness, says=says[:_SHOWN], line=line
    )


def _by_kernel(server: Server, kernels: Iterable[str]) -> dict[str, dict[str, str]]:
    """By component the backends whose own kernels ran, each with the first of them."""
    found: dict[str, dict[str, str]] = {}
    for name in kernels:
        for pattern in server.plan.profile.kernels:
            if pattern.backend is not None and pattern.pattern.search(name):
                found.setdefault(pattern.component, {}).setdefault(pattern.backend, name[:120])
    return {component: dict(sorted(names.items())) for component, names in found.items()}


def traced_kernels(server: Server, request: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """Names of the kernels that a request starts, by the server's own profiler; empty where it has none, and
    where it runs without a GPU."""
    paths = server.plan.profile.trace
    if paths is None or not server.gpus:
        return ()
    body = dict(request or {"prompt": "1 2 3 4 5 6 7 8", "max_tokens": 8, "temperature": 0})
    body["model"] = server.model
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        folder = Path(name)
        with suppress(OSError, ToolError):
            begun = server.ask(paths[0], {"output_dir": name, "activities": ["CPU", "GPU"]}, seconds=60.0)
            if begun.status != 200:
                return ()
            server.ask("/v1/completions", body, seconds=120.0)
            server.ask(paths[1], {}, seconds=120.0)
            return _names(_written(folder))
    return ()


def _written(folder: Path) -> list[Path]:
    """The traces in a folder, as soon as they do not grow any more."""
    until, before = time.monotonic() + TRACE_SECONDS, -1
    while time.monotonic() < until:
        found = sorted(folder.rglob("*.trace.json*"))
        size = sum(path.stat().st_size for path in found)
        if found and size == before:
            return found
        before = size
        pause(0.5)
    return sorted(folder.rglob("*.trace.json*"))


def _names(paths: Iterable[Path]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for path in paths:
        with (
            gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
            suppress(OSError, EOFError),
        ):
            text = file.read(LARGEST).decode("utf-8", "replace")
            for match in _KERNELS.finditer(text):
                names.setdefault(str(json.loads(f'"{match[1]}"')))
    return tuple(names)
