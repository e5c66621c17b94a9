"""``record_finding`` for who reads: spans and events are cited as they were seen, the rest is looked up.

A quotation says that the lines were looked at; the store looks at them again. What was never read here cannot
be cited, and a verdict of the analyser can be made more cautious, never more hopeful.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from agent.board import Board
from agent.board_tools.context import BoardContext, hypothesis, understood
from memory.canonical import text_sha256
from memory.clock import hypothesis_id
from memory.vocabulary import (
    Because,
    Claim,
    Condition,
    Effect,
    EventEvidence,
    Evidence,
    Finding,
    Level,
    Measurement,
    Outcome,
    Verdict,
)
from tools.base import ToolError, tool
from tools.environment.store import open_for
from tools.findings.record import (
    BY_DRIVER,
    RecordFinding as RecordClaim,
    record_finding as record_claim,
)
from tools.source.tree import SourceError, SourceTree

MOST_SPANS = 24
LONGEST_SPAN = 60
"""Lines. What decides is short."""

_HOPE = {Verdict.BLOCKED: 0, Verdict.REROUTED: 1, Verdict.NO_STATIC_OBSTACLE: 2}
"""Verdicts by how much they promise."""


class Span(BaseModel):
    """Lines that were read in this investigation."""

    model_config = ConfigDict(extra="forbid")

    file: str = Field(description="As read_source and search_source name it.")
    start: int = Field(ge=1, description="First line.")
    end: int = Field(ge=1, description="Last line.")
    quote: str = Field(min_length=4, max_length=400, description="Words of these lines, as they stand there.")
    sha256: str | None = Field(default=None, description="As read_source gave it for exactly these lines.")


class Cited(BaseModel):
    """The result of a call of this investigation."""

    model_config = ConfigDict(extra="forbid")

    event: int = Field(ge=0, description="The event that a result says it is.")
    quote: str = Field(min_length=4, max_length=1000, description="Words of the result.")


class RecordFinding(BaseModel):
    model_config = ConfigDict(extra="forbid")

    component: str = ""
    backend: str = ""
    arch: str | None = Field(default=None, description="Empty: the target's.")
    level: Level = Field(default=Level.STATIC, description="static: from reading. Others: something ran.")
    verdict: Verdict | None = Field(default=None, description="What reading says.")
    outcome: Outcome | None = Field(default=None, description="What running said.")
    because: Because | None = Field(default=None, description="The fact that the deciding gate looks at.")
    runs_instead: str | None = Field(default=None, description="For rerouted: what runs.")
    conditions: tuple[Condition, ...] = Field(default=(), description="Facts that it holds under.")
    spans: tuple[Span, ...] = Field(
        default=(), max_length=MOST_SPANS, description="The deciding lines first."
    )
    events: tuple[Cited, ...] = Field(default=(), max_length=MOST_SPANS)
    measurements: tuple[Measurement, ...] = ()

    claim: SkipJsonSchema[Claim | None] = None
    """A whole claim, as the planner makes it; then nothing else is given but these."""
    environment: SkipJsonSchema[str] = ""


@tool(effect=Effect.READS, alone=True)
def record_finding(args: RecordFinding, context: BoardContext) -> Finding:
    """Record what was found about a backend, with the lines or events that show it; refused if they do
    not."""
    board = context.board
    if board.led and args.claim is not None:
        raise ToolError("a claim is not taken whole: give component, backend, and the spans that show it")
    claim = args.claim or _claim(args, context)
    _check_cautious(board, claim)
    environment = args.environment or understood(board).environment
    given = RecordClaim(claim=claim, environment=environment)
    return Finding.model_validate(record_claim.run(given, context))


def _claim(args: RecordFinding, context: Any) -> Claim:
    board: Board = context.board
    known = understood(board)
    arch = args.arch or known.target.arch
    subject = hypothesis(board, args.component, args.backend, arch)
    tree = open_for(context, known.environment).tree()
    return Claim(
        component=subject.component,
        backend=subject.backend,
        arch=arch,
        engine=known.target.engine,
        packages=known.packages,
        scenario=_scenario(board, subject.id),
        level=args.level,
        verdict=args.verdict,
        outcome=args.outcome,
        because=args.because,
        runs_instead=args.runs_instead,
        conditions=args.conditions,
        source_evidence=tuple(_source(board, tree, span) for span in args.spans),
        event_evidence=tuple(_event(board, cited) for cited in args.events),
        measurements=args.measurements,
    )


def _source(board: Board, tree: SourceTree, span: Span) -> Evidence:
    """The span as the environment has it. Raises :class:`ToolError` where it was not read, or says
    otherwise."""
    where = f"{span.file}:{span.start}-{span.end}"
    if span.end < span.start or span.end - span.start >= LONGEST_SPAN:
        raise ToolError(f"{where}: cite the lines that decide, at most {LONGEST_SPAN} at once")
    try:
        there = tree.evidence(span.file, span.start, span.end, idiom=BY_DRIVER)
        text = "\n".join(tree.lines(span.file)[span.start - 1 : span.end])
    except (SourceError, OSError, ValueError) as error:
        raise ToolError(f"{where} is not in the environment: {error}") from None
    if not _was_read(board, there):
        raise ToolError(
            f"{where} was not read in this investigation; read_source it first, then cite what it says"
        )
    if span.sha256 is not None and span.sha256 != there.sha256:
        raise ToolError(f"{where} hashes to {there.sha256}, not to {span.sha256}; these are other lines")
    if " ".join(span.quote.split()) not in " ".join(text.split()):
        raise ToolError(f"{where} does not say {span.quote[:80]!r}; quote what stands on these lines")
    return there


def _was_read(board: Board, there: Evidence) -> bool:
    """Whether every line was in a result of reading here."""
    lines = set(range(there.line, there.end_line + 1))
    for called, _ in board.results("read_source"):
        output = board.output(called.call) if str(called.input.get("file")).endswith(there.file) else None
        if isinstance(output, dict) and output.get("file") == there.file:
            lines -= set(range(output["start"], output["end"] + 1))
    return not lines


def _event(board: Board, cited: Cited) -> EventEvidence:
    """The event as this transcript has it."""
    assert board.opened is not None
    for name in board.calls:
        if board.calls.seq(name) == cited.event:
            return EventEvidence(
                transcript=board.opened.investigation,
                head=board.calls.hash(name),
                event=cited.event,
                excerpt=cited.quote,
                sha256=text_sha256(cited.quote),
            )
    raise ToolError(
        f"event {cited.event} is no result of a call of this investigation; results name their event"
    )


def _scenario(board: Board, subject: str) -> dict[str, str]:
    """The scenario under which the cell was judged."""
    traced = board.tested(subject, "trace_viability")
    output = None if traced is None else board.output(traced)
    return dict(output.get("scenario", {})) if isinstance(output, dict) else {}


def _check_cautious(board: Board, claim: Claim) -> None:
    """Raise :class:`ToolError` for a verdict that promises more than the lines that were followed."""
    known = board.hypotheses.get(hypothesis_id(claim.component, claim.backend, claim.arch))
    before = known.row.verdict if known is not None and known.row is not None else Verdict.UNKNOWN
    if claim.level is not Level.STATIC or claim.verdict is None or before is Verdict.UNKNOWN:
        return
    if claim.verdict is Verdict.UNKNOWN or before is claim.verdict:
        return
    if before not in _HOPE or _HOPE.get(claim.verdict, 9) > _HOPE[before]:
        raise ToolError(
            f"{claim.component} {claim.backend} is {before} by lines that were followed; reading may make it "
            f"more cautious, not {claim.verdict}. If you see a mistake, say so in the account of conclude"
        )
