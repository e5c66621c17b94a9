"""``agent environment upgrade``: what would change, who objects, and doing it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, say, table, the_home
from agent.cli.environment_history import resource
from agent.text import safe, squeeze
from tools.environment.history import DEFAULT

if TYPE_CHECKING:
    from tools.environment.plan import Plan


@click.command()
@click.argument("name", default=DEFAULT)
@click.option(
    "--to", metavar="WHAT", multiple=True, help="latest, nightly, P==V (repeatable) or git+URL@REV."
)
@click.option("--only", metavar="P", multiple=True, help="Only this package may change; repeatable.")
@click.option("--index", "indexes", metavar="URL|FOLDER", multiple=True, help="An index to ask first.")
@click.option("--find-links", metavar="URL|FOLDER", multiple=True, help="A place with wheels to look at too.")
@click.option("--allow-build", metavar="P", multiple=True, help="Build it from source, which runs its code.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@json_option
def upgrade(
    name: str,
    to: tuple[str, ...],
    only: tuple[str, ...],
    indexes: tuple[str, ...],
    find_links: tuple[str, ...],
    allow_build: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Make a new environment with other versions beside the old one, and let NAME stand for it.

    First it is shown what changes, what conflicts, and who asks for it. Whatever goes wrong: the old one is
    unchanged, and NAME stands for it until the new one is whole.

    \b
    Examples:
      agent environment upgrade --to flashinfer-python==0.6.7
      agent environment upgrade work --to latest --only flashinfer-python --yes
      agent environment upgrade work --to nightly --index https://example.org/nightly --yes
      agent environment upgrade work --to git+https://example.org/e.git@main --only e --allow-build e
    """
    if not to:
        raise CommandError("--to is missing; expected latest, nightly, P==V or git+URL@REV")
    progress("looking up what there is")
    from memory.clock import SystemClock
    from tools.environment.choosing import subject
    from tools.environment.plan import Wanted
    from tools.environment.upgrade import upgrade as make_upgrade
    from tools.locks import holding

    home = the_home()
    moves, _ = subject(home, name)

    def approve(proposal: Plan) -> bool:
        if not as_json:
            say(plan_lines(proposal))
        if yes:
            return True
        return not as_json and sys.stdin.isatty() and click.confirm("Do it?", default=False, err=True)

    with holding([resource(moves)], home, progress):
        wanted = Wanted(to, only, indexes, find_links, allow_build)
        proposal, made = make_upgrade(home, name, wanted, approve, progress, SystemClock())
    if as_json:
        emit({**plan_document(proposal), "name": moves, "made": made.name if made else None})
    if made is None:
        raise CommandError("nothing was changed, since it was not approved; do it with --yes", 4)
    if as_json:
        return
    if not proposal.changes:
        click.echo(f"Nothing to change: {safe(made.name)}")
        return
    click.echo(f"{moves} stands for {safe(made.name)}")
    progress(f"go back at any time: agent environment rollback {moves}")


def plan_document(proposal: Plan) -> dict[str, Any]:
    return {
        "before": proposal.before.name,
        "changes": [
            {"package": package, "before": old, "after": new} for package, old, new in proposal.changes
        ],
        "conflicts": list(proposal.conflicts),
        "warnings": list(proposal.warnings),
        "bytes": proposal.size,
    }


def plan_lines(proposal: Plan) -> list[str]:
    """What would change, who asks for something else, what is odd about it."""
    from tools.environment.uv import human_size

    sizes = {wheel.name: wheel.size for wheel in proposal.wheels}
    rows = [
        [
            f"  {package}",
            f"{old or 'not there'} → {new or 'left out'}",
            human_size(sizes[package]) if sizes.get(package) else "",
        ]
        for package, old, new in proposal.changes
    ]
    lines = [squeeze(proposal.before.name), *table(rows)]
    lines += [f"  conflict: {squeeze(one)}" for one in proposal.conflicts]
    lines += [f"  warning: {squeeze(one)}" for one in proposal.warnings]
    return lines
