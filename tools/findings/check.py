"""No evidence, no finding: every piece of evidence is looked up where it says it stands.

Nothing in a claim is taken on trust, whoever makes it. Source lines are read again in the environment,
events in their transcript (:mod:`tools.findings.events`). A refusal says what did not match.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import ValidationError

from memory.architecture import ArchitectureError, parse_architecture
from memory.canonical import canonical
from memory.names import distribution
from memory.vocabulary import Claim, Evidence, Level, Scope
from tools.base import ToolError
from tools.engines.adapter import engines
from tools.environment.model import Environment
from tools.environment.store import open_for
from tools.findings.events import check_events
from tools.source.tree import SourceError, SourceTree
from transcripts.redaction.secrets import redacted, shows

_URL = re.compile(r"https?://[^\s<>\"'`\\]+")
CLAIM_LIMIT = 256_000
"""Bytes of a claim as JSON: hundreds of pieces of evidence."""
WORDS_LIMIT = 300
"""Characters of any field of a claim but the quoted ones: names, numbers, versions, paths."""

DEPTH_LIMIT = 12
"""Levels of a claim: its own are four, and a condition may compare with a list."""

NOTE_LIMIT = 4000
"""Characters of a report's note."""

_QUOTED = frozenset({"text", "excerpt", "note"})
_READ_ONLY = frozenset({Level.REPORT, Level.STATIC})


def check_claim(claim: Claim, context: Any, *, environment: str) -> Claim:
    """The claim as it is kept: names of packages in their one spelling, each piece of evidence once.

    Raises :class:`ToolError` unless everything that ``claim`` cites is there and says what it is cited for.
    ``environment``: the one that was read, or in which it ran; ``context`` is that of the tool.
    """
    check_shape(claim)
    opened: Environment | None = None
    if claim.source_evidence or claim.level is not Level.REPORT:
        opened = open_for(context, environment)
        check_packages(claim, opened, environment)
    sources = (
        [check_source(item, opened.tree(), environment) for item in claim.source_evidence] if opened else []
    )
    machine = check_events(claim, context.home, opened)
    checked = claim.model_copy(
        update={
            "scope": _with_machine(claim.scope, machine),
            "packages": {distribution(name): version for name, version in claim.packages.items()},
            "source_evidence": tuple(dict.fromkeys(sources)),
            "event_evidence": tuple(dict.fromkeys(claim.event_evidence)),
            "measurements": tuple(dict.fromkeys(claim.measurements)),
        }
    )
    if machine:
        check_shape(checked)
    return checked


def _with_machine(scope: Scope | None, machine: dict[str, Any]) -> Scope | None:
    """``scope`` with what the results say of the machine: what ran is stale where that is another one."""
    if not machine:
        return scope
    try:
        return Scope.model_validate({**(scope.model_dump() if scope is not None else {}), **machine})
    except ValidationError as error:
        raise ToolError(
            "the cited result does not say its machine: gpu and driver are names, gpu_count is a number"
        ) from error


def check_shape(claim: Claim) -> None:
    """What can be told without reading anything."""
    try:
        document = claim.model_dump(mode="json")
        _check_words(document, "claim")
    except (RecursionError, ValueError) as error:
        raise ToolError(
            "the claim is nested past all use; expected names, numbers and short lists"
        ) from error
    size = len(canonical(document).encode())
    if size > CLAIM_LIMIT:
        raise ToolError(f"a claim of {size} bytes is refused (at most {CLAIM_LIMIT}); cite what decides")
    for name in ("component", "backend", "engine"):
        if not document[name] or any(character.isspace() for character in document[name]):
            raise ToolError(f"claim.{name} is {document[name]!r}; expected a name, without spaces")
    _check_arch(claim.arch)
    _check_scope(claim)
    if not claim.source_evidence and not claim.event_evidence:
        raise ToolError("a claim without evidence is refused: cite source lines or an event of a transcript")
    if claim.verdict is None and claim.outcome is None:
        raise ToolError("the claim says nothing: give a verdict (from reading) or an outcome (from running)")
    level = claim.level.value
    if claim.level is Level.STATIC:
        if claim.verdict is None:
            raise ToolError("a claim of level static needs a verdict")
        if claim.outcome is not None:
            raise ToolError(f"a claim of level static has no outcome ({claim.outcome.value}): nothing ran")
        if not claim.source_evidence:
            raise ToolError("a claim of level static must cite source lines")
    elif claim.level is not Level.REPORT:
        if claim.outcome is None:
            raise ToolError(f"a claim of level {level} needs an outcome")
        if not claim.event_evidence:
            raise ToolError(f"a claim of level {level} must cite the event that returned its outcome")
    if claim.measurements and claim.level in _READ_ONLY:
        raise ToolError(f"a claim of level {level} measures nothing; measurements need something that ran")


def _check_words(value: Any, where: str, depth: int = 0) -> None:
    """A finding's sentence is made of its fields: none may hold a text of its own, or hide one."""
    if depth > DEPTH_LIMIT:
        raise RecursionError
    if isinstance(value, str):
        if len(value) > WORDS_LIMIT or not value.isprintable():
            raise ToolError(
                f"{where} is no name or value: expected at most {WORDS_LIMIT} printable characters, one line"
            )
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_words(key, f"a key of {where}")
            if key not in _QUOTED:
                _check_words(item, f"{where}.{key}", depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_words(item, f"{where}[{number}]", depth + 1)


def _check_scope(claim: Claim) -> None:
    """Ranges of versions are for accounts: who read or ran something did it with exact ones."""
    if claim.report is not None:
        if claim.level is not Level.REPORT:
            raise ToolError(f"a claim of level {claim.level.value} is no report; leave claim.report out")
        if len(claim.report.note) > NOTE_LIMIT:
            raise ToolError(f"claim.report.note has more than {NOTE_LIMIT} characters")
        if claim.report.date is not None and not _is_day(claim.report.date):
            raise ToolError(
                f"claim.report.date is {claim.report.date!r}; expected a day, month or year, e.g. 2026-03-06"
            )
        if claim.report.url is not None and not _URL.fullmatch(claim.report.url):
            raise ToolError(f"claim.report.url is {claim.report.url[:80]!r}; expected http://… or https://…")
    if claim.scope is None:
        return
    for arch in claim.scope.archs:
        _check_arch(arch)
    if claim.scope.ranges and claim.level is not Level.REPORT:
        raise ToolError("claim.scope.ranges is for reports; what was read or ran is of the exact versions")
    for name, versions in claim.scope.ranges.items():
        try:
            SpecifierSet(versions)
        except InvalidSpecifier:
            raise ToolError(
                f"claim.scope.ranges: {versions!r} of {name} is no set of versions, e.g. >=0.6,<0.6.6"
            ) from None


def _is_day(text: str) -> bool:
    """Whether ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD`` is in the calendar."""
    try:
        date.fromisoformat(f"{text}-01-01"[:10])
    except ValueError:
        return False
    return True


def _check_arch(arch: str) -> None:
    try:
        name = parse_architecture(arch).name
    except ArchitectureError as error:
        raise ToolError(f"claim.arch: {error}") from None
    if name != arch:
        raise ToolError(f"claim.arch is {arch!r}; an architecture is written {name}")


def check_packages(claim: Claim, environment: Environment, named: str) -> None:
    present = {distribution(name): version for name, version in environment.packages.items()}
    claimed: dict[str, str] = {}
    for name, version in claim.packages.items():
        if claimed.setdefault(distribution(name), version) != version:
            raise ToolError(
                f"the claim names two versions of {name}: {claimed[distribution(name)]}, {version}"
            )
    for name, version in claimed.items():
        if name not in present:
            raise ToolError(f"the claim is about {name} {version}, which environment {named} does not hold")
        if present[name] != version:
            raise ToolError(f"the claim is about {name} {version}; environment {named} holds {present[name]}")
    profile = engines().get(claim.engine)
    engine = distribution(profile.distribution if profile else claim.engine)
    for name in [engine, *(distribution(item.package) for item in claim.source_evidence)]:
        if name not in claimed:
            raise ToolError(
                f"{name} is none of the claim's packages ({', '.join(claim.packages) or 'none'}); "
                "they must name the engine and all that is cited, with versions"
            )


def check_source(item: Evidence, tree: SourceTree, environment: str) -> Evidence:
    """The evidence as the environment itself gives it."""
    where = f"{item.file}:{item.line}-{item.end_line}"
    try:
        there = tree.evidence(item.file, item.line, item.end_line, idiom=item.idiom)
    except (SourceError, OSError, ValueError) as error:
        raise ToolError(f"evidence {where} is not in environment {environment}: {error}") from None
    if there.file != item.file:
        raise ToolError(f"evidence {where} is a second name of {there.file}; cite it by that")
    if (distribution(there.package), there.version) != (distribution(item.package), item.version):
        raise ToolError(
            f"evidence {where} is said to be of {item.package} {item.version}; "
            f"the file belongs to {there.package} {there.version}"
        )
    if there.sha256 != item.sha256:
        raise ToolError(
            f"evidence {where} has sha256 {item.sha256}; these lines in environment {environment} "
            f"hash to {there.sha256}: they are others"
        )
    # A line that looks like a secret is quoted without it; the hash stands for all of it.
    if not shows(item.text, there.text):
        raise ToolError(f"the text of evidence {where} is not what stands on these lines")
    if not there.text.strip():
        raise ToolError(f"evidence {where} is blank; cite the lines that decide")
    return there.model_copy(
        update={"package": distribution(there.package), "text": str(redacted(there.text))}
    )
