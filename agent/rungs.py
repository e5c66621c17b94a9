"""The ladder of evidence as the planner sees it: rungs that apply, cost, are run and are read.

The two cheapest stand here: what is known already, and what the source says. A dearer one is one class more
with the same methods (:mod:`agent.probing`), listed in :mod:`agent.ladder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.board import Board
from agent.loop import Call
from agent.reasons import NAMES, sentence
from agent.scenario import scenario_for
from memory.vocabulary import HypothesisState, Level, Row, Target, Verdict
from transcripts.events import HypothesisChanged, Returned, Understood


@dataclass(frozen=True)
class Reading:
    """What a rung makes of one result: the hypothesis' new state, the reason, and the row if there is one."""

    state: HypothesisState
    because: str
    row: Row | None = None


class Rung(Protocol):
    """One way to learn about hypotheses."""

    @property
    def name(self) -> str: ...

    @property
    def level(self) -> Level: ...

    def applicable(self, board: Board, hypothesis: HypothesisChanged) -> bool:
        """Whether it could say anything new about it."""

    def cost(self) -> float:
        """Minutes for one hypothesis, roughly."""

    def calls(self, board: Board, hypotheses: Sequence[HypothesisChanged]) -> list[Call]:
        """The tool calls that test them, each naming its hypothesis (or none if it is about all)."""

    def read(self, board: Board, hypothesis: HypothesisChanged, returned: Returned) -> Reading | None:
        """What a result says of ``hypothesis``; None if nothing."""


class KnownFindings:
    """What an earlier investigation has found about the component on this architecture. One call for all."""

    name = "known findings"
    level = Level.REPORT
    tool = "search_findings"

    def applicable(self, board: Board, hypothesis: HypothesisChanged) -> bool:
        asked = {(c.input.get("component"), c.input.get("arch")) for c, _ in board.results(self.tool)}
        return (hypothesis.component, hypothesis.arch) not in asked

    def cost(self) -> float:
        return 0.0

    def calls(self, board: Board, hypotheses: Sequence[HypothesisChanged]) -> list[Call]:
        subjects = dict.fromkeys((one.component, one.arch) for one in hypotheses)
        return [
            Call(
                self.tool,
                {"component": component, "arch": arch, "engine": _target(board).engine},
                why=f"what is known of {component} on {arch}",
                rung=self.name,
            )
            for component, arch in subjects
        ]

    def read(self, board: Board, hypothesis: HypothesisChanged, returned: Returned) -> Reading | None:
        return None  # Findings of other versions do not move a hypothesis; the recommendation weighs them.


class Static:
    """What the source says, followed from the option to the kernel."""

    name = "static"
    level = Level.STATIC
    tool = "trace_viability"

    def applicable(self, board: Board, hypothesis: HypothesisChanged) -> bool:
        return hypothesis.state is HypothesisState.OPEN

    def cost(self) -> float:
        return 0.02

    def calls(self, board: Board, hypotheses: Sequence[HypothesisChanged]) -> list[Call]:
        target = _target(board)
        options = board.opened.options if board.opened else {}
        scenario = options.get("scenario", {})
        sizes: dict[str, Any] = {name: options[name] for name in ("checkpoint", "tp") if name in options}
        return [
            Call(
                self.tool,
                {
                    "environment": _understood(board).environment,
                    "component": one.component,
                    "backend": one.backend,
                    "arch": one.arch,
                    "engine": target.engine,
                    "model_classes": list(target.model_classes),
                    "quantisation": target.quantisation,
                    "scenario": scenario_for(scenario, one.component),
                    **sizes,
                },
                why=f"does the source let {one.backend} through on {one.arch}",
                rung=self.name,
                hypothesis=one.id,
            )
            for one in hypotheses
        ]

    def read(self, board: Board, hypothesis: HypothesisChanged, returned: Returned) -> Reading:
        output: Any = board.output(returned.call)
        if returned.status != "ok" or not isinstance(output, dict):
            row = Row(
                component=hypothesis.component,
                backend=hypothesis.backend,
                arch=hypothesis.arch,
                verdict=Verdict.UNKNOWN,
                state=HypothesisState.INCONCLUSIVE,
            )
            return Reading(row.state, f"the trace failed: {returned.error or 'no result'}", row)
        row = Row.model_validate(output["row"])
        # Reading never confirms and never refutes: it predicts. What it cannot follow stays undecided.
        state = HypothesisState.INCONCLUSIVE if row.verdict is Verdict.UNKNOWN else HypothesisState.PREDICTED
        row = row.model_copy(update={"state": state})
        because = sentence(row)
        if row.verdict is Verdict.UNKNOWN and output.get("notes"):
            because = f"{NAMES[row.verdict]}: {output['notes'][0]}"
        return Reading(state, because, row)


def _understood(board: Board) -> Understood:
    assert board.understood is not None, "a hypothesis is opened only for an understood target"
    return board.understood


def _target(board: Board) -> Target:
    return _understood(board).target
