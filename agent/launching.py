"""The rungs of whole servers, where ``--run servers`` was said: a shrunk model first, then the model itself.

A shrunk model with made-up weights finds in a minute what a launch fails of; it confirms nothing. Then the
recommended backends are launched together, and each of the others in its component's place. One launch at a
time: what shares the cause of a failure is not launched. Where loads are measured, the two that give the most
are launched again, in turn: one launch of each shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.best import OUTPUT, Best, best, right as right_of, sides
from agent.board import Board
from agent.drivers.ground import declared
from agent.loop import Call
from agent.measured import SILENT
from agent.probing import BENCHMARKS, SERVERS, asked_to, minutes_of
from agent.recommend import choose
from agent.relevance import relevant
from agent.rungs import Reading
from agent.trials import Pairs, Ran, blamed, doubted, named, spared
from memory.vocabulary import HypothesisState, Level, NotRun, Observed, Outcome, Verdict
from tools.benchmark.statistics import mean
from transcripts.events import HypothesisChanged, Returned

TOOL = "try_server"
LAYERS = 4
"""Of a shrunk model."""
MOST = 12
"""Settings in which the model itself is launched."""
LONG = 8192
"""Tokens of the one load with a long context, where the model has that many."""
REPEATS, CONTENDERS = 3, 2
"""Launches of each of the settings that gave the most; of how many."""
_LAUNCHED = (Verdict.NO_STATIC_OBSTACLE, Verdict.UNKNOWN)
MINUTES = {True: 2.0, False: 20.0}
"""What a launch takes, roughly, of a shrunk model and of a whole one."""


class _Launches:
    """Launches of one kind, each a call of ``try_server``."""

    name: str
    level = Level.SERVER
    shrunk: bool

    def wanted(self, board: Board) -> Iterator[tuple[Pairs, int]]:
        """What is worth launching now, and which of its launches that is, in order; it may have been made."""
        raise NotImplementedError

    def next(self, board: Board) -> dict[str, object] | None:
        """The input of the next launch; None where there is none left."""
        if not asked_to(board, SERVERS) or model_of(board) is None:
            return None
        ran = launches(board, shrunk=self.shrunk)
        tried = _tried(board, shrunk=self.shrunk)
        if any(status != "ok" for _, _, status in tried) or spent(board):
            return None
        done = [(pairs, launch) for pairs, launch, _ in tried]
        left = [one for one in self.wanted(board) if one not in done and not spared(one[0], ran)]
        left.sort(key=lambda one: doubted(one[0], ran))
        return self.input(board, *left[0]) if left else None

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

    def input(self, board: Board, pairs: Pairs, launch: int) -> dict[str, object]:
        assert board.understood is not None
        assert board.opened is not None
        options, target = board.opened.options, board.understood.target
        settings: dict[str, object] = {"model": options["serve"], "engine": target.engine, "backends": pairs}
        if target.gpu_count is not None:
            settings["tensor_parallel"] = 1 if self.shrunk else target.gpu_count
        given: dict[str, object] = {"environment": board.understood.environment, "settings": settings}
        if options.get("gpu"):
            given["gpus"] = [options["gpu"]]
        if launch > 1:
            given["launch"] = launch
        if (minutes := minutes_of(board)) is not None:
            given["in_all"] = round(minutes - used(board), 3)
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
    backend that is left. Where what the engine chooses fails, the others go on from the first that starts."""

    name = "shrunk server"
    shrunk = True

    def wanted(self, board: Board) -> Iterator[tuple[Pairs, int]]:
        yield {}, 1
        base = _first_right(board, shrunk=True) or {}
        for one in _left(board):
            yield {**base, one.component: one.backend}, 1

    def input(self, board: Board, pairs: Pairs, launch: int) -> dict[str, object]:
        return super().input(board, pairs, launch) | {"layers": LAYERS, "rounds": 1, "questions": 0}


class Whole(_Launches):
    """The model itself: the recommended backends together, then each other one in its place; where these fail
    together, in its place among the first that are right."""

    name = "server"
    shrunk = False

    def wanted(self, board: Board) -> Iterator[tuple[Pairs, int]]:
        if not any(one.ok for one in launches(board, shrunk=True)):
            return  # what does not start with four layers does not with all
        base = _base(board)
        left = _left(board)
        made = list(dict.fromkeys(named(one.pairs) for one in launches(board, shrunk=False)))
        first = [base, *({**base, one.component: one.backend} for one in left)]
        new = [pairs for pairs in first if named(pairs) not in made]
        yield from ((pairs, 1) for pairs in new[: max(0, MOST - len(made))])
        if not asked_to(board, BENCHMARKS):
            return
        contenders = _contenders(board)
        yield from ((pairs, launch) for launch in range(2, REPEATS + 1) for pairs in contenders)

    def input(self, board: Board, pairs: Pairs, launch: int) -> dict[str, object]:
        given = super().input(board, pairs, launch) | {"questions": 200}
        reference = next(
            (run for one in launches(board, shrunk=False) if one.ok and (run := _run(one)) is not None), None
        )
        # The first that is right is what the others are compared with.
        if reference is not None and (pairs != _base(board) or launch > 1):
            given["reference_run"] = reference
        if asked_to(board, BENCHMARKS):
            given["loads"] = {"long": LONG}
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


def _tried(board: Board, *, shrunk: bool) -> list[tuple[Pairs, int, str]]:
    """The backends of each launch that came to an end, which one of theirs it was, and how the call did."""
    return [
        (
            dict(called.input["settings"].get("backends", {})),
            int(called.input.get("launch", 1)),
            returned.status,
        )
        for called, returned in board.results(TOOL)
        if called.rung and (called.input.get("layers") is not None) == shrunk
    ]


def _contenders(board: Board) -> list[Pairs]:
    """The settings that gave the most in their first launch, where most was asked at a time."""
    made = launches(board, shrunk=False)
    groups = right_of([one for one in made if board.calls[one.call].input.get("launch", 1) == 1])
    measured = {side.name: side for side in sides(groups)}
    if not measured:
        return []
    top = max(key for side in measured.values() for key in side.keys())  # noqa: SIM118 - a method
    values = {name: side.values(top, OUTPUT) for name, side in measured.items()}
    ranked = sorted((name for name in values if values[name]), key=lambda name: -mean(values[name]).value)
    pairs = {named(group[0].pairs): group[0].pairs for group in groups}
    return [pairs[name] for name in ranked[:CONTENDERS]]


def used(board: Board) -> float:
    """Minutes that launches have taken."""
    outputs = (board.output(called.call) for called, _ in board.results(TOOL) if called.rung)
    return sum(float(one.get("seconds", 0.0)) for one in outputs if isinstance(one, dict)) / 60


def spent(board: Board) -> bool:
    """Whether the minutes that the person gave are used up."""
    minutes = minutes_of(board)
    return minutes is not None and used(board) >= minutes


def unlaunched(board: Board) -> list[NotRun]:
    """That more would have been launched, had there been time."""
    if not asked_to(board, SERVERS) or not spent(board):
        return []
    what = f"no more was launched: the {minutes_of(board):g} minutes are used up; give more (--gpu-minutes)"
    return [NotRun(level=Level.SERVER, what=what)]


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
    if made and not right(board) and spent(board):
        return "stopped", 4, unlaunched(board)[0].what
    if made and not right(board):
        last = next((one for one in reversed(made) if not one.ok), made[-1])
        why = f"{named(last.pairs)}: {last.outcome.value.replace('_', ' ')}, {last.output['because']}"
        return "none_viable", 1, f"no server was right; {why}"
    return None


def winner(board: Board) -> Best | None:
    """The launch that is to be recommended, why, and how others compare; None where none was right."""
    return best(launches(board, shrunk=False))


def right(board: Board) -> list[Mapping[str, str]]:
    """The backends of each setting in which the model itself was right."""
    return [group[0].pairs for group in right_of(launches(board, shrunk=False))]


def _left(board: Board) -> list[HypothesisChanged]:
    """What is still worth a launch: reading refuses it not, and nothing refuted it. First what reading let
    through, then what it could not follow."""
    found = [
        (_LAUNCHED.index(one.row.verdict), one)
        for one in board.hypotheses.values()
        if one.row is not None and one.row.verdict in _LAUNCHED and one.backend != "auto"
        if one.state is not HypothesisState.REFUTED
    ]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _base(board: Board) -> Pairs:
    """What is launched first: of each component the candidate, as far as it is not left to the engine; later
    what was right first."""
    if made := launches(board, shrunk=False):
        return _first_right(board, shrunk=False) or made[0].pairs
    assert board.understood is not None
    found: Pairs = {}
    rows = [one.row for one in board.hypotheses.values() if one.row is not None]
    for option in relevant(declared(board), board.understood.target.quantisation):
        choice = choose(option, [row for row in rows if row.component == option.component], [])
        if choice is not None and choice.left is None and option.flag:
            found[option.component] = choice.row.backend
    return found


def _first_right(board: Board, *, shrunk: bool) -> Pairs | None:
    return next((one.pairs for one in launches(board, shrunk=shrunk) if one.ok), None)


def _run(one: Ran) -> str | None:
    checked = one.output.get("checked")
    run = checked.get("run") if isinstance(checked, Mapping) else None
    return str(run) if run else None
