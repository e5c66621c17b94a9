"""``propose_hypothesis`` and ``update_hypothesis``: states move only as far as findings carry them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agent.board import Board
from agent.board_tools.context import BoardContext, hypothesis, understood
from agent.text import shorten
from memory.clock import hypothesis_id
from memory.vocabulary import Claim, Effect, HypothesisState, Level, Observed, Outcome, Row, Verdict
from tools.base import ToolError, tool
from tools.engines.options import Option
from transcripts.events import HypothesisChanged
from transcripts.found import finding_in

WORDS = 600
"""Characters of a reason."""


class HypothesisMoved(BaseModel):
    change: HypothesisChanged


class ProposeHypothesis(BaseModel):
    model_config = ConfigDict(extra="forbid")

    component: str
    backend: str
    arch: str | None = Field(default=None, description="Empty: the target's.")
    because: str = Field(min_length=1, max_length=WORDS, description="Why it may be viable.")
    test: str = Field(min_length=1, max_length=WORDS, description="The call that would decide it, and how.")


@tool(effect=Effect.READS, alone=True)
def propose_hypothesis(args: ProposeHypothesis, context: BoardContext) -> HypothesisMoved:
    """Put a hypothesis on the board, that a backend is viable, with the test that would decide it."""
    board = context.board
    arch = args.arch or understood(board).target.arch
    name = hypothesis_id(args.component, args.backend, arch)
    if name in board.hypotheses:
        raise ToolError(
            f"{args.component} {args.backend} on {arch} is on the board: {board.hypotheses[name].state}"
        )
    output = board.output_of("list_backends") or {}
    options = [Option.model_validate(one) for one in output.get("options", ())]
    values = [value.value for one in options if one.component == args.component for value in one.values]
    if args.backend not in values:
        components = ", ".join(dict.fromkeys(one.component for one in options))
        raise ToolError(
            f"the engine declares no value {args.backend!r} of {args.component!r}; "
            + (f"it has {', '.join(values)}" if values else f"its components are {components}")
        )
    return HypothesisMoved(
        change=HypothesisChanged(
            id=name,
            component=args.component,
            backend=args.backend,
            arch=arch,
            state=HypothesisState.OPEN,
            because=shorten(f"{args.because}; to be decided by: {args.test}", 2 * WORDS),
        )
    )


class UpdateHypothesis(BaseModel):
    model_config = ConfigDict(extra="forbid")

    component: str
    backend: str
    arch: str | None = Field(default=None, description="Empty: the target's.")
    state: HypothesisState = Field(
        description="predicted: a static finding. confirmed, refuted: something ran. inconclusive: undecided."
    )
    because: str = Field(min_length=1, max_length=WORDS, description="One sentence.")
    finding: str | None = Field(
        default=None, description="Id of the finding, recorded here, that it rests on."
    )


@tool(effect=Effect.READS, alone=True)
def update_hypothesis(args: UpdateHypothesis, context: BoardContext) -> HypothesisMoved:
    """Move a hypothesis to another state; all but inconclusive need a finding that was recorded here."""
    board = context.board
    old = hypothesis(board, args.component, args.backend, args.arch)
    if args.state is HypothesisState.OPEN:
        raise ToolError("a hypothesis is opened once; states are predicted, confirmed, refuted, inconclusive")
    if args.finding is None:
        return HypothesisMoved(change=_undecided(old, args.because, args.state))
    claim, event = _finding(board, args.finding)
    if (claim.component, claim.backend, claim.arch) != (old.component, old.backend, old.arch):
        raise ToolError(
            f"finding {args.finding[:12]} is about {claim.component} {claim.backend} on {claim.arch}"
        )
    check_state(args.state, claim)
    row = _row(old, claim, event).model_copy(update={"state": args.state})
    return HypothesisMoved(
        change=old.model_copy(
            update={
                "state": args.state,
                "because": shorten(args.because, WORDS),
                "row": row,
                "causes": tuple(dict.fromkeys((*old.causes, event))),
            }
        )
    )


def _undecided(old: HypothesisChanged, because: str, state: HypothesisState) -> HypothesisChanged:
    if state is not HypothesisState.INCONCLUSIVE:
        raise ToolError(f"{state} needs a finding: record_finding first, then give its id")
    if old.row is not None and old.row.verdict is not Verdict.UNKNOWN:
        raise ToolError(
            f"{old.component} {old.backend} is {old.row.verdict} by lines that were read; "
            "what speaks against that is a finding of its own"
        )
    return old.model_copy(update={"state": state, "because": shorten(because, WORDS)})


def _finding(board: Board, name: str) -> tuple[Claim, int]:
    """What a finding of this investigation claims, and the event of the result that it came with."""
    fitting = [one for one in board.found_by if one.startswith(name)] if len(name) >= 8 else []
    if len(fitting) != 1:
        raise ToolError(
            f"no finding {name!r} was recorded in this investigation; record_finding gives its id"
        )
    call = board.found_by[fitting[0]]
    finding = finding_in(board.output(call))
    if finding is None:
        raise ToolError(f"finding {name!r} cannot be read again")
    return finding.claim, board.calls.seq(call)


def check_state(state: HypothesisState, claim: Claim) -> None:
    """Raise :class:`ToolError` unless ``claim`` carries ``state``."""
    ran = claim.level not in {Level.REPORT, Level.STATIC}
    if state is HypothesisState.PREDICTED and claim.level is not Level.STATIC:
        raise ToolError(f"predicted is said from reading; that finding is of level {claim.level}")
    if state in {HypothesisState.CONFIRMED, HypothesisState.REFUTED} and not ran:
        raise ToolError(
            f"{state} needs something that ran; that finding is of level {claim.level}: predicted"
        )
    if ran and (state is HypothesisState.CONFIRMED) != (claim.outcome is Outcome.OK):
        raise ToolError(f"an outcome {claim.outcome} does not make a hypothesis {state}")


def _row(old: HypothesisChanged, claim: Claim, event: int) -> Row:
    before = old.row or Row(
        component=old.component, backend=old.backend, arch=old.arch, verdict=Verdict.UNKNOWN
    )
    if claim.level is not Level.STATIC:
        assert claim.outcome is not None, "what ran has an outcome"
        observed = Observed(level=claim.level, outcome=claim.outcome, experiment=f"event {event}")
        return before.model_copy(update={"observed": observed})
    return before.model_copy(
        update={
            "verdict": claim.verdict,
            "because": claim.because,
            "conditions": claim.conditions,
            "runs_instead": claim.runs_instead,
            "evidence": claim.source_evidence,
        }
    )
