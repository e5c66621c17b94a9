"""``agent doctor``: what this machine has and lacks, with fixes."""

from __future__ import annotations

import click

from agent.cli.common import emit, json_option, progress
from agent.text import squeeze
from memory.home import Home

MARKS = {True: "ok", False: "missing", None: "-"}


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check this machine: uv, network, disk, search, compiler, GPU, model. Exit 1 if something is missing.

    \b
    Examples:
      agent doctor
      agent doctor --json
    """
    progress("looking at this machine")
    from tools.hardware.doctor import checks

    found = checks(Home.default())
    if as_json:
        emit({"checks": [one.model_dump(mode="json") for one in found]})
    else:
        for one in found:
            click.echo(f"{MARKS[one.ok]:8} {one.name:8} {squeeze(one.found)}")
            if one.fix and one.ok is not True:
                click.echo(f"{'':18}{squeeze(one.fix)}")
    return 1 if any(one.ok is False for one in found) else 0
