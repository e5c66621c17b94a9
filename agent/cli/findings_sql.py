"""``agent findings sql``: one question in SQL over the promised views."""

from __future__ import annotations

import math
from typing import Any

import click

from agent.cli.common import Finite, emit, json_option, progress, say, table, the_home
from agent.cli.findings_rows import views_of
from agent.text import shorten

WIDTH = 60
"""Characters of a value on the screen; all of it in ``--json``."""


@click.command()
@click.argument("sql")
@click.option("--limit", type=click.IntRange(1, 100_000), default=1000, metavar="N", help="Rows at most.")
@click.option("--seconds", type=Finite(0.1, 600), default=10.0, metavar="S", help="Time at most.")
@json_option
def sql(sql: str, limit: int, seconds: float, as_json: bool) -> int:
    """The answer to one SELECT. Nothing is written, attached or set, whatever it says.

    The views: v_findings, v_evidence, v_measurements, v_sightings, v_experiments, v_hypotheses,
    v_investigations, v_folded; their columns are only ever added to.

    \b
    Examples:
      agent findings sql "SELECT arch, verdict, count(*) FROM v_findings GROUP BY 1, 2"
      agent findings sql "SELECT * FROM v_evidence WHERE file LIKE '%fused_moe%'" --json
    """
    from memory.sql import ask

    home = the_home()
    _, code = views_of(home)
    answered = ask(home, sql, most=limit, seconds=seconds)
    if as_json:
        emit({"columns": list(answered.columns), "rows": [_plain(row) for row in answered.rows],
              "more": answered.more})  # fmt: skip
        return code
    say(
        table([[shorten(_text(value), WIDTH) for value in row] for row in (answered.columns, *answered.rows)])
    )
    if answered.more:
        progress(f"the first {limit} rows are shown; more with --limit")
    return code


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [_text(value) if isinstance(value, bytes) or _endless(value) else value for value in row]


def _endless(value: Any) -> bool:
    """A number for which JSON has no word."""
    return isinstance(value, float) and not math.isfinite(value)


def _text(value: Any) -> str:
    return "" if value is None else value.hex() if isinstance(value, bytes) else str(value)
