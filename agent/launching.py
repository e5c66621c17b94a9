"""The rungs of whole servers, where ``--run servers`` was said: a shrunk model first, then the model itself.

A shrunk model with made-up weights finds in a minute what a launch fails of; it confirms nothing. Then the
recommended backends are launched together, and each of the others in its component's place. One launch at a
time: what shares the cause of a failure is not launched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.board import Board
from agent.drivers.ground import declared
from agent.loop import Call
from agent.measured import SILENT
from agent.probing import BENCHMARKS, SERVERS, asked_to
from agent.recommend import choose
from agent.relevance import relevant
from agent.rungs import Reading
from agent.trials import Pairs, Ran, blamed, named, spared
from memory.vocabulary import HypothesisState, Level, Observed, Outcome, Verdict
from tools.benchmark.comparing import side_of, winners
from transcripts.events import HypothesisChanged, Returned

TOOL = "try_server"
LAYERS = 4
"""Of a shrunk model."""
MOST = 12
"""Launches of the model itself."""
MINUTES = {True: 2.0, False: 20.0}
"""What a launch takes, roughly, of a shrunk model and of a whole one."""


class _Launches:
    """Launches of one kind, each a call of ``try_server``."""

    name: str
    level = Level.SERVER
    shrunk: bool

    def wanted(self, board: Board) -> Iterator[Pairs]:
        """What is worth launching now, in order; it may have been launched."""
        raise NotImplementedError

    def next(self, board: Board) -> dict[str, object] | None:
        """The input of the next launch; None where there is none left."""
        if not asked_to(board, SERVERS) or model_of(board) is None:
            return None
        ran = launches(board, shrunk=self.shrunk)
        tried = _tried(board, shrunk=self.shrunk)
        if any(status != "ok" for _, status in tried) or (not self.shrunk and len(tried) >= MOST):
            return None
        for pairs in self.wanted(board):
            if pairs not in [made for made, _ in tried] and not spared(pairs, ran):
                return self.input(board, pairs)
        return None

    def applicable(self, board: Board, hypothesis: HypothesisChanged) -> bool:
        return hypothesis.row is not None and self.next(board) is not None

    def cost(self) -> float:
        return MINUTES[self.shrunk]

    def calls(self, board: Board, hypotheses: Sequence[HypothesisChanged]) -> list[Call]:
        given = self.next(board)
        if given is None:
            return []
        settings: Any = given["settings"]
        pairs = settings["backends"]
        subjects = [one.id for one in board.hypotheses.values() if pairs.get(one.component) == one.backend]
        why = f"does {named(pairs)} serve" + (", shrunk" if self.shrunk else "")
        return [
            Call(TOOL, given, why=why, rung=self.name, hypothesis=subjects[0] if len(subjects) == 1 else None)
        ]

    def input(self, board: Board, pairs: Pairs) -> dict[str, object]:
        assert board.understood is not None
        assert board.opened is not None
        options, target = board.opened.options, board.understood.target
        settings: dict[str, object] = {"model": options["serve"], "engine": target.engine, "backends": pairs}
        if target.gpu_count is not None:
            settings["tensor_parallel"] = 1 if self.shrunk else target.gpu_count
        given: dict[str, object] = {"environment": board.understood.environment, "settings": settings}
        if options.get("gpu"):
            given["gpus"] = [options["gpu"]]
        return given

    def read(self, board: Board, hypothesis: HypothesisChanged, returned: Returned) -> Reading | None:
        ran = launches(board, shrunk=self.shrunk)
        one = next((one for one in ran if one.call == returned.call), None)
        if one is None or hypothesis.row is None or one.outcome in SILENT - {Outcome.IMPORT_FAILED}:
            return None
        if one.output.get("arch") != hypothesis.arch:
            return None  # another GPU of this machine was free
        mine = {hypothesis.component: hypothesis.backend}
        if one.ok:
            if self.shrunk or hypothesis.state is HypothesisState.REFUTED:
                return None
            state = HypothesisState.CONFIRMED
        elif blamed(one, ran) == mine:
            state = HypothesisState.REFUTED
        else:
            return None
        observed = Observed(level=Level(one.output["level"]), outcome=one.outcome, experiment=one.call)
        how = "shrunk " if self.shrunk else ""
        words = f"{how}server: {one.outcome.value.replace('_', ' ')}, {one.output['because']}"
        row = hypothesis.row.model_copy(update={"observed": observed, "state": state})
        return Reading(state, words, row)


class Shrunk(_Launches):
    """A few layers of the model with made-up weights, on one GPU: once as the engine chooses, then with each
    backend that is left."""

    name = "shrunk server"
    shrunk = True

    def wanted(self, board: Board) -> Iterator[Pairs]:
        yield {}
        for one in board.hypotheses.values():
            if _left(one):
                yield {one.component: one.backend}

    def input(self, board: Board, pairs: Pairs) -> dict[str, object]:
        return super().input(board, pairs) | {"layers": LAYERS, "rounds": 1, "questions": 0}


class Whole(_Launches):
    """The model itself: the recommended backends together, then each other one in its place."""

    name = "server"
    shrunk = False

    def wanted(self, board: Board) -> Iterator[Pairs]:
        if not any(one.ok for one in launches(board, shrunk=True)):
            return  # what does not start with four layers does not with all
        base = _base(board)
        yield base
        for one in board.hypotheses.values():
            if _left(one):
                yield {**base, one.component: one.backend}

    def input(self, board: Board, pairs: Pairs) -> dict[str, object]:
        given = super().input(board, pairs) | {"questions": 200}
        reference = next(
            (run for one in launches(board, shrunk=False) if one.ok and (run := _run(one)) is not None), None
        )
        # The first that is right is what the others are compared with.
        if reference is not None and pairs != _base(board):
            given["reference_run"] = reference
        if asked_to(board, BENCHMARKS):
            given["loads"] = {}
        return given


def model_of(board: Board) -> str | None:
    """The folder or name of the model that is to be served."""
    given = board.opened.options.get("serve") if board.opened else None
    return str(given) if given else None


def launches(board: Board, *, shrunk: bool) -> list[Ran]:
    """Those of a kind that came to an end, in order."""
    found: list[Ran] = []
    for called, _ in board.results(TOOL):
        output = board.output(called.call)
        if called.rung and isinstance(output, dict) and (called.input.get("layers") is not None) == shrunk:
            pairs = dict(called.input["settings"].get("backends", {}))
            found.append(Ran(called.call, len(found), pairs, output))
    return found


def _tried(board: Board, *, shrunk: bool) -> list[tuple[Pairs, str]]:
    """The backends of each launch that came to an end, and how the call did."""
    return [
        (dict(called.input["settings"].get("backends", {})), returned.status)
        for called, returned in board.results(TOOL)
        if called.rung and (called.input.get("layers") is not None) == shrunk
    ]


def halted(board: Board) -> tuple[str, int, str] | None:
    """Why it cannot end with an answer alone: launches that were asked for were not tried, or all failed."""
    for called, returned in board.results(TOOL):
        if called.rung and returned.status in ("denied", "error"):
            lacks = isinstance(returned.output, dict) and returned.output.get("missing")
            why = returned.error or f"{TOOL} gave no result"
            if returned.status == "denied":
                why = f"{why}; go on with: agent resume --run {SERVERS}"
            return ("missing", 3, why) if lacks else ("stopped", 4, why)
    made = [*launches(board, shrunk=True), *launches(board, shrunk=False)]
    if made and not right(board):
        last = next((one for one in reversed(made) if not one.ok), made[-1])
        why = f"{named(last.pairs)}: {last.outcome.value.replace('_', ' ')}, {last.output['because']}"
        return "none_viable", 1, f"no server was right; {why}"
    return None


def winner(board: Board) -> tuple[Pairs, str] | None:
    """The backends of the launch that is to be recommended, and why; None where none was right."""
    good = [one for one in launches(board, shrunk=False) if one.ok]
    if not good:
        return None
    sides = [side_of(named(one.pairs), [one.output]) for one in good if one.output.get("benchmark")]
    for first in sorted(winners(sides), key=lambda one: -one.key.concurrency) if len(sides) > 1 else ():
        best = next(one for one in good if named(one.pairs) == first.best)
        return best.pairs, f"measured, most output at c={first.key.concurrency}; {first.says}"
    return good[0].pairs, "served, and its answers were right"


def right(board: Board) -> list[Mapping[str, str]]:
    """The backends of each launch of the model itself that was right."""
    return [one.pairs for one in launches(board, shrunk=False) if one.ok]


def _left(hypothesis: HypothesisChanged) -> bool:
    """Whether it is still worth a launch: reading let it through, and nothing refuted it."""
    row = hypothesis.row
    if row is None or hypothesis.state is HypothesisState.REFUTED:
        return False
    return row.verdict is Verdict.NO_STATIC_OBSTACLE and hypothesis.backend != "auto"


def _base(board: Board) -> Pairs:
    """What is launched first: of each component the candidate, as far as it is not left to the engine."""
    if made := launches(board, shrunk=False):
        return made[0].pairs
    assert board.understood is not None
    found: Pairs = {}
    rows = [one.row for one in board.hypotheses.values() if one.row is not None]
    for option in relevant(declared(board), board.understood.target.quantisation):
        choice = choose(option, [row for row in rows if row.component == option.component], [])
        if choice is not None and choice.left is None and option.flag:
            found[option.component] = choice.row.backend
    return found


def _run(one: Ran) -> str | None:
    checked = one.output.get("checked")
    run = checked.get("run") if isinstance(checked, Mapping) else None
    return str(run) if run else None
