"""``agent findings import``, ``merge`` and ``diff``: findings of other machines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, say, the_home
from agent.cli.findings_rows import views_of
from agent.text import safe, squeeze
from memory.home import Home

if TYPE_CHECKING:
    from tools.findings.bring import Brought
    from tools.findings.share import Given

SHOWN = 20
"""Refusals and conflicts on the screen; all of them in ``--json``."""


def _environments(function: Any) -> Any:
    function = click.option(
        "-e", "--environment", "environments", metavar="NAME|PATH", multiple=True,
        help="Look cited lines up here too; repeatable.",
    )(function)  # fmt: skip
    return click.option(
        "-p", "--package", "packages", metavar="P==V", multiple=True,
        help="Fetch this to look cited lines up in; repeatable.",
    )(function)  # fmt: skip


@click.command("import")
@click.argument("file")
@_environments
@json_option
def import_(file: str, environments: tuple[str, ...], packages: tuple[str, ...], as_json: bool) -> int:
    """Findings out of FILE: an export, or public cases, one JSON object a line.

    Each is checked: its id, the events that came with it, and its cited lines in the environments of this
    home and those that are named. What does not hold is refused. What cannot be looked up here is kept as a
    report, and so is every public case. Exit 1 if something was refused.

    \b
    Examples:
      agent findings import colleague.json
      agent findings import colleague.json -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent findings import cases.jsonl --json
    """
    from tools.findings.accounts import looks_like_cases
    from tools.findings.share import digest, read

    path = _file(file)
    if path.suffix == ".db":
        raise CommandError(f"{file} is a database; bring its findings in with: agent findings merge {file}")
    if looks_like_cases(path):
        from agent.cli.findings_reports import import_cases

        return import_cases(path, as_json=as_json)
    source = {"file": path.name, "sha256": digest(path)}
    return _bring(the_home(), read(path), source, environments, packages, as_json=as_json)


@click.command()
@click.argument("database", metavar="OTHER.db")
@_environments
@json_option
def merge(database: str, environments: tuple[str, ...], packages: tuple[str, ...], as_json: bool) -> int:
    """The findings of another home's database, which is read from a copy.

    What ran there is shown by the transcripts beside it; without these it is kept as a report. The same
    finding of both is one. Merging again changes nothing. Exit 1 if something was refused.

    \b
    Examples:
      agent findings merge /mnt/other/assay/findings.db
      agent findings merge other.db -e sglang-0.5.9+flashinfer-python-0.6.5 --json
    """
    from tools.findings.other import read_database
    from tools.findings.share import digest

    path = _file(database)
    given = read_database(path)
    source = {"file": path.name, "sha256": digest(path)}
    return _bring(the_home(), given, source, environments, packages, as_json=as_json)


@click.command()
@click.argument("other")
@json_option
def diff(other: str, as_json: bool) -> int:
    """What OTHER (a database or an export) knows and this home does not, and the other way round.

    Exit 1 if they differ.

    \b
    Examples:
      agent findings diff /mnt/other/assay/findings.db
      agent findings diff colleague.json --json
    """
    from memory.sentences import render
    from memory.subjects import says_of, subject_of
    from tools.findings.other import read_database
    from tools.findings.share import finding_of, read

    path = _file(other)
    given = read_database(path) if path.suffix == ".db" else read(path)
    theirs = {one[0].id: one[0].claim for one in given if not isinstance(one[0], str)}
    views, code = views_of(the_home())
    ours = {row["id"]: finding_of(row).claim for row in views.findings(statuses=())}
    sides = []
    for mine, yours in ((ours, theirs), (theirs, ours)):
        alone = sorted(mine.keys() - yours.keys())
        sides.append([{"id": name, "sentence": render(mine[name])} for name in alone])
    said = [
        {(subject_of(document), claim.level): says_of(document)
         for claim in side.values() for document in [claim.model_dump(mode="json")]}
        for side in (ours, theirs)
    ]  # fmt: skip
    otherwise = sorted(key for key in said[0].keys() & said[1].keys() if said[0][key] != said[1][key])
    both = len(ours.keys() & theirs.keys())
    if as_json:
        emit({"here": sides[0], "there": sides[1], "both": both, "contradictions": len(otherwise)})
    else:
        for name, side in zip(("here", "there"), sides, strict=True):
            say(f"only {name}  {one['id'][:12]}  {squeeze(one['sentence'])}" for one in side)
        say([f"{both} in both, {len(sides[0])} only here, {len(sides[1])} only there; "
             f"of {len(otherwise)} subjects they say different things"])  # fmt: skip
    return code or (1 if sides[0] or sides[1] else 0)


def _file(name: str) -> Path:
    """A file that can be read through; a pipe would never end. Raises :class:`CommandError`."""
    path = Path(name)
    if not path.exists():
        raise CommandError(f"there is no file {name}")
    if not path.is_file():
        raise CommandError(f"{name} is no plain file; expected an export, public cases, or a database")
    if not os.access(path, os.R_OK):
        raise CommandError(f"{name} cannot be read; see to its permissions")
    return path


def _bring(
    home: Home,
    given: Iterable[Given],
    source: dict[str, Any],
    environments: tuple[str, ...],
    packages: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    from agent.cli.common import environment_of
    from agent.session import PROGRAM
    from memory.clock import Ids, SystemClock
    from memory.store import Store
    from tools.findings.admit import Door
    from tools.findings.bring import bring
    from tools.locks import holding
    from transcripts.catch_up import catch_up

    home.prepare()
    looked_up = [environment_of(home, name, (), None) for name in environments]
    if packages:
        looked_up.append(environment_of(home, None, packages, None, with_pins=False))
    # Two at once would each take the same findings for new.
    with holding({"findings:import"}, home, progress):
        views, _ = views_of(home)
        known = {row["id"] for row in views.findings(statuses=())}
        done = bring(
            home, given, known, Door(home, tuple(looked_up)),
            source=source, program=PROGRAM, clock=SystemClock(), ids=Ids(), tell=progress,
        )  # fmt: skip
        if done.transcript is not None:
            with Store(home) as store:
                for problem in catch_up(store, home.transcripts, progress):
                    progress(f"warning: {problem}")
    conflicts = _conflicts(home, done)
    if as_json:
        emit({"new": done.new, "known": done.known, "reports": done.reports, "transcript": done.transcript,
              "refused": [{"finding": name, "because": why} for name, why in done.refused],
              "conflicts": conflicts})  # fmt: skip
    else:
        say(map(safe, _lines(done, conflicts)))
    return 1 if done.refused else 0


def _conflicts(home: Home, done: Brought) -> list[dict[str, str]]:
    """What is new and contradicts something, or was outranked by what is known here."""
    if not done.new:
        return []
    views, _ = views_of(home)
    new = set(done.new)
    rows = [row for row in views.findings(statuses=("contradicted", "superseded")) if row["id"] in new]
    return [
        {"finding": row["id"], "status": row["status"], "by": row["replaced_by"] or rival["id"]}
        for row in rows
        for rival in views.rivals(row["id"])[:1]
    ]


def _lines(done: Brought, conflicts: list[dict[str, str]]) -> Iterator[str]:
    counts = {"new": len(done.new), "known already": done.known, "refused": len(done.refused)}
    yield ", ".join(f"{count} {name}" for name, count in counts.items())
    if done.reports:
        why = next(iter(done.reports.values()))
        yield f"{len(done.reports)} of them are no more than reports here: {squeeze(why)}"
    for name, why in done.refused[:SHOWN]:
        yield f"refused {name[:16]}: {squeeze(why)}"
    for one in conflicts[:SHOWN]:
        yield f"{one['status']}: {one['finding'][:12]}, see agent findings show {one['by'][:12]}"
    for what, count in (("refused", len(done.refused)), ("in conflict", len(conflicts))):
        if count > SHOWN:
            yield f"{count - SHOWN} more {what}; all with --json"
