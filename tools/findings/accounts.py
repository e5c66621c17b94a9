"""Accounts of others, public cases among them, as findings of level ``report``: said by somebody, never more.

A case is one configuration with one outcome, as a JSON object (the fields of :class:`Case`). Each becomes
events of a transcript: the case as it was given, and a finding that cites it, through the same check as all.
What a case leaves open stays open; a case that does not say what it is about is left out, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, ValidationError

from memory.architecture import ArchitectureError, parse_architecture
from memory.canonical import finding_id, text_sha256
from memory.clock import Clock, Ids
from memory.home import Home
from memory.vocabulary import Claim, Effect, EventEvidence, Finding, Level, Outcome, Report, Scope
from tools.engines.adapter import engines
from tools.errors import ToolError
from tools.findings.check import check_claim, check_shape
from transcripts.events import ACCOUNTS, Called, Concluded, Found, Noted, Opened, Returned
from transcripts.log import Log

SIZE_LIMIT = 64 << 20
MOST_BACKENDS = 6
"""Backends that one case may be about."""

_KNOWN = {
    "works": Outcome.OK,
    "slow": Outcome.OK,
    "unsupported_error": Outcome.UNSUPPORTED,
    "not_available": Outcome.UNSUPPORTED,
    "crash_startup": Outcome.START_FAILED,
    "crash_runtime": Outcome.CRASHED,
    "silent_fallback": Outcome.SUBSTITUTED,
    "oom": Outcome.OUT_OF_MEMORY,
    "hang": Outcome.HUNG,
}
_BY: dict[str, Literal["maintainer", "release"]] = {
    "confirmed_by_maintainer": "maintainer",
    "fixed_in_release": "release",
}
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_COUNT = re.compile(r"\b(\d{1,3})\s*[x×]\s")
_LIBRARY = "flashinfer-python"


class Case(BaseModel):
    """One public case. ``outcome`` is one of this program's, or a word of other collections (``works``,
    ``crash_startup``, ``nan_or_garbage``, …); versions are exact, a set of them, or anything else."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    url: str | None
    date: str | None
    engine: str
    engine_version: str | None = None
    flashinfer_version: str | None = None
    torch_version: str | None = None
    cuda_version: str | None = None
    gpu: str | None = None
    arch: str | None = None
    model: str | None = None
    quantization: str | None = None
    component: str
    backend: str | None = None
    flags: tuple[str, ...] = ()
    outcome: str
    symptom: str | None = None
    cause: str | None = None
    fix_or_workaround: str | None = None
    confidence: str = "reporter_only"


@dataclass
class Recorded:
    """``skipped``: id of a case and why it makes no finding."""

    transcript: str | None = None
    findings: list[str] = field(default_factory=list)
    known: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


def looks_like_cases(path: Path) -> bool:
    """Whether a file is one of cases: its first line is a JSON object that says an outcome."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.readline(1 << 20))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and {"outcome", "component"} <= value.keys()


def read_cases(text: str) -> Iterator[Case | tuple[str, str]]:
    """The cases of a file, one a line; of what is none its name and why."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield Case.model_validate_json(line)
            except (ValidationError, RecursionError) as error:
                yield f"line {number}", f"it is no case ({_why(error)})"


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error) or "nested too deep"


def record(
    home: Home,
    cases: Iterable[Case | tuple[str, str]],
    known: set[str],
    context: Any,
    *,
    source: dict[str, Any],
    program: str,
    clock: Clock,
    ids: Ids,
) -> Recorded:
    """Write what ``cases`` say as one transcript, but those that are ``known`` (by :func:`account_key`)."""
    done = Recorded()
    fresh: list[tuple[Case, list[Claim]]] = []
    for case in cases:
        if isinstance(case, tuple):
            done.skipped.append(case)
            continue
        try:
            claims = list(claims_of(case))
            for claim in claims:
                check_shape(claim.model_copy(update={"event_evidence": (_QUOTED,)}))
        except (ToolError, ValidationError) as error:
            done.skipped.append((case.id, _why(error)))
            continue
        new = [claim for claim in claims if account_key(claim) not in known]
        done.known += len(claims) - len(new)
        known |= {account_key(claim) for claim in new}
        if new:
            fresh.append((case, new))
    if not fresh:
        return done
    name = ids.investigation(clock)
    opened = Opened(
        investigation=name, program=program, driver=ACCOUNTS, question=f"accounts from {source['file']}",
        seed=0, options=source,
    )  # fmt: skip
    with Log.create(home.transcripts / f"{name}.jsonl", opened, clock) as log:
        done.transcript = name
        for number, (case, claims) in enumerate(fresh, start=1):
            _tell(log, f"c{number}", case, claims, context, done)
        for who, why in done.skipped:
            log.append(Noted(text=f"{who} is left out: {why}"))
        summary = f"{len(done.findings)} reports, {done.known} known, {len(done.skipped)} left out"
        log.append(Concluded(exit_reason="answered", exit_code=0, summary=summary))
    return done


def _tell(log: Log, call: str, case: Case, claims: list[Claim], context: Any, done: Recorded) -> None:
    """The case as it was given, and what it says."""
    log.append(Called(call=call, tool="read_account", effect=Effect.READS, input={"id": case.id}))
    given = log.append(Returned(call=call, status="ok", output=case.model_dump(mode="json")))
    for claim in claims:
        assert claim.report is not None
        excerpt = claim.report.url or case.id
        cited = EventEvidence(
            transcript=log.path.stem, head=given.hash, event=given.seq, excerpt=excerpt,
            sha256=text_sha256(excerpt),
        )  # fmt: skip
        try:
            checked = check_claim(
                claim.model_copy(update={"event_evidence": (cited,)}), context, environment=""
            )
        except ToolError as error:
            done.skipped.append((case.id, str(error)))
            continue
        name = finding_id(checked.model_dump(mode="json"))
        log.append(
            Found(finding=Finding(id=name, claim=checked, transcript=log.path.stem, event=log.next_seq))
        )
        done.findings.append(name)


def tell(
    home: Home,
    claim: Claim,
    said: dict[str, Any],
    context: Any,
    *,
    program: str,
    clock: Clock,
    ids: Ids,
) -> tuple[Finding, str]:
    """Record what one person says as a transcript of its own: ``said`` as it was, and what cites it.

    Raises :class:`ToolError` for a claim that no account can be of; nothing is kept then.
    """
    check_shape(claim.model_copy(update={"event_evidence": (_QUOTED,)}))
    name = ids.investigation(clock)
    opened = Opened(
        investigation=name,
        program=program,
        driver=ACCOUNTS,
        question="what a person knows",
        seed=0,
        options={},
    )
    with Log.create(home.transcripts / f"{name}.jsonl", opened, clock) as log:
        log.append(Called(call="c1", tool="read_account", effect=Effect.READS, input={}))
        given = log.append(Returned(call="c1", status="ok", output=said))
        excerpt = (claim.report.url if claim.report is not None else None) or said["text"][:200]
        cited = EventEvidence(
            transcript=name, head=given.hash, event=given.seq, excerpt=excerpt, sha256=text_sha256(excerpt)
        )
        bare = claim.model_copy(update={"event_evidence": (cited,)})
        checked = check_claim(bare, context, environment="")
        finding = Finding(
            id=finding_id(checked.model_dump(mode="json")), claim=checked, transcript=name, event=log.next_seq
        )
        log.append(Found(finding=finding))
        log.append(Concluded(exit_reason="answered", exit_code=0, summary="1 report"))
    return finding, name


_QUOTED = EventEvidence(transcript="t", head="0" * 64, event=0, excerpt="quoted", sha256="0" * 64)


def account_key(claim: Claim) -> str:
    """What makes two accounts one: all but where in this home it was quoted."""
    bare = claim.model_copy(update={"event_evidence": ()})
    return finding_id(bare.model_dump(mode="json"))


def claims_of(case: Case) -> Iterator[Claim]:
    """What a case says, one claim for each backend. Raises :class:`ToolError` where it leaves out what it is
    about."""
    engine = _first_name(case.engine)
    if engine is None:
        raise ToolError(f"it names no engine ({case.engine!r})")
    try:
        arch = parse_architecture(case.arch or "").name
    except ArchitectureError as error:
        raise ToolError(f"it names no architecture ({error})") from error
    backends = list(_backends(case.backend or ""))
    if not backends:
        raise ToolError("it names no backend")
    packages, ranges, rest = _versions(case, engine)
    count = _COUNT.search(f"{case.gpu or ''} ")
    scope = Scope(
        ranges=ranges,
        model=_short(case.model),
        quantisation=_short(case.quantization),
        gpu=_short(_COUNT.sub("", f"{case.gpu} ").strip(" ,") if case.gpu else None),
        gpu_count=int(count[1]) if count else None,
    )
    for backend, instead, also in backends[:MOST_BACKENDS]:
        outcome = _outcome(case)
        yield Claim(
            component=_first_name(case.component) or "other",
            backend=backend,
            arch=arch,
            engine=engine,
            packages=packages,
            scenario={**({"cuda": case.cuda_version} if case.cuda_version else {}), **also},
            level=Level.REPORT,
            outcome=Outcome.SUBSTITUTED if instead and outcome is not Outcome.OK else outcome,
            runs_instead=instead,
            scope=scope,
            report=Report(
                url=case.url, date=case.date, by=_BY.get(case.confidence, "reporter"), note=_note(case, rest)
            ),
        )


def read_claims(text: str) -> Iterator[Claim]:
    """What the cases of a file say, but those that do not say what they are about."""
    for case in read_cases(text):
        if isinstance(case, Case):
            with suppress(ToolError, ValidationError):
                yield from list(claims_of(case))


def _outcome(case: Case) -> Outcome:
    if case.outcome == "nan_or_garbage":
        said = f"{case.symptom} {case.cause}".lower()
        return Outcome.NAN if re.search(r"\bnan\b|\binf\b", said) else Outcome.WRONG
    if case.outcome in _KNOWN:
        return _KNOWN[case.outcome]
    try:
        return Outcome(case.outcome)
    except ValueError:
        raise ToolError(f"{case.outcome!r} is no outcome; expected e.g. ok, crashed, nan") from None


def _backends(text: str) -> Iterator[tuple[str, str | None, dict[str, str]]]:
    """``(backend, what runs instead, settings)`` of each that is named: ``auto -> marlin``, ``a / b``,
    ``marlin + MTP``, ``flashinfer_mla (FP8)``."""
    for one in re.split(r"\s+/\s+|,\s+", text):
        also = {"with": words} if (words := " ".join(re.findall(r"\(([^)]*)\)", one))) else {}
        bare, _, more = re.sub(r"\([^)]*\)", " ", one).partition(" + ")
        if more.strip():
            also["with"] = " ".join([*also.values(), more.strip()])
        chosen, arrow, instead = bare.partition("->")
        name = _NAME.match(chosen.strip())
        ran = _NAME.match(instead.strip()) if arrow else None
        if name is None:
            continue
        if left := chosen.strip()[name.end() :].strip():
            also["with"] = " ".join([*also.values(), left])
        yield name[0], ran[0] if ran else None, {key: value[:200] for key, value in also.items()}


def _versions(case: Case, engine: str) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Exact versions, sets of versions, and what is neither."""
    profile = engines().get(engine)
    distribution = profile.distribution if profile else _LIBRARY if engine in _LIBRARY else engine
    said = {distribution: case.engine_version, "torch": case.torch_version}
    if case.flashinfer_version:
        said[_LIBRARY] = case.flashinfer_version
    packages: dict[str, str] = {}
    ranges: dict[str, str] = {}
    rest: list[str] = []
    for name, version in said.items():
        if not version:
            continue
        try:
            packages[name] = str(Version(version))
        except InvalidVersion:
            try:
                ranges[name] = str(SpecifierSet(version))
            except InvalidSpecifier:
                rest.append(f"{name} {version}")
    return packages, ranges, rest


def _note(case: Case, rest: list[str]) -> str:
    """In the words of the account: they prove nothing."""
    parts = {
        "": case.symptom,
        "cause: ": case.cause,
        "way around: ": case.fix_or_workaround,
        "flags: ": " ".join(case.flags),
        "versions: ": ", ".join(rest),
    }
    if case.outcome == "slow":
        parts["slow; "] = "it works, and is slow"
    return "\n".join(f"{name}{text}" for name, text in parts.items() if text)[:4000]


def _first_name(text: str) -> str | None:
    found = _NAME.match(text.strip())
    return found[0] if found else None


def _short(text: str | None) -> str | None:
    if text is None:
        return None
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line[:200] or None
