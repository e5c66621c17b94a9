"""The tool ``trace_viability``: what the sources of an environment say of one backend on one architecture."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field, ValidationError

from memory.architecture import ArchitectureError, parse_architecture
from memory.names import few
from memory.program import program_version
from memory.vocabulary import Contract, Effect, Row
from tools.base import ToolError, tool
from tools.environment.model import Environment
from tools.environment.store import open_for
from tools.viability.cache import TraceCache
from tools.viability.cell import Cell, Judgement
from tools.viability.checkpoint import read_checkpoint
from tools.viability.claims import Claim, claims
from tools.viability.profile import engines
from tools.viability.unblock import Opening, openings
from tools.viability.undecided import unknown

if TYPE_CHECKING:
    from tools.viability.analysis import Analysis


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
    checkpoint: str | None = None
    """The text of the model's ``config.json``: cells are judged for the sizes of its own layers."""
    tp: int | None = Field(default=None, ge=1, le=1024)
    """Over how many ranks tensors are divided (tensor parallelism)."""


class ExplainInput(TraceInput):
    """One cell, of which more is asked than its verdict."""

    openings: bool = True
    """What would open the gate that refuses it."""
    claims: bool = True
    """What is said of it beside the gates."""


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
    left: str | None = None
    """What start-up takes for the model's class where the component's option is not set."""
    openings: tuple[Opening, ...] = ()
    """What would open the gate that refuses, where that was asked for."""
    claims: tuple[Claim, ...] = ()
    """What comments, documentation, messages and tests say; they decide nothing."""


@tool(effect=Effect.READS, alone=True)
def trace_viability(args: TraceInput, context: Any) -> Trace:
    """Follow an engine's option value through the sources to the code that would run; say what refuses it.

    The verdict is static: ``blocked`` is proven by the lines given as evidence, ``no_static_obstacle`` is not
    "works", ``unknown`` says why it could not be followed.
    """
    with closing(trace_many(context, [args])) as traces:
        return next(traces)


def trace_many(context: Any, cells: Sequence[TraceInput], *, anew: bool = False) -> Generator[Trace]:
    """Many cells at once, in the order given: remembered ones from the cache, the rest on all cores.

    Each is given as soon as it and those before it are done, and remembered as soon as it is done itself, so
    that what was interrupted goes on there. A cell whose environment, engine or architecture does not exist
    raises ``ToolError`` when its turn comes. ``anew``: nothing that is remembered counts. Close the generator
    (or exhaust it) to end the workers.
    """
    results: dict[int, Trace] = {}
    given = 0

    def ready() -> Iterator[Trace]:
        nonlocal given
        while given in results:
            given += 1
            yield results.pop(given - 1)

    with TraceCache(context.home.source_index_db, context.progress) as store:
        keys: list[str] = []
        environments: dict[str, Environment] = {}
        groups: dict[tuple[str, str], list[int]] = {}
        wrong: ToolError | None = None
        for index, cell in enumerate(cells):
            try:
                _check_arch(cell.arch)
                if cell.environment not in environments:
                    environments[cell.environment] = open_for(context, cell.environment)
            except ToolError as error:
                wrong = error
                break
            keys.append(trace_key(environments[cell.environment], cell))
            if not anew and (known := _remembered(store, keys[index])):
                results[index] = known
            else:
                groups.setdefault((cell.environment, cell.engine), []).append(index)
        yield from ready()
        for (name, engine), indices in groups.items():
            wanted = [cells[index] for index in indices]
            context.progress(f"reading {environments[name].name}: {len(wanted)} cells to follow")
            with closing(_followed(environments[name], engine, wanted, context.progress)) as followed:
                for place, done in followed:
                    results[indices[place]] = Trace.model_validate_json(done.text)
                    if done.sure:
                        store.put(keys[indices[place]], done.text)
                    yield from ready()
        if wrong is not None:
            raise wrong


def _check_arch(name: str) -> None:
    try:
        parse_architecture(name)
    except ArchitectureError as error:
        raise ToolError(str(error)) from error


def _remembered(store: TraceCache, key: str) -> Trace | None:
    text = store.get(key)
    try:
        return Trace.model_validate_json(text) if text is not None else None
    except ValidationError:
        return None


def trace_key(environment: Environment, cell: TraceInput) -> str:
    """Under which a cell is remembered: what it was asked, of which packages, and by which analyser."""
    asked = cell.model_dump_json(exclude={"environment"})
    text = "\n".join([analyser_version(), environment.fingerprint, asked])
    return hashlib.sha256(text.encode()).hexdigest()


def analyser_version() -> str:
    """A changed analyser forgets what an older one said; so it does where what it stands on was changed."""
    return program_version("memory", "tools")


class _Done(NamedTuple):
    """A trace as JSON, and whether it would come out so again: an accident of ours is not remembered."""

    text: str
    sure: bool


def _followed(
    environment: Environment, engine: str, cells: list[TraceInput], tell: Callable[[str], None]
) -> Generator[tuple[int, _Done]]:
    """``(place in cells, result)`` as they are done."""
    from tools.viability.analysis import Analysis  # 5 MB that nobody needs who only looks up what is kept
    from tools.viability.batch import follow

    if engine not in engines():
        raise ToolError(
            f"no profile for the engine {engine!r}; there are profiles for {', '.join(engines())}"
        )
    analysis = Analysis(environment.tree(), engine)
    if not (analysis.tree.root / analysis.profile.root).is_dir():
        held = few([f"{name} {version}" for name, version in environment.packages.items()])
        raise ToolError(f"{environment.name} holds no {engine}; it holds {held or 'nothing'}", missing=True)
    with _no_collection():
        analysis.prepare()
    yield from follow(
        [(cell.component, cell.arch) for cell in cells],
        lambda place: _one(analysis, cells[place]),
        lambda place, why: _failed(cells[place], why),
        tell,
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """What is parsed stays: to look through it for garbage while it grows takes longer than to parse it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _one(analysis: Analysis, cell: TraceInput) -> _Done:
    """The trace of one cell, come what may."""
    try:
        arch = parse_architecture(cell.arch)
        scenario, models = _scenario(analysis, cell)
        question = Cell(cell.component, cell.backend, (arch.major, arch.minor))
        judged = analysis.judge(question, scenario, models)
        hops = _hops(analysis, judged)
        opening: tuple[Opening, ...] = ()
        claimed: tuple[Claim, ...] = ()
        if isinstance(cell, ExplainInput) and cell.claims:
            claimed = claims(analysis, question, judged)
        if isinstance(cell, ExplainInput) and cell.openings:
            opening = openings(analysis, question, {**scenario, **judged.under}, models, judged)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in us must not take the batch down
        return _failed(cell, f"{type(error).__name__}: {error}")
    trace = Trace(
        row=judged.row,
        hops=hops,
        scenario={**scenario, **judged.under, **({"layer": judged.place} if judged.place else {})},
        notes=tuple(judged.notes),
        left=analysis.left(question, scenario, models),
        openings=opening,
        claims=claimed,
    )
    return _Done(trace.model_dump_json(), True)


def _scenario(analysis: Analysis, cell: TraceInput) -> tuple[dict[str, str], tuple[str, ...]]:
    """What a cell is judged under, and the model's classes: as asked, else as the model's config says."""
    checkpoint = read_checkpoint(cell.checkpoint, "checkpoint") if cell.checkpoint is not None else None
    scheme, models = cell.quantisation, cell.model_classes
    if checkpoint is not None:
        scheme, models = scheme or checkpoint.scheme(), models or checkpoint.classes
    scenario = analysis.scenario(cell.component, scheme, cell.scenario)
    return {**scenario, **analysis.sizes.scenario(checkpoint, cell.tp)}, models


def _failed(cell: TraceInput, why: str) -> _Done:
    arch = parse_architecture(cell.arch)
    question = Cell(cell.component, cell.backend, (arch.major, arch.minor))
    judged = unknown(question, f"the analyser failed here: {why}")
    return _Done(Trace(row=judged.row, notes=tuple(judged.notes)).model_dump_json(), False)


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
