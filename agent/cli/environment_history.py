"""``agent environment``: what a name stands for, and changing that: adopt, rollback, forget, gc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, say, table, the_home
from agent.text import safe, squeeze
from tools.environment.history import DEFAULT

if TYPE_CHECKING:
    from memory.home import Home
    from tools.environment.history import Choice, History

DIFF_LINES = 200
"""Lines of a local diff that are shown; all of it is in the JSON."""


def resource(name: str) -> str:
    """What must be held to change what a name stands for."""
    return f"environment:{name}"


@click.command()
@click.argument("name", required=False)
@json_option
def current(name: str | None, as_json: bool) -> None:
    """What NAME stands for now; without it, every name.

    \b
    Examples:
      agent environment current
      agent environment current work --json
    """
    from tools.environment.history import histories, read_history

    home = the_home()
    if name is not None:
        found = read_history(home, name)
        if found is None:
            raise CommandError(f"{name!r} stands for no environment; see: agent environment current", 3)
        if as_json:
            emit(_summary(found))
        else:
            click.echo(safe(found.current.environment))
        return
    every = histories(home)
    if as_json:
        emit({"names": [_summary(history) for history in every]})
        return
    if not every:
        click.echo("No name stands for an environment yet. Give one with: agent environment create")
    for line in table([[one.name, one.current.environment, _how(one.current)] for one in every]):
        click.echo(line)


def _how(choice: Choice) -> str:
    return f"{choice.because}, {choice.at[:16].replace('T', ' ')}"


def _summary(history: History) -> dict[str, Any]:
    before = history.previous
    chosen = history.current._asdict()
    del chosen["before"]
    return {"name": history.name, **chosen, "previous": before.environment if before else None}


@click.command()
@click.argument("path")
@click.option("--name", default=DEFAULT, show_default=True, help="What it is called from now on.")
@json_option
def adopt(path: str, name: str, as_json: bool) -> None:
    """Give a name to a folder of someone else's: a virtual environment, a site-packages or a checkout.

    It is only read, now and later. What was edited in it, and what a checkout has changed since its commit,
    is shown.

    \b
    Examples:
      agent environment adopt ~/venv --name mine
      agent environment adopt ~/src/sglang/python --name patched
    """
    import tempfile
    from pathlib import Path

    from memory.clock import SystemClock
    from tools.environment.adopt import adopt as read_folder
    from tools.environment.history import choose
    from tools.environment.patches import patches
    from tools.environment.store import chosen
    from tools.locks import holding

    home = the_home().prepare()
    found = read_folder(Path(path).expanduser().absolute())
    with tempfile.TemporaryDirectory() as work:
        local = patches(found.root, Path(work))
    with holding([resource(name)], home, progress):
        choose(home, name, chosen(found), f"adopt {path}", SystemClock())
    if as_json:
        shown = {"edited": local.edited, "editable": local.editable, "diff": local.diff}
        emit({"name": name, "environment": found.document(), "patches": shown})
        return
    lines = [f"{name} stands for {found.path}: {found.platform}, Python {found.python}"]
    lines += [f"  {package} {version}" for package, version in found.packages.items()]
    for package, folder in local.editable.items():
        lines.append(f"{package} is a checkout, its files are in {folder}; to read them adopt that folder")
    for package, files in local.edited.items():
        lines += [f"edited in {package}: {file}" for file in files]
    say(map(squeeze, lines))
    if local.none:
        click.echo("Everything is as it was installed.")
    diff = local.diff.splitlines()
    say(safe(line) for line in diff[:DIFF_LINES])
    if len(diff) > DIFF_LINES:
        click.echo(f"… {len(diff) - DIFF_LINES} more lines of the diff (--json has all)")


@click.command()
@click.argument("name", default=DEFAULT)
@click.option("--to", metavar="ENVIRONMENT", help="What to go back to; else what it stood for before.")
@json_option
def rollback(name: str, to: str | None, as_json: bool) -> None:
    """Let NAME stand for what it stood for before. The environments are all still there.

    \b
    Examples:
      agent environment rollback
      agent environment rollback work --to sglang-0.5.9
    """
    from memory.clock import SystemClock
    from tools.environment.choosing import findings_about, history_of, opened, roll_back
    from tools.environment.store import open_environment
    from tools.locks import holding

    home = the_home()
    if to is None:
        history_of(home, name)
    else:
        open_environment(home, to)
    with holding([resource(name)], home, progress):
        history = roll_back(home, name, SystemClock(), to)
    if as_json:
        emit(_summary(history))
        return
    click.echo(f"{name} stands for {safe(history.current.environment)}")
    if number := findings_about(home, opened(home, history.current)):
        progress(f"findings that are about it: {number}")


@click.command()
@click.argument("name")
def forget(name: str) -> None:
    """Take NAME away. Its environments stay until gc finds that nobody needs them.

    \b
    Examples:
      agent environment forget work
    """
    from tools.environment.history import check_name, forget as take_away
    from tools.locks import holding

    check_name(name)
    home = the_home().prepare()
    with holding([resource(name)], home, progress):
        take_away(home, name)
    click.echo(f"{name} stands for nothing now; what nobody needs goes with: agent environment gc")


@click.command()
@click.option("--yes", is_flag=True, help="Remove them. Without it: only say what would go.")
@json_option
def gc(yes: bool, as_json: bool) -> None:
    """Remove environments that no name stands for or goes back to, and that no finding cites.

    \b
    Examples:
      agent environment gc
      agent environment gc --yes
    """
    from tools.environment.collect import collect, collection
    from tools.environment.history import histories
    from tools.environment.uv import human_size
    from tools.locks import holding

    home = the_home()
    home.prepare()
    fold(home)
    names = {DEFAULT, *(history.name for history in histories(home))}
    with holding(map(resource, names), home, progress):
        found = collection(home)
        if yes:
            collect(home, found.gone)
    if as_json:
        emit(
            {
                "kept": found.kept,
                "gone": list(found.gone),
                "bytes": found.space.free,
                "held": found.space.held,
                "removed": yes,
            }
        )
        return
    rows = [["keeps", name, why] for name, why in found.kept.items()]
    rows += [["removed" if yes else "would remove", name, ""] for name in found.gone]
    say(table(rows))
    if not found.gone and not found.space.free:
        click.echo("Nothing to remove.")
        return
    back = "came back" if yes else "would come back: do it with --yes"
    click.echo(f"{human_size(found.space.free)} {back}")
    if found.space.held:
        held = human_size(found.space.held)
        click.echo(f"{held} more are in uv's cache too, which gives them back: uv cache clean")


def fold(home: Home) -> None:
    """What findings cite must be known: the rows follow the transcripts."""
    from memory.store import Store
    from transcripts.catch_up import catch_up

    with Store(home) as store:
        problems = catch_up(store, home.transcripts, progress)
    if problems:
        raise CommandError(
            f"it cannot be told what all findings cite, so nothing is removed: {problems[0]} "
            "(agent findings rebuild says more)"
        )
