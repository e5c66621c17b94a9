"""``agent findings verify``: what is cheap to check is checked again, and what costs a GPU is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from agent.cli.common import Context, emit, environment_of, json_option, say, the_home
from agent.cli.findings_rows import filter_options, filters, views_of
from agent.text import safe, squeeze

_ORDER = ("wrong", "not here", "stands")


@click.command()
@click.argument("ids", nargs=-1, metavar="[FINDING]...")
@filter_options
@click.option(
    "-e", "--environment", "environments", metavar="NAME|PATH", multiple=True,
    help="Look cited lines up here too; repeatable.",
)  # fmt: skip
@json_option
def verify(ids: tuple[str, ...], environments: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Look all evidence up again: cited lines in the packages they are of, events in their transcripts.

    Findings are named by id, or by the filters; else all that stand are checked. What would have to run again
    is listed with what it costs. Exit 1 if something does not hold.

    \b
    Examples:
      agent findings verify
      agent findings verify 3f9a1c -e ./site-packages
      agent findings verify --component moe_runner --arch sm120 --json
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
    if as_json:
        emit({"counts": dict(counts), "findings": [
            {"finding": one.finding, "found": one.found, "because": one.because, "costs": one.costs}
            for one in checked
        ]})  # fmt: skip
    else:
        say(map(safe, _lines(checked)))
        say([", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name]) or "No findings."])
        if costs:
            say([f"{len(costs)} of them ran; running them again takes a GPU, e.g. {costs[0].costs}"])
    return code or (1 if counts["wrong"] else 0)


def _lines(checked: Any) -> Iterator[str]:
    for one in checked:
        if one.found != "stands":
            yield f"{one.found}  {one.finding[:12]}  {squeeze(one.because or '')}"
