"""The tool ``trace_viability``: what the sources of an environment say of one backend on one architecture."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from memory.architecture import parse_architecture
from memory.vocabulary import Contract, Effect, Row
from tools.base import ToolError, tool
from tools.environment.model import Environment
from tools.environment.store import open_environment
from tools.viability.analysis import Analysis, with_stack
from tools.viability.cache import TraceCache
from tools.viability.judge import Cell, Judgement

PARALLEL_FROM = 6
"""Cells below which a second process costs more than it brings."""


class TraceInput(Contract):
    """One cell, and the scenario it is judged under."""

    environment: str
    component: str
    backend: str
    arch: str
    engine: str = "sglang"
    model_classes: tuple[str, ...] = ()
    quantisation: str | None = None
    """The target's scheme, e.g. ``nvfp4``; components that have a scheme of their own ignore it."""
    scenario: dict[str, str] = Field(default_factory=dict)
    """Options of the engine set otherwise than by default, by field name."""


class Hop(Contract):
    """One step of the chain from the layer to the deciding line."""

    package: str
    version: str
    file: str
    line: int
    text: str
    says: str


class Trace(Contract):
    """The row, the chain behind it, and what was assumed or could not be followed."""

    row: Row
    hops: tuple[Hop, ...] = ()
    scenario: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()


@tool(effect=Effect.READS)
def trace_viability(args: TraceInput, context: Any) -> Trace:
    """Follow an engine's option value through the sources to the code that would run, and say what refuses it.

    The verdict is static: ``blocked`` is proven by the lines given as evidence, ``no_static_obstacle`` is not
    "works", ``unknown`` says why it could not be followed.
    """
    return trace_many(context, [args])[0]


def trace_many(context: Any, cells: list[TraceInput]) -> list[Trace]:
    """Many cells at once, in the order given: remembered ones from the cache, the rest on both cores."""
    results: dict[int, Trace] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    with TraceCache(context.home.source_index_db) as store:
        keys: list[str] = []
        environments: dict[str, Environment] = {}
        for index, cell in enumerate(cells):
            if cell.environment not in environments:
                environments[cell.environment] = open_environment(context.home, cell.environment)
            environment = environments[cell.environment]
            keys.append(_key(environment, cell))
            text = store.get(keys[index])
            if text is not None:
                results[index] = Trace.model_validate_json(text)
            else:
                groups.setdefault((cell.environment, cell.engine), []).append(index)
        for (name, engine), indices in groups.items():
            wanted = [cells[index] for index in indices]
            context.progress(f"reading {environments[name].name}: {len(wanted)} cells to follow")
            for index, trace in zip(indices, _analyse(environments[name], engine, wanted), strict=True):
                results[index] = trace
                store.put(keys[index], trace.model_dump_json())
    return [results[index] for index in range(len(cells))]


def _key(environment: Environment, cell: TraceInput) -> str:
    asked = cell.model_dump_json(exclude={"environment"})
    text = "\n".join([analyser_version(), environment.fingerprint, asked])
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def analyser_version() -> str:
    """Hash of the analyser's own sources: a changed analyser forgets what an older one said."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in (Path(__file__).parent, Path(__file__).parent.parent / "engines"):
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.toml")]):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _analyse(environment: Environment, engine: str, cells: list[TraceInput]) -> list[Trace]:
    try:
        analysis = Analysis(environment.tree(), engine)
    except KeyError:
        raise ToolError(
            f"no profile for the engine {engine!r}; known are those with a file in profiles/"
        ) from None
    if not (analysis.tree.root / analysis.profile.root).is_dir():
        held = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
        raise ToolError(f"{environment.name} holds no {engine}; it holds {held or 'nothing'}", missing=True)
    workers = min(os.cpu_count() or 1, len(cells) // PARALLEL_FROM, 4)
    if workers < 2 or sys.platform != "linux":
        return with_stack(lambda: [_one(analysis, environment, cell) for cell in cells])
    return _on_cores(analysis, environment, cells, workers)


def _on_cores(
    analysis: Analysis, environment: Environment, cells: list[TraceInput], workers: int
) -> list[Trace]:
    """Fork after discovery: the children share what is parsed. Cells of one component stay together, since
    they contrast with each other."""
    shares: list[list[int]] = [[] for _ in range(workers)]
    order = sorted(range(len(cells)), key=lambda i: (cells[i].component, cells[i].arch, i))
    size = -(-len(order) // workers)
    for number in range(workers):
        shares[number] = order[number * size : (number + 1) * size]
    fork = multiprocessing.get_context("fork")
    results: dict[int, Trace] = {}
    running = []
    for share in shares:
        receiver, sender = fork.Pipe(duplex=False)
        child = fork.Process(
            target=_child, args=(sender, analysis, environment, [cells[i] for i in share]), daemon=True
        )
        child.start()
        sender.close()
        running.append((share, child, receiver))
    for share, child, receiver in running:
        try:
            texts = receiver.recv()
        except EOFError:
            texts = None
        receiver.close()
        child.join()
        if texts is None:  # the child died: do its share here
            redone = with_stack(lambda share=share: [_one(analysis, environment, cells[i]) for i in share])
            results.update(zip(share, redone, strict=True))
        else:
            results.update(zip(share, (Trace.model_validate_json(text) for text in texts), strict=True))
    return [results[index] for index in range(len(cells))]


def _child(sender: Any, analysis: Analysis, environment: Environment, cells: list[TraceInput]) -> None:
    sender.send(with_stack(lambda: [_one(analysis, environment, cell).model_dump_json() for cell in cells]))
    sender.close()


def _one(analysis: Analysis, environment: Environment, cell: TraceInput) -> Trace:
    arch = parse_architecture(cell.arch)
    scenario = analysis.scenario(cell.component, cell.quantisation, cell.scenario)
    judged = analysis.judge(Cell(cell.component, cell.backend, (arch.major, arch.minor)), scenario)
    return Trace(row=judged.row, hops=_hops(analysis, judged), scenario=scenario, notes=tuple(judged.notes))


def _hops(analysis: Analysis, judged: Judgement) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    for site, says in judged.hops:
        if not site.file:
            continue
        package, version = analysis.tree.owner(site.file)
        text = analysis.tree.lines(site.file)[site.line - 1].strip()
        hops.append(
            Hop(package=package, version=version, file=site.file, line=site.line, text=text, says=says)
        )
    return tuple(hops)
