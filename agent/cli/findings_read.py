"""``agent findings list``, ``search``, ``matrix``: rows over the read views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from agent.cli.common import emit, json_option, progress, say, table, the_home
from agent.cli.findings_rows import cells, document, filter_options, filters, status_option, views_of
from memory.terms import FindingStatus
from memory.views import Views

SHOWN = 200
"""Findings on the screen where nobody says how many."""


@click.command("list")
@filter_options
@click.option("--all", "everything", is_flag=True, help="Those that are no longer current too.")
@status_option
@click.option(
    "--limit", type=click.IntRange(1, 10**9), metavar="N", help=f"At most so many; on the screen {SHOWN}."
)
@json_option
def list_(everything: bool, statuses: tuple[str, ...], limit: int | None, as_json: bool, **given: Any) -> int:
    """Findings, newest first: those that stand, and those that contradict each other while nothing decides.

    \b
    Examples:
      agent findings list
      agent findings list --component moe_runner --arch sm120
      agent findings list --status contradicted --json
    """
    most = limit if limit or as_json else SHOWN
    chosen: tuple[str, ...] = () if everything else statuses or (FindingStatus.CURRENT.value,)
    wanted = filters(given)
    views, code = views_of(the_home())
    rows = views.findings(
        statuses=chosen, disputed=not everything and not statuses, limit=most and most + 1, **wanted
    )
    return _out(views, rows, most, code, as_json=as_json, filtered=any(wanted.values()))


@click.command()
@click.argument("words", nargs=-1, required=True)
@filter_options
@status_option
@click.option("--limit", type=click.IntRange(1, 1000), default=20, metavar="N", help="At most so many.")
@json_option
def search(words: tuple[str, ...], statuses: tuple[str, ...], limit: int, as_json: bool, **given: Any) -> int:
    """Findings in which all WORDS stand, the best first: what fits best, stands, and was won highest.

    A word is found by its beginning, in the sentence of a finding, its settings, its evidence and files.

    \b
    Examples:
      agent findings search flashinfer_trtllm nan
      agent findings search fused_moe.py --arch sm120
      agent findings search cutlass --level probe --json
    """
    wanted = filters(given)
    views, code = views_of(the_home())
    rows = views.search(" ".join(words), statuses=statuses, limit=limit + 1, **wanted)
    return _out(views, rows, limit, code, as_json=as_json, filtered=True)


@click.command()
@filter_options
@json_option
def matrix(as_json: bool, **given: Any) -> int:
    """For every component, backend and architecture the best evidence that there is.

    \b
    Examples:
      agent findings matrix --arch sm120
      agent findings matrix --component moe_runner --json
    """
    wanted = filters(given)
    views, code = views_of(the_home())
    rows = views.matrix(**wanted)
    if as_json:
        emit({"cells": [{**document(views, row), "findings": row["cell"]} for row in rows]})
        return code
    drawn = cells(views, rows, status=True)
    for line, row in zip(drawn, rows, strict=True):
        line.insert(6, f"of {row['cell']}")
    say(table(drawn))
    if not rows and not code:
        click.echo("No findings.")
    return code


def _out(
    views: Views, rows: Sequence[Any], most: int | None, code: int, *, as_json: bool, filtered: bool
) -> int:
    shown = rows[:most]
    more = len(shown) < len(rows)
    if as_json:
        emit({"findings": [document(views, row) for row in shown], "more": more})
        return code
    if not rows and not code:
        click.echo("No findings." if filtered else "No findings yet.")
    mixed = any(row["status"] != FindingStatus.CURRENT for row in shown)
    say(table(cells(views, shown, status=mixed)))
    if more:
        progress(f"the first {len(shown)} are shown; more with --limit")
    return code
