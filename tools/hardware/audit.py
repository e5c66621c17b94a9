"""What of this machine makes a server slow, or fail, whatever backend it has: looked at before any launch.

A machine that holds the card back costs more than a wrong backend does. Each check takes a moment, none
changes anything, and what cannot be told is no verdict.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tools.hardware.doctor import Check
from tools.hardware.gpu import PROGRAM, Gpu, ask, query, read_gpus
from tools.hardware.settings import GpuSettings, gpu_settings

LEAST_SHARED = 1 << 30
"""Bytes of shared memory with which processes on several GPUs talk to each other."""
LEAST_FILES = 4096
SLOWED = ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "hw_slowdown")
_CUDA = re.compile(r"\+cu(\d+)(\d)$")
_NO_PEER = re.compile(r"\b(?:CNS|GNS|TNS|NS|U)\b")


def audit(gpus: Sequence[str] = (), packages: Mapping[str, str] | None = None) -> list[Check]:
    """Look at this machine for a server on ``gpus`` (UUIDs; all, where none is named) with ``packages``.

    ``ok`` is False where a figure measured here would not be the card's own, None where that is possible or
    not known.
    """
    found = read_gpus()
    wanted = [gpu for gpu in found.gpus if not gpus or gpu.uuid in gpus]
    settings = gpu_settings() if wanted else GpuSettings(gpus={})
    return [*_host(len(wanted)), *_cards(wanted, settings, packages or {})]


def _cards(gpus: Sequence[Gpu], settings: GpuSettings, packages: Mapping[str, str]) -> Iterator[Check]:
    if not gpus:
        return
    yield _driver(gpus[0].driver, settings.cuda, packages)
    for gpu in gpus:
        yield from _card(gpu, settings.gpus.get(gpu.uuid, {}))
    yield from slowed(*_asked())
    if len(gpus) > 1:
        yield peers(_peers())
        yield _joined(settings.topology)
    yield from numa(settings.topology, [gpu.index for gpu in gpus])


def _driver(driver: str, serves: str | None, packages: Mapping[str, str]) -> Check:
    """The newest CUDA that the driver serves, against the one that torch was built with."""
    built = _CUDA.search(packages.get("torch", ""))
    wanted = f"{built[1]}.{built[2]}" if built else None
    told = f"driver {driver}, up to CUDA {serves or '?'}" + (f"; torch has {wanted}" if wanted else "")
    behind = bool(wanted and serves and _number(wanted) > _number(serves))
    # Minor versions are compatible, majors are not.
    major = bool(wanted and serves and int(_number(wanted)) > int(_number(serves)))
    return Check(
        name="driver",
        ok=False if major else None if behind else True,
        found=told,
        fix="install a newer driver, or packages for the CUDA that it serves" if behind else None,
    )


def _card(gpu: Gpu, told: Mapping[str, str]) -> Iterator[Check]:
    name = f"gpu {gpu.index}"
    if gpu.processes:
        who = ", ".join(f"{one.pid} ({one.memory_mib or '?'} MiB)" for one in gpu.processes[:5])
        yield Check(name=name, ok=False, found=f"used by {who}", fix="wait, or end what is yours")
    limit, normal = _float(told.get("power_limit_w")), _float(told.get("power_default_w"))
    if limit is not None and normal is not None and limit < 0.97 * normal:
        found = f"held to {limit:.0f} W of {normal:.0f} W"
        yield Check(name=name, ok=False, found=found, fix=f"nvidia-smi -i {gpu.index} -pl {normal:.0f}")
    fixed, most = _float(told.get("set_sm_mhz")), _float(told.get("max_sm_mhz"))
    if fixed is not None and most is not None and fixed < 0.8 * most:
        yield Check(name=name, ok=None, found=f"application clock {fixed:.0f} of {most:.0f} MHz")
    if told.get("mig", "").lower() == "enabled":
        yield Check(name=name, ok=None, found="divided (MIG): what is measured holds for the part alone")


def slowed(rows: Sequence[Sequence[str]], fields: Sequence[str]) -> Iterator[Check]:
    """GPUs that are slowed down at this moment. ``rows``: index, then ``Active`` or not for each field."""
    for index, *flags in rows:
        why = [name for name, flag in zip(fields, flags, strict=False) if flag.strip() == "Active"]
        if why:
            words = ", ".join(one.replace("_", " ") for one in why)
            yield Check(
                name=f"gpu {index}", ok=False, found=f"slowed down now: {words}", fix="cooling, power"
            )


def peers(text: str) -> Check:
    """What ``topo -p2p r`` prints: whether each pair of GPUs reads the other's memory."""
    lines = [line for line in text.splitlines() if re.match(r"\s*GPU\d+\s+\S", line)]
    rows = [line for line in lines if re.search(r"\b(?:OK|X|CNS|GNS|TNS|NS|U)\b", line)]
    if not rows:
        return Check(name="p2p", ok=None, found="the driver does not tell whether GPUs reach each other")
    refused = sum(len(_NO_PEER.findall(line)) for line in rows)
    if not refused:
        return Check(name="p2p", ok=True, found="every GPU reaches every other")
    return Check(
        name="p2p",
        ok=False,
        found=f"{refused // 2 or 1} pairs of GPUs do not reach each other",
        fix="all data goes through the host: check IOMMU and ACS in the firmware, and the driver's options",
    )


def _joined(topology: Sequence[str]) -> Check:
    joined = " ".join(topology)
    kinds = [kind for kind in ("SYS", "NODE", "PHB", "PXB", "PIX") if re.search(rf"\b{kind}\b", joined)]
    links = sorted(set(re.findall(r"\bNV\d+\b", joined)))
    told = f"joined by {', '.join([*links, *kinds]) or 'nothing that is told'}"
    return Check(name="topology", ok=None if "SYS" in kinds else True, found=told)


def numa(topology: Sequence[str], gpus: Sequence[int]) -> Iterator[Check]:
    """At which NUMA nodes the GPUs lie, of a machine with several. ``topology``: what ``topo -m`` prints."""
    head, *rows = topology or ("",)
    after = 1 if head.endswith("GPU NUMA ID") else 0
    if "NUMA Affinity" not in head:
        return
    nodes: dict[str, list[str]] = {}
    lie: set[str] = set()
    for row in rows:
        name, *cells = row.split()
        if not re.fullmatch(r"GPU\d+", name) or len(cells) < after + 2:
            continue
        node = cells[-1 - after]
        lie.add(node)
        if int(name[3:]) in gpus and node.isdigit():
            nodes.setdefault(node, []).append(name[3:])
    if len(nodes) > 1:
        told = "; ".join(f"node {node}: gpu {', '.join(there)}" for node, there in sorted(nodes.items()))
        yield Check(
            name="numa", ok=None, found=f"GPUs lie at several nodes, between which data is slower: {told}"
        )
    elif nodes and len(lie) > 1:
        (node,) = nodes
        fix = f"numactl --cpunodebind={node} --membind={node}"
        yield Check(name="numa", ok=None, found=f"all at node {node} of several", fix=fix)


def _asked() -> tuple[list[list[str]], tuple[str, ...]]:
    """Whether each GPU is slowed down, by the driver's newer names or its older ones."""
    program = shutil.which(PROGRAM)
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        for prefix in ("clocks_event_reasons", "clocks_throttle_reasons") if program else ():
            fields = ",".join(f"{prefix}.{one}" for one in SLOWED)
            rows, trouble = query(str(program), f"--query-gpu=index,{fields}", Path(name), 5.0)
            if not trouble:
                return rows, SLOWED
    return [], SLOWED


def _peers() -> str:
    program = shutil.which(PROGRAM)
    if program is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        return ask(program, ["topo", "-p2p", "r"], Path(name), 5.0)[0]


def _host(gpus: int) -> Iterator[Check]:
    import psutil

    with suppress(OSError):
        if "microsoft" in Path("/proc/version").read_text("utf-8").lower():
            fix = "run under Linux itself: GPUs do not reach each other here, and memory is pinned otherwise"
            yield Check(name="wsl", ok=False, found="runs under WSL", fix=fix)
    memory = psutil.virtual_memory()
    limit = memory_limit()
    least = min(memory.available, limit) if limit else memory.available
    held = f", of which this container may have {limit / 1e9:.0f} GB" if limit else ""
    yield Check(
        name="memory",
        ok=None if least < 16e9 else True,
        found=f"{memory.available / 1e9:.0f} of {memory.total / 1e9:.0f} GB free{held}",
    )
    quota = cpu_quota()
    if quota is not None and quota < (os.cpu_count() or 1):
        found = f"this container may use {quota:g} of {os.cpu_count()} cores"
        yield Check(name="cores", ok=None, found=found)
    with suppress(OSError):
        shared = shutil.disk_usage("/dev/shm").total  # noqa: S108 - where shared memory lies
        small = gpus > 1 and shared < LEAST_SHARED
        found = f"{shared / 1e9:.1f} GB of shared memory"
        more = "start the container with --ipc=host or --shm-size" if small else None
        yield Check(name="shm", ok=not small, found=found, fix=more)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    few = 0 <= files < LEAST_FILES
    if few:
        fix = f"ulimit -n {LEAST_FILES}: under load each connection takes one"
        yield Check(name="files", ok=None, found=f"{files} open files allowed", fix=fix)


def memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that this container may have; None where nothing limits it."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            value = int((root / name).read_text("ascii"))
            return value if value < 1 << 60 else None
    return None


def cpu_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores that this container may use; None where nothing limits it."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (root / "cpu.max").read_text("ascii").split()[:2]
        return None if quota == "max" else int(quota) / int(period)
    return None


def _float(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _number(version: str) -> float:
    return float(version)
