"""No evidence, no finding: every piece of evidence is looked up where it says it stands.

Nothing in a claim is taken on trust. Source lines are read again in the environment, events in their
transcript, numbers at their place in the event. A refusal says what did not match.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from memory.home import Home
from memory.vocabulary import Claim, EventEvidence, Evidence, Level, Measurement
from tools.base import ToolError
from tools.source.tree import SourceError, SourceTree
from transcripts.chain import LogError, link
from transcripts.reader import line_of, records


def check_claim(claim: Claim, home: Home, *, environment: str, transcript: str) -> None:
    """Raise :class:`ToolError` unless everything that ``claim`` cites is there and says what it is cited for.

    ``environment``: where source evidence was read; ``transcript``: whose events measurements name.
    """
    _check_shape(claim)
    if claim.source_evidence:
        _check_sources(claim, home, environment)
    kinds = [_check_event(item, home) for item in claim.event_evidence]
    if claim.level not in {Level.REPORT, Level.STATIC} and "returned" not in kinds:
        raise ToolError(
            f"a claim of level {claim.level.value} must cite the result of what was run: an event of kind "
            f"`returned`; the cited events are {', '.join(kinds)}"
        )
    for measurement in claim.measurements:
        _check_measurement(measurement, home, transcript, claim)


def _check_shape(claim: Claim) -> None:
    """What can be told without reading anything."""
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
    if claim.measurements and claim.level in {Level.REPORT, Level.STATIC}:
        raise ToolError(f"a claim of level {level} measures nothing; measurements need something that ran")


def _check_sources(claim: Claim, home: Home, environment: str) -> None:
    from tools.environment.store import open_environment

    tree: SourceTree = open_environment(home, environment).tree()
    present = {_normal(name): version for name, version in tree.packages.items()}
    claimed = {_normal(name): version for name, version in claim.packages.items()}
    for name, version in claimed.items():
        if name not in present:
            raise ToolError(
                f"the claim is about {name} {version}, which environment {environment} does not hold"
            )
        if present[name] != version:
            raise ToolError(
                f"the claim is about {name} {version}; environment {environment} holds {present[name]}"
            )
    for item in claim.source_evidence:
        if _normal(item.package) not in claimed:
            raise ToolError(
                f"{item.file}:{item.line} is of {item.package}, which is none of the claim's packages "
                f"({', '.join(claim.packages) or 'none'})"
            )
        _check_source(item, tree, environment)


def _check_source(item: Evidence, tree: SourceTree, environment: str) -> None:
    where = f"{item.file}:{item.line}-{item.end_line}"
    try:
        there = tree.evidence(item.file, item.line, item.end_line, idiom=item.idiom)
    except SourceError as error:
        raise ToolError(f"evidence {where} is not in environment {environment}: {error}") from None
    if (_normal(there.package), there.version) != (_normal(item.package), item.version):
        raise ToolError(
            f"evidence {where} is said to be of {item.package} {item.version}; "
            f"the file belongs to {there.package} {there.version}"
        )
    if there.sha256 != item.sha256:
        raise ToolError(
            f"evidence {where} has sha256 {item.sha256}; these lines in environment {environment} "
            f"hash to {there.sha256}: they are others"
        )
    if there.text != item.text:
        raise ToolError(f"the text of evidence {where} is not what stands on these lines")


def _check_event(item: EventEvidence, home: Home) -> str:
    """Look an event up; returns its kind."""
    what = f"event {item.event} of transcript {item.transcript}"
    found = hashlib.sha256(item.excerpt.encode("utf-8", "surrogatepass")).hexdigest()
    if found != item.sha256:
        raise ToolError(f"the excerpt of {what} hashes to {found}, not to {item.sha256}")
    if not item.excerpt.strip():
        raise ToolError(f"the excerpt of {what} is empty; cite the words that matter")
    line = _line(item.transcript, item.event, home)
    text = line.decode("utf-8", "replace")
    # The excerpt as a person reads it, or as it stands escaped in the line.
    if item.excerpt not in text and json.dumps(item.excerpt, ensure_ascii=False)[1:-1] not in text:
        raise ToolError(f"{what} does not contain {_short(item.excerpt)}")
    _check_head(item, home, what)
    return str(json.loads(line)["data"].get("kind"))


def _check_head(item: EventEvidence, home: Home, what: str) -> None:
    """``head`` must be an event at or after the cited one: it fixes the log up to there."""
    try:
        for record in records(_path(item.transcript, home)):
            if record.hash == item.head:
                if record.seq < item.event:
                    raise ToolError(f"head {item.head[:12]}… of {what} is event {record.seq}, before it")
                return
    except LogError as error:
        raise ToolError(str(error)) from None
    raise ToolError(f"head {item.head[:12]}… of {what} is the hash of none of its events")


def _check_measurement(item: Measurement, home: Home, transcript: str, claim: Claim) -> None:
    name = transcript or next((cited.transcript for cited in claim.event_evidence), "")
    what = f"{item.metric} at {item.json_pointer or '(the whole)'} of event {item.event}"
    data = json.loads(_line(name, item.event, home))["data"]
    value = resolve_pointer(data, item.json_pointer, what)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError(f"{what} is {_short(json.dumps(value))}, not a number")
    if float(value) != item.value:
        raise ToolError(f"{what} is {value!r}; the claim says {item.value!r}")


def resolve_pointer(document: Any, pointer: str, what: str) -> Any:
    """The value at an RFC 6901 pointer. Raises :class:`ToolError` naming the part that leads nowhere."""
    if pointer and not pointer.startswith("/"):
        raise ToolError(f"{what}: a JSON pointer starts with a slash, e.g. /output/tokens_per_second")
    value = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", key) and int(key) < len(value):
            value = value[int(key)]
        else:
            raise ToolError(f"{what}: there is no {_short(key)}")
    return value


def _line(transcript: str, event: int, home: Home) -> bytes:
    """An event's line, its hash checked."""
    try:
        line = line_of(_path(transcript, home), event)
    except LogError as error:
        raise ToolError(str(error)) from None
    here = link(line)
    if here is None or not here.intact or here.seq != event:
        raise ToolError(f"event {event} of transcript {transcript} is damaged; nothing can rest on it")
    return line


def _path(transcript: str, home: Home) -> Path:
    """A transcript of this home: a claim cannot make the program read other files."""
    if not transcript:
        raise ToolError("the transcript of a cited event is not named")
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}", transcript):
        raise ToolError(f"{_short(transcript)} is no transcript's id; see: agent transcripts list")
    return home.transcripts / f"{transcript.removesuffix('.jsonl')}.jsonl"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
