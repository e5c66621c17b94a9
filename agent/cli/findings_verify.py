"""``agent findings verify``: what is cheap to check is checked again, and what costs a GPU is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import Context, emit, environment_of, json_option, progress, say, the_home
from agent.cli.findings_rows import filter_options, filters, views_of
from agent.text import safe, shorten, squeeze
from memory.home import Home
from memory.terms import FindingStatus

if TYPE_CHECKING:
    from memory.vocabulary import Claim
    from tools.environment.model import Environment
    from tools.findings.rejudge import Rejudged

_ORDER = ("wrong", "not here", "stands")
_CONTRADICTED = FindingStatus.CONTRADICTED
_JUDGED = ("differs", "cannot", "same verdict")


@click.command()
@click.argument("ids", nargs=-1, metavar="[FINDING]...")
@filter_options
@click.option(
    "-e", "--environment", "environments", metavar="NAME|PATH", multiple=True,
    help="Look cited lines up here too, and judge by them; repeatable.",
)  # fmt: skip
@click.option("--lines-only", is_flag=True, help="Look evidence up and judge nothing again.")
@click.option(
    "--fetch", is_flag=True,
    help="Fetch packages that are not here, to judge by them: tens to hundreds of MB, said first.",
)  # fmt: skip
@json_option
def verify(
    ids: tuple[str, ...],
    environments: tuple[str, ...],
    lines_only: bool,
    fetch: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Look all evidence up again, and judge anew what was read: by the same packages, with the same question.

    Findings are named by id, or by the filters; else all that stand are checked. What was judged otherwise
    becomes a finding of its own, which contradicts the old one. What would have to run again is listed with
    what it costs. Exit 1 if something does not hold, or differs.

    \b
    Examples:
      agent findings verify
      agent findings verify 3f9a1c -e ./site-packages
      agent findings verify --component moe_runner --arch sm120 --json
      agent findings verify -p sglang==0.5.9 --fetch
    """
    from tools.findings.again import check_again

    home = the_home()
    views, code = views_of(home)
    wanted = filters(given)
    rows = [views.finding(one) for one in ids] or views.findings(disputed=True, **wanted)
    looked_up = tuple(environment_of(home, name, (), None) for name in environments)
    checked = list(check_again(home, rows, Context(home), looked_up))
    counts = Counter(one.found for one in checked)
    costs = [one for one in checked if one.costs is not None]
    sound = {one.finding for one in checked if one.found != "wrong"}
    judged: list[Rejudged] = []
    kept: dict[str, str] = {}
    if not lines_only:
        judged, kept = _judged(home, [row for row in rows if row["id"] in sound], looked_up, fetch=fetch)
    again = Counter(one.result for one in judged)
    if as_json:
        documents = {one.finding.id: _document(one, kept) for one in judged}
        emit({"counts": dict(counts), "again": dict(again), "findings": [
            {"finding": one.finding, "found": one.found, "because": one.because, "costs": one.costs,
             "again": documents.get(one.finding)}
            for one in checked
        ]})  # fmt: skip
    else:
        say(map(safe, _lines(checked)))
        say(map(safe, _judged_lines(judged, kept)))
        say([", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name]) or "No findings."])
        if judged:
            said = ", ".join(f"{again[name]} {name}" for name in _JUDGED if again[name])
            say([f"judged again: {said}"])
        if costs:
            say([f"{len(costs)} of them ran; running them again takes a GPU, e.g. {costs[0].costs}"])
    return code or (1 if counts["wrong"] or again["differs"] else 0)


def _judged(
    home: Home, rows: Sequence[Any], looked_up: tuple[Environment, ...], *, fetch: bool
) -> tuple[list[Rejudged], dict[str, str]]:
    """What was read, judged again; and of what differs the new finding, by the id of the old one."""
    from agent.session import PROGRAM, capped
    from memory.artifacts import Artifacts
    from memory.clock import Ids, SystemClock
    from memory.store import Store
    from tools.findings.capsule import Capsules
    from tools.findings.rejudge import CANNOT, DIFFERS, keep, rejudge
    from tools.findings.share import finding_of
    from transcripts.catch_up import catch_up

    static = [row for row in rows if row["level"] == "static"]
    if not static:
        return [], {}

    def bring(claim: Claim) -> Environment:
        from memory.architecture import parse_architecture

        wanted = [f"{name}=={version}" for name, version in claim.packages.items()]
        return environment_of(home, None, wanted, parse_architecture(claim.arch), with_pins=False)

    findings = [finding_of(row) for row in static]
    seen = [(finding.transcript, finding.event) for finding in findings]
    capsules = Capsules(home, seen, [finding.claim for finding in findings])
    given = [(finding, capsules.of(finding)) for finding in findings]
    context = Context(home)
    judged = rejudge(home, given, context, looked_up, bring if fetch else None)
    contradicted = {row["id"]: row["replaced_by"] for row in static if row["status"] == _CONTRADICTED}

    def said_again(one: Rejudged) -> bool:
        """Where findings contradict each other, reading it again decides; what is decided is said no more."""
        if one.finding.id in contradicted:
            return one.result != CANNOT and contradicted[one.finding.id] is None
        return one.result == DIFFERS

    telling = [one for one in judged if said_again(one)]
    kept = keep(
        home, telling, context, capped(Artifacts(home.artifacts)),
        program=PROGRAM, clock=SystemClock(), ids=Ids(),
    )  # fmt: skip
    if kept:
        with Store(home) as store:
            for problem in catch_up(store, home.transcripts, progress):
                progress(f"warning: {problem}")
    return judged, kept


def _lines(checked: Any) -> Iterator[str]:
    for one in checked:
        if one.found != "stands":
            yield f"{one.found}  {one.finding[:12]}  {squeeze(one.because or '')}"


def _judged_lines(judged: Sequence[Rejudged], kept: dict[str, str]) -> Iterator[str]:
    """A line a finding; of those that cannot be judged one for all that lack the same."""
    reasons: dict[str, list[Rejudged]] = {}
    for one in judged:
        about = f"{one.finding.id[:12]}  {_cell(one.finding.claim)}"
        if one.result == "cannot":
            reasons.setdefault(one.because or "", []).append(one)
        elif one.result == "differs":
            why = f" ({one.because})" if one.because else ""
            yield f"differs  {squeeze(about)}: was {one.was}, now {one.now}{squeeze(why)}"
            if one.line is not None:
                yield f"    {shorten(one.line, 120)}"
            if one.finding.id in kept:
                name = kept[one.finding.id][:12]
                yield f"    kept as {name}, which contradicts it: agent findings show {name}"
        else:
            yield f"same verdict  {squeeze(about)}: {one.now}  {shorten(one.line or '', 120)}".rstrip()
    for why, ones in reasons.items():
        named = ", ".join(one.finding.id[:12] for one in ones[:3])
        more = f" and {len(ones) - 3} more" if len(ones) > 3 else ""
        yield f"cannot  {named}{more}: {squeeze(why)}"


def _cell(claim: Claim) -> str:
    return f"{claim.component} {claim.backend} on {claim.arch}"


def _document(one: Rejudged, kept: dict[str, str]) -> dict[str, Any]:
    return {
        "result": one.result, "was": one.was, "now": one.now, "line": one.line, "because": one.because,
        "kept": kept.get(one.finding.id),
    }  # fmt: skip
