"""``agent transcripts findings``: what a session of another agent shows, proposed and recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from agent.cli.common import CommandError, Context, emit, json_option, progress, redactor, say, the_home
from agent.cli.transcripts import find_transcript, is_ours
from agent.text import safe, shorten, squeeze
from memory.home import Home
from memory.names import few

FIGURES = 6
"""Figures of a run on the screen: all are in ``--json``."""


@click.command("findings")
@click.argument("session")
@click.option("--record", is_flag=True, help="Keep them as findings of level report.")
@click.option("--arch", metavar="ARCH", help="The architecture, where the session does not say it.")
@json_option
def findings(session: str, record: bool, arch: str | None, as_json: bool) -> int:
    """What SESSION (an imported one: its id, or the beginning) shows of backends.

    Crashes with their signature, figures of benchmarks, and the versions in force then, each with the event
    that says so. What the session does not say is unknown. Nothing is kept without --record, and then as
    somebody's account.

    \b
    Examples:
      agent transcripts findings ses_41ab
      agent transcripts findings ses_41ab --json
      agent transcripts findings ses_41ab --record --arch sm120
    """
    home = the_home()
    if arch is not None:
        from memory.architecture import parse_architecture

        arch = parse_architecture(arch).base.name
    if is_ours(home, session):
        return _ours(home, session, as_json=as_json)
    from agent.drivers.reporter import lacking
    from tools.sessions.propose import ProposeFindings, propose_findings

    _check_name(session)
    proposals = propose_findings.run(ProposeFindings(session=session), Context(home))
    found: list[dict[str, Any]] = proposals.model_dump(mode="json")["candidates"]
    for candidate in found:
        candidate["lacking"] = lacking(candidate, arch)
    document: dict[str, Any] = {"session": proposals.session, "format": proposals.format, "candidates": found}
    code = 0
    if record:
        document["recorded"], code = _record(home, proposals.session, arch)
    if as_json:
        emit(document)
    else:
        say(map(safe, _lines(document, arch)))
    return code


def _ours(home: Home, name: str, *, as_json: bool) -> int:
    """An investigation of our own records what it finds by itself: there is nothing to propose."""
    from transcripts.reader import read_raw

    path = find_transcript(home, name, last=False)
    found = [
        {"event": event["seq"], **{key: event["data"]["finding"][key] for key in ("id", "claim")}}
        for event in read_raw(path)
        if event["data"]["kind"] == "found"
    ]
    if as_json:
        emit({"session": path.stem, "format": "assay", "candidates": [], "found": found})
        return 0
    say([f"{path.stem} is an investigation of our own: it records what it finds ({len(found)} findings)"])
    for one in found:
        claim = one["claim"]
        says = " ".join(str(claim[key]).replace("_", " ") for key in ("verdict", "outcome") if claim[key])
        subject = f"{claim['component']} {claim['backend']} on {claim['arch']}"
        say([safe(f"event {one['event']}  {one['id'][:12]}  {subject}: {says}")])
    return 0


def _check_name(session: str) -> None:
    from pydantic import ValidationError

    from tools.sessions.propose import ProposeFindings

    try:
        ProposeFindings(session=session)
    except ValidationError:
        raise CommandError(
            f"{session!r} is no id of a session; see: agent transcripts list --imported"
        ) from None


def _record(home: Home, session: str, arch: str | None) -> tuple[dict[str, Any], int]:
    """Write a transcript of its own that quotes the session and finds what the store accepts."""
    from agent.drivers.reporter import Reporter
    from agent.session import Setting, start
    from memory.clock import Ids, SystemClock
    from transcripts.reader import read_raw, transcript_path

    home.prepare()
    clock = SystemClock()
    name = Ids().investigation(clock)
    concluded = start(
        home,
        f"what session {session} shows",
        {"session": session, "arch": arch},
        setting=Setting(say=progress, clock=clock, redact=redactor()),
        name=name,
        driver=Reporter(),
    )
    findings: list[dict[str, Any]] = []
    refused: list[str] = []
    for event in read_raw(transcript_path(home, name)):
        data = event["data"]
        if data["kind"] == "found":
            findings.append(data["finding"])
        elif data["kind"] == "returned" and data["status"] != "ok" and data["error"]:
            refused.append(data["error"])
    recorded = {"transcript": name, "findings": findings, "refused": refused, "summary": concluded.summary}
    return recorded, concluded.exit_code


def _lines(document: dict[str, Any], arch: str | None) -> Iterator[str]:
    found = document["candidates"]
    ready = sum(not candidate["lacking"] for candidate in found)
    counted = f"{len(found)} candidates, {ready} can be recorded"
    yield f"session {document['session']} ({document['format']}): {counted}"
    for candidate in found:
        yield ""
        yield from _candidate(candidate, arch)
    if recorded := document.get("recorded"):
        yield ""
        yield f"{recorded['summary']}; transcript {recorded['transcript']}"
        for reason in recorded["refused"]:
            yield f"refused: {squeeze(reason)}"
    elif ready:
        yield ""
        yield f"keep them as reports: agent transcripts findings {document['session']} --record"
    elif found:
        yield ""
        yield "nothing is recorded of what the session does not say; --arch names the architecture"


def _candidate(candidate: dict[str, Any], arch: str | None) -> Iterator[str]:
    cells = (
        ", ".join(f"{cell['component']} {cell['backend']}" for cell in candidate["cells"])
        or "backend unknown"
    )
    versions = [f"{name} {version}" for name, version in candidate["packages"].items()]
    where = candidate["arch"] or (f"{arch} (as you say)" if arch else "architecture unknown")
    outcome = "figures" if candidate["kind"] == "figures" else candidate["outcome"].replace("_", " ")
    engine = candidate["engine"] or "engine unknown"
    yield f"event {candidate['event']}  {outcome}: {cells} on {where} ({', '.join(versions) or engine})"
    if candidate["kind"] == "figures":
        shown = [f"{one['metric']} {one['value']:g} {one['unit']}" for one in candidate["figures"]]
        settings = [f"{key} {value}" for key, value in candidate["settings"].items()]
        yield f"    {few(shown, FIGURES)}" + (f"  ({few(settings)})" if settings else "")
    else:
        yield f"    {shorten(squeeze(candidate['excerpt']), 100)}"
        yield f"    {candidate['because']} [{candidate['signature']}]: {candidate['advice']}"
    said = [f"{one['what']} {one['value']}: event {one['event']}" for one in candidate["said"]]
    if said:
        yield f"    said: {', '.join(said)}"
    if candidate["again"]:
        yield f"    again: {few([f'event {number}' for number in candidate['again']], 5)}"
    if candidate["failed"] is not None:
        yield f"    the same launch failed: event {candidate['failed']}"
    if candidate["unknown"]:
        yield f"    unknown: {', '.join(candidate['unknown'])}"
