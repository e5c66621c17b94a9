"""``try_server``: one launch for all questions. Does it start, is it what was asked for, is it right?

The server is started, asked, and ended within the call; nothing of it is left. The first step that fails is
the last: what does not start is not checked.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory.architecture import ArchitectureError, parse_architecture
from memory.artifacts import Artifacts
from memory.terms import Level, Outcome
from memory.vocabulary import Effect
from tools.base import ToolContext, tool
from tools.benchmark.generator import generator_of
from tools.benchmark.loads import Loads, measured
from tools.benchmark.server import interpreter_of
from tools.environment.store import open_for
from tools.errors import ToolError
from tools.hardware.audit import audit
from tools.hardware.gpu import Gpu
from tools.quality.checked import Checked, CheckServer
from tools.quality.gate import check_server, stored_run
from tools.server.failure import Failure
from tools.server.fit import GIB, longest, will_it_fit
from tools.server.gpus import choose_gpus
from tools.server.plan import Plan, plan_launch
from tools.server.ready import StartError
from tools.server.settings import ServerSettings
from tools.server.shrink import made_up, shrunk
from tools.server.start import Server, launched
from tools.server.trial import Launched, TryServer
from tools.server.used import traced_kernels, used_backends
from tools.server.watch import Patience
from tools.source.tree import read_head
from tools.stopping import pause

LOG_LIMIT = 16 << 20
"""Bytes of a log that are kept, its beginning: the first traceback counts."""
CHECK, LEAST = 15.0, 1e-3
"""Minutes for a check; of whatever is left."""
MARGIN = 64
"""Tokens that a template or a tokenizer may add to a prompt."""
SETTLE = 30.0
"""Seconds in which a server that broke its connections may still write why, and end."""


@tool(effect=Effect.USES_GPU, alone=True)
def try_server(args: TryServer, context: ToolContext) -> Launched:
    """Launch a server, see what it really runs, ask whether its answers are right, and end all of it."""
    model = Path(args.settings.model)
    settings = args.settings
    if args.layers is not None:
        made = shrunk(model, args.layers, context.home)
        settings = settings.model_copy(update={"model": str(made.folder), "load_format": "dummy"})
    on_cpu = settings.device == "cpu"
    gpus = () if on_cpu else choose_gpus(args.gpus, settings.tensor_parallel)
    interpreter = interpreter_of(context)
    plan = plan_launch(
        context.home,
        open_for(context, args.environment),
        settings,
        python=interpreter[0],
        site=interpreter[1],
    )
    _fits(settings, gpus)
    if args.loads is not None:
        _takes(settings, args.loads)  # before a model is loaded for what it cannot do
        generator_of(plan.environment, settings.engine)
    if args.reference_run is not None:
        stored_run(context.home, args.reference_run)
    looked = audit([gpu.uuid for gpu in gpus], plan.versions) if gpus else []
    held = [one for one in looked if one.ok is not True]
    trial = _Trial(args, context, plan, gpus, {"machine": tuple(f"{one.name}: {one.found}" for one in held)})
    for said in trial.found["machine"]:
        context.progress(said)
    return trial.run()


ELSEWHERE = re.compile(r"offload|pipeline|^pp\b")
"""Names of options that put weights somewhere else than on a rank's own GPU."""


def _fits(settings: ServerSettings, gpus: Sequence[Gpu]) -> None:
    """Raises :class:`ToolError` where weights that all lie on a rank's GPU are more than it has."""
    if any(ELSEWHERE.search(name) for name in settings.options):
        return
    sizes = [gpu.memory_total_mib << 20 for gpu in gpus if gpu.memory_total_mib]
    fit = will_it_fit(settings, min(sizes)) if sizes else None
    if fit is not None and fit.weights > min(sizes):
        raise ToolError(
            f"it does not fit: weights of {fit.weights / GIB:.2f} GiB for each GPU, which has "
            f"{min(sizes) / GIB:.2f} GiB; divide it over more of them (--tp), or take a smaller one"
        )


def _takes(settings: ServerSettings, loads: Loads) -> None:
    """Raises :class:`ToolError` where a request of the loads is longer than the model takes."""
    most = longest(settings)
    if most is not None and loads.input + loads.output > most:
        raise ToolError(
            f"requests of {loads.input}+{loads.output} tokens are longer than the {most} that the "
            "server takes; ask for shorter ones (--input, --output)"
        )


@dataclass
class _Asking:
    """What the gate is given: the same context, and the address of this server with its key."""

    context: ToolContext
    servers: Mapping[str, str]

    @property
    def home(self) -> Any:
        return self.context.home

    def progress(self, text: str) -> None:
        self.context.progress(text)


@dataclass
class _Trial:
    args: TryServer
    context: ToolContext
    plan: Plan
    gpus: Sequence[Gpu]
    found: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def run(self) -> Launched:
        server: Server | None = None
        patience = Patience(longest=60 * self._minutes(self.args.minutes))
        uuids = [gpu.uuid for gpu in self.gpus]
        try:
            with launched(
                self.plan, self.context.home, self.context.progress, gpus=uuids, patience=patience
            ) as server:
                try:
                    outcome, because, level = self._asked(server)
                except ToolError as error:
                    outcome, because, level = self._lost(server, str(error))
        except StartError as error:
            self.found |= {"failure": error.failure, "phases": error.phases}
            self.found["log"] = self._kept(error.log)
            return self._result(error.failure.outcome, error.failure.because, Level.SERVER)
        self.found["log"] = self._kept(server.log)
        if server.ended is not None:
            self.found |= {"ended_seconds": server.ended.seconds, "left": server.ended.left}
        self.found["memory_left"] = server.memory_left
        return self._result(outcome, because, level)

    def _minutes(self, most: float) -> float:
        """``most``, or what is left for all."""
        if self.args.in_all is None:
            return most
        return min(most, max(self.args.in_all - (time.monotonic() - self.began) / 60, LEAST))

    def _asked(self, server: Server) -> tuple[Outcome, str, Level]:
        """What is seen of a server that is ready."""
        kernels = traced_kernels(server)
        used = used_backends(server, kernels)
        self.found |= {"ready_seconds": server.ready_seconds, "phases": server.phases}
        self.found |= {"used": used, "kernels": kernels[:400]}
        if other := [one for one in used if one.substituted]:
            told = "; ".join(
                f"{one.component}: {one.asked} was asked for, {one.backend} runs" for one in other
            )
            return Outcome.SUBSTITUTED, f"{told} (by its {other[0].witness})", Level.SERVER
        if self.args.concurrency:
            return self._checked(server)
        return Outcome.OK, f"ready in {server.ready_seconds:.1f} s, gives tokens", Level.SERVER

    def _checked(self, server: Server) -> tuple[Outcome, str, Level]:
        args = self.args
        asked = CheckServer(
            url=server.base_url,
            model=server.model,
            reference_run=args.reference_run,
            concurrency=args.concurrency,
            rounds=args.rounds,
            questions=args.questions,
            random_weights=args.random_weights
            or made_up(Path(self.plan.settings.model))
            or args.settings.load_format == "dummy",
            engine=server.engine,
            environment=args.environment,
            minutes=self._minutes(CHECK),
        )
        checked = check_server.run(asked, _Asking(self.context, {server.base_url: server.api_key}))
        assert isinstance(checked, Checked)
        self.found["checked"] = checked
        failure = _ended(server, checked.outcome)
        if failure is not None:
            self.found["failure"] = failure
            return failure.outcome, failure.because, checked.level
        if checked.outcome is not Outcome.OK or args.loads is None:
            return checked.outcome, checked.because, checked.level
        return self._measured(server, args.loads)

    def _measured(self, server: Server, loads: Loads) -> tuple[Outcome, str, Level]:
        """What the engine's own load generator finds. Only what has passed the gate comes here."""
        settings, model = self.args.settings, Path(self.plan.settings.model)
        own = str(model) if model.is_dir() else settings.model
        seen = measured(
            loads.model_copy(
                update={
                    "tokenizer": loads.tokenizer or own,
                    "minutes": self._minutes(loads.minutes),
                    "long": self._long(loads),
                }
            ),
            home=self.context.home,
            environment=self.plan.environment,
            engine=server.engine,
            url=server.base_url,
            model=server.model,
            key=server.api_key,
            python=self.plan.python,
            site=interpreter_of(self.context)[1],
            tell=self.context.progress,
        )
        self.found["benchmark"] = seen
        failure = _ended(server, seen.outcome)
        if failure is not None:
            self.found["failure"] = failure
            return failure.outcome, failure.because, Level.BENCHMARK
        if seen.outcome is Outcome.NOT_RUN:
            return self._unsaid(seen.because)
        return seen.outcome, seen.because, Level.BENCHMARK

    def _lost(self, server: Server, why: str) -> tuple[Outcome, str, Level]:
        """What is told where asking it came to nothing: of what it ended, if it did."""
        failure = _ended(server, Outcome.OK if _listens(server) else Outcome.CRASHED)
        if failure is None:
            return self._unsaid(why)
        self.found["failure"] = failure
        level = Level.BENCHMARK if "checked" in self.found else Level.SERVER
        return failure.outcome, failure.because, level

    def _unsaid(self, why: str) -> tuple[Outcome, str, Level]:
        """What is told of a server that lives, and was not checked or not measured: what was seen before."""
        checked: Checked | None = self.found.get("checked")
        if checked is None:
            return Outcome.NOT_RUN, f"not checked: {why}", Level.SERVER
        return checked.outcome, f"not measured: {why}; {checked.because}", checked.level

    def _long(self, loads: Loads) -> int | None:
        """Tokens of the long load: no more than the model takes, none where that is not long."""
        fit = will_it_fit(self.args.settings, None)
        if loads.long is None or fit is None or fit.context is None:
            return loads.long
        room = fit.context - loads.output - MARGIN
        return min(loads.long, room) if room >= 2 * loads.input else None

    def _kept(self, log: Path) -> str | None:
        """The log as an artifact; its folder goes."""
        try:
            kept = Artifacts(self.context.home.artifacts).put(read_head(log, LOG_LIMIT).encode())
        except OSError:
            return None
        shutil.rmtree(log.parent, ignore_errors=True)
        return kept

    def _result(self, outcome: Outcome, because: str, level: Level) -> Launched:
        first = self.gpus[0] if self.gpus else None
        settings = self.args.settings
        return Launched(
            outcome=outcome,
            because=because,
            level=level,
            engine=settings.engine,
            versions=self.plan.versions,
            model=settings.model,
            layers=self.args.layers,
            asked=dict(self.plan.asked),
            options={name: str(value) for name, value in settings.options.items()},
            command=tuple(self.plan.command("PORT", None)),
            arch=_arch(first),
            gpu=first.name if first else None,
            gpu_count=len(self.gpus) or None,
            driver=first.driver if first else None,
            seconds=round(time.monotonic() - self.began, 3),
            **self.found,
        )


def _ended(server: Server, outcome: Outcome) -> Failure | None:
    """Why the server ended. Its connections end before it does: of one that crashed the end is waited for."""
    until = time.monotonic() + (SETTLE if outcome is Outcome.CRASHED else 0.0)
    while server.alive() and time.monotonic() < until:
        pause(0.1)
    return server.failure()


def _listens(server: Server) -> bool:
    try:
        server.ask("/v1/models", seconds=SETTLE)
    except (OSError, ToolError):
        return False
    return True


def _arch(gpu: Gpu | None) -> str | None:
    try:
        return parse_architecture(gpu.compute_capability or "").base.name if gpu else None
    except ArchitectureError:
        return None
