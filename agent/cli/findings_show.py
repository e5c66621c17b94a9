"""``agent findings show``: one finding and the whole chain behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from agent.cli.common import emit, json_option, say, the_home
from agent.cli.findings_rows import document, settings, versions, views_of
from agent.text import safe, safe_block, squeeze
from memory.terms import FindingStatus
from memory.trust import deciding
from memory.views import Views


@click.command()
@click.argument("finding")
@json_option
def show(finding: str, as_json: bool) -> int:
    """FINDING (an id or its beginning) with the evidence it rests on.

    What replaced or contradicts it and what would decide, where its numbers stand, who recorded it, and the
    experiments of the transcript for the same hypothesis.

    \b
    Examples:
      agent findings show 3f9a1c
      agent findings show 3f9a1c --json
    """
    views, code = views_of(the_home())
    row = views.finding(finding)
    chain = {
        "evidence": views.evidence(row["id"]),
        "measurements": views.measurements(row["id"]),
        "sightings": views.sightings(row["id"]),
        "rivals": views.rivals(row["id"]),
        "experiments": _experiments(views, row),
    }
    if as_json:
        whole = document(views, row)
        rivals = [document(views, one) for one in chain["rivals"]]
        listed = {name: [dict(one) for one in rows] for name, rows in chain.items()}
        emit({**whole, **listed, "rivals": rivals, "decides": _decides(views, row)})
        return code
    say(map(safe, _lines(views, row, chain)))
    return code


def _experiments(views: Views, row: Any) -> list[Any]:
    from memory.clock import hypothesis_id

    about = hypothesis_id(row["component"], row["backend"], row["arch"])
    return list(views.experiments(row["transcript"], about))


def _decides(views: Views, row: Any) -> list[str]:
    """What would decide a contradiction; nothing where there is none, or where something has."""
    if row["status"] != FindingStatus.CONTRADICTED or row["replaced_by"] is not None:
        return []
    return deciding({**row, "packages": views.parsed(row, "packages")})


def _lines(views: Views, row: Any, chain: dict[str, list[Any]]) -> Iterator[str]:
    yield squeeze(row["sentence"])
    fields = {
        "id": row["id"],
        "status": _status(row),
        "level": row["level"] if row["origin"] == "own" else f"{row['level']}, imported",
        "engine": row["engine"],
        "packages": versions(views, row),
        "scenario": settings(views, row) or "as the engine defaults it",
        "scope": _scope(views.parsed(row, "claim")),
        "account": " ".join(filter(None, (row["date"], row["url"]))),
        "in": _environment(chain["experiments"]),
        "recorded": f"{row['recorded_at']}, {row['transcript']} event {row['event']}",
        "seen": f"{len(chain['sightings'])} times, last {row['seen_at']}",
    }
    for key, value in fields.items():
        if value:
            yield f"  {key:10} {squeeze(str(value))}"
    if note := (views.parsed(row, "claim").get("report") or {}).get("note"):
        yield ""
        yield "in their words, which prove nothing:"
        yield from (f"    {line}" for line in safe_block(note).splitlines())
    for one in chain["evidence"]:
        yield ""
        yield squeeze(place(one))
        yield from (f"    {line}" for line in safe_block(one["text"]).splitlines())
    for one in chain["measurements"]:
        where = f"{one['json_pointer']} of event {one['event']}"
        yield f"  {one['metric']} {one['value']:g} {one['unit']}: {where}"
    for one in chain["rivals"]:
        yield ""
        yield f"{one['status']}: {one['id'][:12]} {squeeze(one['sentence'])}"
    for step in _decides(views, row):
        yield f"  would decide: {step}"
    if chain["experiments"]:
        yield ""
    for one in chain["experiments"]:
        came = one["outcome"] or one["verdict"] or one["status"] or "not returned"
        took = f", {one['seconds']:.3g} s" if one["seconds"] is not None else ""
        yield f"experiment {one['call']} (event {one['asked_event']}): {one['tool']}, {came}{took}"


def _environment(experiments: list[Any]) -> str:
    """Where the experiments were made: environments with their fingerprints."""
    known = {(one["environment"], one["fingerprint"]) for one in experiments if one["fingerprint"]}
    return ", ".join(f"{name} (fingerprint {mark[:16]})" for name, mark in sorted(known))


def _status(row: Any) -> str:
    if row["replaced_by"] is None:
        return str(row["status"])
    how = "by" if row["status"] == FindingStatus.CONTRADICTED else "in its place"
    return f"{row['status']} ({how} {row['replaced_by'][:12]})"


def _scope(claim: dict[str, Any]) -> str:
    scope = claim.get("scope") or {}
    named = {**scope, "archs": " ".join(scope.get("archs", ())), **scope.get("ranges", {})}
    return ", ".join(f"{key} {value}" for key, value in named.items() if value and key != "ranges")


def place(one: Any) -> str:
    if one["kind"] == "source":
        lines = f"{one['line']}-{one['end_line']}"
        return f"{one['package']} {one['version']} {one['file']}:{lines} ({one['idiom']})"
    # The columns of an event's evidence carry the names of its own fields.
    return ", ".join(
        f"{key} {one[key]}" for key in one if one[key] is not None and key not in {"text", "finding"}
    )
