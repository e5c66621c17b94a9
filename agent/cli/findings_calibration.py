"""``agent findings calibration``: what was predicted from reading, and what came when it ran."""

from __future__ import annotations

from dataclasses import asdict

import click

from agent.calibration import ENOUGH, groups
from agent.cli.common import emit, json_option, say, table, the_home
from agent.cli.findings_rows import views_of


@click.command()
@json_option
def calibration(as_json: bool) -> int:
    """How often reading was right, by idiom of the deciding line, driver, and level of what ran: counts.

    `false no`: said to be refused, and it ran; `false yes`: no obstacle was seen, and it failed. Fewer than
    30 pairs say little, and it says so.

    \b
    Examples:
      agent findings calibration
      agent findings calibration --json
    """
    views, code = views_of(the_home())
    found = groups(views.predictions())
    if as_json:
        emit({"groups": [{**asdict(one), "count": one.count, "enough": one.enough} for one in found]})
        return code
    if not found:
        click.echo("Nothing that was read has run yet.")
        return code
    head = ["idiom", "driver", "level", "pairs", "right", "false no", "false yes", "open", ""]
    rows = [
        [str(one.idiom), one.driver, one.level,
         *(str(n) for n in (one.count, one.right, one.false_no, one.false_yes, one.open)),
         "" if one.enough else f"fewer than {ENOUGH}: too few to go by"]
        for one in found
    ]  # fmt: skip
    say(table([head, *rows]))
    return code
