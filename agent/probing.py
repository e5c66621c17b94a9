"""The rungs of single kernels, where ``--run probes`` was said: planned, compiled, then run on a GPU.

Which cells test a hypothesis is planned by a tool, from the functions on the way that its trace found. A
failure refutes; what failed low is not tried high; what ran right on a GPU is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent.board import Board
from agent.loop import Call
from agent.measured import SILENT
from agent.rungs import Reading
from memory.architecture import ArchitectureError, parse_architecture
from memory.vocabulary import HypothesisState, Level, Observed, Outcome, Verdict
from tools.probe.reaching import names_on
from transcripts.events import Called, HypothesisChanged, Returned

PROBES, SERVERS, BENCHMARKS = "probes", "servers", "benchmarks"
RUNS = (PROBES, SERVERS, BENCHMARKS)
"""What ``--run`` may ask for, each with all before it."""
PLAN, GPUS = "plan_probes", "gpu_status"
_REFUSES = {Outcome.UNSUPPORTED, Outcome.COMPILE_FAILED}
"""What refutes without a GPU: how a compiler ends otherwise says something of this machine."""
MACHINE = {*SILENT, Outcome.OUT_OF_MEMORY}
"""Outcomes of a kernel that say nothing of it."""


def asked_to(board: Board, what: str) -> bool:
    """Whether the person asked to run ``what``, or what is dearer."""
    run = board.opened.options.get("run") if board.opened else None
    return run in RUNS[RUNS.index(what) :]


class Planning:
    """Which cells would test which hypotheses, and on what. Says nothing of any."""

    name = "probe plan"
    level = Level.STATIC

    def applicable(self, board: Board, hypothesis: HypothesisChanged) -> bool:
        if not asked_to(board, PROBES) or not _reached(board, hypothesis):
            return False
        return not board.results(PLAN) or not board.results(GPUS)

    def cost(self) -> float:
        return 0.1

    def calls(self, board: Board, hypotheses: Sequence[HypothesisChanged]) -> list[Call]:
        assert board.understood is not None, "a hypothesis is opened only for an understood target"
        target = board.understood.target
        given: dict[str, object] = {
            "environment": board.understood.environment,
            "arch": target.arch,
            "quantisation": target.quantisation,
            "reached": [_reached(board, one) for one in hypotheses],
        }
        return [
            Call(PLAN, given, why="which kernels the backends lead to", rung=self.name),
            Call(GPUS, {}, why="what there is to run them on", rung=self.name),
        ]

    def read(self, board: Board, hypothesis: HypothesisChanged, returned: Returned) -> Reading | None:
        return None


class _Cells:
    """Cells of one kind, tried by one tool, each for the hypothesis that it was planned for."""

    name: str
    level: Level
    tool: str
    kind: str
    minutes: float
    refutes: frozenset[Outcome]

    def ready(self, board: Board) -> bool:
        """Whether there is what they need."""
        raise NotImplementedError

    def applicable(self, board: Board, hypothesis: HypothesisChanged) -> bool:
        if not asked_to(board, PROBES) or hypothesis.state is HypothesisState.REFUTED:
            return False
        return self.ready(board) and any(self._untried(board, hypothesis))

    def cost(self) -> float:
        return self.minutes

    def calls(self, board: Board, hypotheses: Sequence[HypothesisChanged]) -> list[Call]:
        """One for each cell, however many hypotheses it tests; only of one is it the call's own."""
        tested: dict[str, list[str]] = {}
        inputs: dict[str, dict[str, object]] = {}
        for one in hypotheses:
            for given in self._untried(board, one):
                cell = str(given["cell"])
                inputs[cell] = given
                tested.setdefault(cell, []).append(one.id)
        return [
            Call(
                self.tool,
                inputs[cell],
                why=f"what comes of {cell}",
                rung=self.name,
                hypothesis=subjects[0] if len(subjects) == 1 else None,
            )
            for cell, subjects in tested.items()
        ]

    def _untried(self, board: Board, hypothesis: HypothesisChanged) -> Iterator[dict[str, object]]:
        """The inputs of calls that are not made, or were stopped."""
        for one in planned(board, self.kind):
            given = self.input(board, one)
            mine = (one["component"], one["backend"]) == (hypothesis.component, hypothesis.backend)
            if mine and not board.answered(self.tool, given):
                yield given

    def input(self, board: Board, one: dict[str, Any]) -> dict[str, object]:
        assert board.understood is not None
        return {"environment": board.understood.environment, "plan": one["plan"], "cell": one["cell"]}

    def read(self, board: Board, hypothesis: HypothesisChanged, returned: Returned) -> Reading | None:
        output = board.output(returned.call)
        if not isinstance(output, dict):
            return None
        outcome = Outcome(output["outcome"])
        failed = outcome in self.refutes
        # Of several cells the one that failed counts.
        if (outcome is not Outcome.OK and not failed) or hypothesis.state is HypothesisState.REFUTED:
            return None
        if output["arch"] != hypothesis.arch:
            return None  # another GPU of this machine was free
        observed = Observed(level=Level(output["level"]), outcome=outcome, experiment=returned.call)
        state = HypothesisState.REFUTED if failed else self.passed(hypothesis.state)
        row = hypothesis.row
        assert row is not None, "only what was traced is planned"
        words = f"{output['cell']['id']}: {outcome.value.replace('_', ' ')}, {output['because']}"
        return Reading(state, words, row.model_copy(update={"observed": observed, "state": state}))

    def passed(self, state: HypothesisState) -> HypothesisState:
        """The state after a success."""
        return state


class Compiling(_Cells):
    """Modules that libraries would compile when they run, compiled now: a refusal needs no GPU."""

    name = "compile"
    level = Level.COMPILE
    tool = "probe_compile"
    kind = "compile"
    minutes = 2.0
    refutes = frozenset(_REFUSES)

    def ready(self, board: Board) -> bool:
        plan = board.output_of(PLAN) or {}
        return bool(plan.get("full") and plan.get("compiler"))


class Kernels(_Cells):
    """Kernels, alone, on a GPU of the architecture that was asked about."""

    name = "kernel probe"
    level = Level.PROBE
    tool = "probe_kernel"
    kind = "kernel"
    minutes = 0.5
    refutes = frozenset(set(Outcome) - MACHINE - {Outcome.OK})

    def ready(self, board: Board) -> bool:
        plan = board.output_of(PLAN) or {}
        return bool(plan.get("full")) and minutes_of(board) is not None and gpu_of(board) is not None

    def input(self, board: Board, one: dict[str, Any]) -> dict[str, object]:
        options = board.opened.options if board.opened else {}
        limits = {"gpu": options.get("gpu"), "minutes": minutes_of(board)}
        return super().input(board, one) | {key: value for key, value in limits.items() if value is not None}

    def passed(self, state: HypothesisState) -> HypothesisState:
        # Where reading lost the way it is not sure that this kernel is what the engine would run.
        return HypothesisState.CONFIRMED if state is HypothesisState.PREDICTED else state


def planned(board: Board, kind: str) -> list[dict[str, Any]]:
    """Probes of a kind, as ``plan_probes`` gave them."""
    plan = board.output_of(PLAN) or {}
    return [one for one in plan.get("probes", ()) if one["kind"] == kind]


def minutes_of(board: Board) -> float | None:
    minutes = board.opened.options.get("gpu_minutes") if board.opened else None
    return float(minutes) if minutes is not None else None


def gpu_of(board: Board) -> str | None:
    """The name of a GPU here that is of the architecture that was asked about."""
    status = board.output_of(GPUS) or {}
    arch = board.understood.target.arch if board.understood else None
    for gpu in status.get("gpus", ()):
        try:
            if parse_architecture(str(gpu["compute_capability"])).base.name == arch:
                return str(gpu["name"])
        except ArchitectureError:
            continue
    return None


def _reached(board: Board, hypothesis: HypothesisChanged) -> dict[str, object] | None:
    """What a trace that nothing stopped says of the way: the functions on it. None where there is none."""
    row = hypothesis.row
    traced = board.tested(hypothesis.id, "trace_viability")
    if row is None or traced is None or row.verdict not in (Verdict.NO_STATIC_OBSTACLE, Verdict.UNKNOWN):
        return None
    output = board.output(traced)
    names = names_on(output) if isinstance(output, dict) else ()
    if not names:
        return None
    subject: dict[str, object] = {"component": hypothesis.component, "backend": hypothesis.backend}
    runs = {"runs": row.runs_instead} if row.runs_instead else {}
    return {**subject, **runs, "names": list(names)}


def subjects(board: Board, called: Called) -> list[HypothesisChanged]:
    """The hypotheses that a call tests: its own, else those that its cell was planned for, or those of the
    backends that a server was launched with."""
    if called.hypothesis is not None:
        found = board.hypotheses.get(called.hypothesis)
        return [] if found is None else [found]
    if pairs := (called.input.get("settings") or {}).get("backends"):
        return [one for one in board.hypotheses.values() if pairs.get(one.component) == one.backend]
    cell = (called.input.get("plan"), called.input.get("cell"))
    plan = board.output_of(PLAN) if all(cell) else None
    meant = {
        (one["component"], one["backend"])
        for one in (plan or {}).get("probes", ())
        if (one["plan"], one["cell"]) == cell
    }
    return [one for one in board.hypotheses.values() if (one.component, one.backend) in meant]
