"""What was read, judged again: the analyser is asked the same of the same packages, and may say otherwise.

Nothing is remembered from the first time: the sources are followed anew. What a driver made of lines that it
read itself cannot be judged again, nor what was asked when nothing but the answer is on record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from memory.canonical import canonical, finding_id
from memory.clock import Clock, Ids
from memory.home import Home
from memory.names import distribution
from memory.subjects import says_of
from memory.terms import Verdict
from memory.vocabulary import Capsule, Claim, Contract, Effect, Finding, Level
from tools.environment.model import Environment
from tools.environment.store import list_environments
from tools.errors import ToolError
from tools.findings.check import check_claim
from tools.findings.record import BY_DRIVER
from tools.viability.trace import Trace, TraceInput, trace_many
from transcripts.events import Called, Concluded, Found, Opened, Returned
from transcripts.log import Log

SAME, DIFFERS, CANNOT = "same verdict", "differs", "cannot"
VERIFY = "verify"
"""The driver of a transcript that holds what was judged otherwise."""
_ANSWERS = "trace_viability"
_KEPT = {Verdict.BLOCKED, Verdict.REROUTED, Verdict.NO_STATIC_OBSTACLE, Verdict.NOT_APPLICABLE}
"""Verdicts that speak against another: ``unknown`` only says less."""
_PLACE = "layer"
"""Of a scenario what says where it was judged, not under what."""

Bring = Callable[[Claim], Environment]
Cap = Callable[[Any], tuple[Any, str | None, int | None]]


@dataclass(frozen=True)
class Rejudged:
    """``result``: ``same verdict``, ``differs`` or ``cannot``; ``was`` and ``now`` say the verdict, ``line``
    what decides now; ``because``: why it cannot be, and what to do, or what the analyser could not follow."""

    finding: Finding
    result: str
    was: str
    now: str | None = None
    line: str | None = None
    because: str | None = None
    asked: TraceInput | None = None
    trace: Trace | None = None


def rejudge(
    home: Home,
    given: Sequence[tuple[Finding, Capsule | None]],
    context: Any,
    environments: Sequence[Environment] = (),
    bring: Bring | None = None,
) -> list[Rejudged]:
    """Each of ``given`` that is static, in their order.

    The packages are those of ``environments``, else of the home's; ``bring`` fetches what is neither.
    """
    there = [*environments, *list_environments(home)]
    found: dict[str, Rejudged] = {}
    asked: dict[str, list[tuple[Finding, TraceInput]]] = {}
    static = [(finding, capsule) for finding, capsule in given if finding.claim.level is Level.STATIC]
    for finding, capsule in static:
        try:
            asking = _asking(finding, capsule)
            environment = _holding(finding.claim, there)
            if environment is None:
                environment = _brought(finding.claim, bring)
                there.append(environment)
        except ToolError as error:
            found[finding.id] = _cannot(finding, str(error))
            continue
        where = environment.name if environment.kind == "source" else environment.path
        asked.setdefault(where, []).append((finding, asking.model_copy(update={"environment": where})))
    for cells in asked.values():
        found |= _traced(context, cells)
    return [found[finding.id] for finding, _ in static]


def keep(
    home: Home,
    judged: Iterable[Rejudged],
    context: Any,
    cap: Cap,
    *,
    program: str,
    clock: Clock,
    ids: Ids,
) -> dict[str, str]:
    """Record what is said now as findings of their own, in one transcript: old id → new id.

    The old ones are not touched. What only says less (``unknown``) is not kept, nor what cites no line.
    """
    kept = [one for one in judged if one.trace and one.trace.row.verdict in _KEPT and one.trace.row.evidence]
    new: dict[str, str] = {}
    if not kept:
        return new
    name = ids.investigation(clock)
    opened = Opened(
        investigation=name, program=program, driver=VERIFY, question="findings judged again", seed=0
    )
    with Log.create(home.transcripts / f"{name}.jsonl", opened, clock) as log:
        for number, one in enumerate(kept, start=1):
            found = _recorded(log, str(number), one, context, cap)
            if found is not None and found.id not in new.values():
                log.append(Found(finding=found))
            if found is not None:
                new[one.finding.id] = found.id
        summary = f"{len(kept)} findings judged again"
        log.append(Concluded(exit_reason="answered", exit_code=0, summary=summary))
    return new


def _recorded(log: Log, number: str, one: Rejudged, context: Any, cap: Cap) -> Finding | None:
    """What was asked and answered, and the finding that it makes, as an investigation writes it; None where
    the answer carries none."""
    assert one.asked is not None
    assert one.trace is not None
    given = one.asked.model_dump(mode="json")
    why = f"finding {one.finding.id} said {one.was}"
    rung = Level.STATIC.value
    log.append(Called(call=f"c{number}", tool=_ANSWERS, effect=Effect.READS, input=given, why=why, rung=rung))
    output, whole, size = cap(one.trace.model_dump(mode="json"))
    log.append(Returned(call=f"c{number}", status="ok", output=output, artifact=whole, artifact_bytes=size))
    where = {"environment": one.asked.environment}
    log.append(Called(call=f"f{number}", tool="record_finding", effect=Effect.READS, input=where))
    try:
        claim = check_claim(_claim(one.finding.claim, one.trace), context, **where)
    except ToolError as error:
        log.append(Returned(call=f"f{number}", status="error", error=str(error)))
        return None
    name = finding_id(claim.model_dump(mode="json"))
    found = Finding(id=name, claim=claim, transcript=log.path.stem, event=log.next_seq + 1)
    log.append(Returned(call=f"f{number}", status="ok", output=found.model_dump(mode="json")))
    return found


def _claim(before: Claim, trace: Trace) -> Claim:
    """What is said now of what the finding was about."""
    row = trace.row
    return before.model_copy(
        update={
            "verdict": row.verdict, "because": row.because, "runs_instead": row.runs_instead,
            "conditions": row.conditions, "source_evidence": row.evidence, "event_evidence": (),
        }
    )  # fmt: skip


def _asking(finding: Finding, capsule: Capsule | None) -> TraceInput:
    """What the analyser was asked. Raises :class:`ToolError` where that is not known."""
    claim = finding.claim
    about = {key: getattr(claim, key) for key in ("component", "backend", "arch", "engine")}
    cell = f"{claim.component} {claim.backend} --arch {claim.arch}"
    anew = f"judge it anew: agent explain {cell}{_versions(claim)}"
    if any(item.idiom == BY_DRIVER for item in claim.source_evidence):
        raise ToolError(f"a driver read its lines, no analyser judged it; {anew}")
    if capsule is None or capsule.judged is None:
        raise ToolError(f"for which model and settings it was judged is not on record; {anew}")
    try:
        asking = TraceInput.model_validate({**capsule.judged, "environment": ""})
    except ValidationError as error:
        wrong = f"{error.error_count()} fields are wrong"
        raise ToolError(f"what is on record of how it was judged is no question ({wrong}); {anew}") from error
    if {key: getattr(asking, key) for key in about} != about:
        raise ToolError(f"what is on record of how it was judged is of another backend; {anew}")
    return asking


def _versions(claim: Claim) -> str:
    return "".join(f" -p {name}=={version}" for name, version in claim.packages.items())


def _holding(claim: Claim, environments: Iterable[Environment]) -> Environment | None:
    """The environment with just the packages of a claim, else the one that holds least beside them."""
    wanted = {distribution(name): version for name, version in claim.packages.items()}
    holding = [
        one
        for one in environments
        if wanted.items() <= {distribution(name): version for name, version in one.packages.items()}.items()
    ]
    return min(holding, key=lambda one: len(one.packages), default=None)


def _brought(claim: Claim, bring: Bring | None) -> Environment:
    held = ", ".join(f"{name} {version}" for name, version in claim.packages.items())
    if bring is None:
        raise ToolError(
            f"{held}: not here together; --fetch brings them (how much is said first), or name a folder that "
            "holds them with -e"
        )
    return bring(claim)


def _cannot(finding: Finding, why: str, trace: Trace | None = None) -> Rejudged:
    return Rejudged(finding, CANNOT, _said(finding.claim), because=why, trace=trace)


def _traced(context: Any, cells: Sequence[tuple[Finding, TraceInput]]) -> dict[str, Rejudged]:
    found: dict[str, Rejudged] = {}
    try:
        with closing(trace_many(context, [asking for _, asking in cells], anew=True)) as traces:
            for (finding, asking), trace in zip(cells, traces, strict=True):
                found[finding.id] = _compared(finding, asking, trace)
    except ToolError as error:
        found |= {finding.id: _cannot(finding, str(error)) for finding, _ in cells if finding.id not in found}
    return found


def _compared(finding: Finding, asking: TraceInput, trace: Trace) -> Rejudged:
    claim, row = finding.claim, trace.row
    other = [
        f"{key}={trace.scenario[key]} (was {value})"
        for key, value in claim.scenario.items()
        if key != _PLACE and trace.scenario.get(key, value) != value
    ]
    if other:
        return _cannot(
            finding, f"it would be judged under {', '.join(other)}, which is another subject", trace
        )
    result = SAME if says_of(claim.model_dump(mode="json")) == _says(trace) else DIFFERS
    was, now = _said(claim), _said(row)
    if result is DIFFERS and was == now:
        was, now = (f"{text} if {_conditions(one)}" for text, one in ((was, claim), (now, row)))
    # The gate that decides comes first, the way that leads to it behind.
    first = row.evidence[0] if row.evidence else None
    line = f"{first.file}:{first.line}  {' '.join(first.text.split())}" if first is not None else None
    notes = trace.notes[0] if trace.notes and row.verdict is Verdict.UNKNOWN else None
    return Rejudged(finding, result, was, now, line, notes, asking, trace)


def _says(trace: Trace) -> str:
    return says_of({**trace.row.model_dump(mode="json"), "outcome": None})


def _said(one: Any) -> str:
    """A verdict in words, of a claim or a row."""
    text = str(one.verdict.value).replace("_", " ") if one.verdict is not None else "nothing"
    text += f" because of {one.because.value}" if one.because is not None else ""
    return text + (f" to {one.runs_instead}" if one.runs_instead else "")


def _conditions(one: Contract) -> str:
    given: Any = one.model_dump(mode="json")["conditions"]
    return (
        " and ".join(f"{each['fact']} {each['op']} {canonical(each['value'])}" for each in given)
        or "anything"
    )
