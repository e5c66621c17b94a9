"""``agent findings``: what is known, over the read views of the database; nothing heavy is imported."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.common import emit, json_option, progress, table, the_home
from agent.text import safe_block, shorten, squeeze
from memory.database import StoreError, explained
from memory.home import Home
from memory.views import Views


@click.group(no_args_is_help=False)
def findings() -> None:
    """Read what is known.

    \b
    Examples:
      agent findings list --arch sm120
      agent findings show 3f9a1c
    """


@findings.command("list")
@click.option("--component", metavar="NAME", help="Only of this component.")
@click.option("--backend", metavar="NAME", help="Only of this backend.")
@click.option("--arch", metavar="ARCH", help="Only on this architecture.")
@click.option("--all", "everything", is_flag=True, help="Those that are no longer current too.")
@json_option
def list_(
    component: str | None, backend: str | None, arch: str | None, everything: bool, as_json: bool
) -> int:
    """Findings, newest first.

    \b
    Examples:
      agent findings list
      agent findings list --component moe_runner --arch sm120
      agent findings list --json
    """
    if arch is not None:
        from memory.architecture import parse_architecture

        arch = parse_architecture(arch).name
    home = the_home()
    views, code = _views(home)
    rows = views.findings(
        statuses=() if everything else ("current",), component=component, backend=backend, arch=arch
    )
    if as_json:
        emit({"findings": [_document(views, row) for row in rows]})
        return code
    if not rows and not code:
        click.echo("No findings." if component or backend or arch else "No findings yet.")
    cells = [
        [
            row["id"][:12],
            row["component"],
            row["backend"],
            row["arch"],
            row["verdict"] or row["outcome"] or "",
            row["status"] if everything else "",
            shorten(_versions(views, row), 44),
            shorten(_scenario(views, row), 60),
        ]
        for row in rows
    ]
    for line in table(cells):
        click.echo(line)
    return code


@findings.command()
@click.argument("finding")
@json_option
def show(finding: str, as_json: bool) -> int:
    """FINDING (an id or its beginning) with the evidence it rests on.

    \b
    Examples:
      agent findings show 3f9a1c
      agent findings show 3f9a1c --json
    """
    views, code = _views(the_home())
    row = views.finding(finding)
    evidence = views.evidence(row["id"])
    if as_json:
        emit({**_document(views, row), "evidence": [dict(one) for one in evidence]})
        return code
    click.echo(squeeze(row["sentence"]))
    for key in ("id", "status", "level", "engine"):
        click.echo(f"  {key:10} {squeeze(str(row[key]))}")
    click.echo(f"  {'packages':10} {squeeze(_versions(views, row))}")
    click.echo(f"  {'scenario':10} {squeeze(_scenario(views, row)) or 'as the engine defaults it'}")
    click.echo(f"  {'recorded':10} {row['recorded_at']}, {row['transcript']} event {row['event']}")
    for one in evidence:
        click.echo("")
        click.echo(squeeze(_place(one)))
        for line in safe_block(one["text"]).splitlines():
            click.echo(f"    {line}")
    return code


@findings.command()
@json_option
def rebuild(as_json: bool) -> int:
    """Make every row again from the transcripts, and compare the content of each table before and after.

    A damaged database is put aside and kept. Exit 1 if rows were not what the transcripts say, or if a
    transcript could not be folded whole.

    \b
    Examples:
      agent findings rebuild
      agent findings rebuild --json
    """
    home = the_home()
    progress("making the rows of all transcripts again")
    from transcripts.catch_up import rebuild_home

    done = rebuild_home(home, progress)
    for problem in done.problems:
        progress(f"warning: {problem}")
    if done.wrong:
        progress(f"warning: other rows than the transcripts say stood in {', '.join(done.wrong)}")
    if as_json:
        emit(
            {
                "before": done.before,
                "after": done.after,
                "same": done.same,
                "transcripts": done.transcripts,
                "events": done.events,
                "problems": list(done.problems),
                "aside": str(done.aside) if done.aside else None,
            }
        )
    else:
        for line in table([_compared(name, done.before, digest) for name, digest in done.after.items()]):
            click.echo(line)
        click.echo(f"{done.transcripts} transcripts, {done.events} events")
    return 1 if done.wrong or done.problems else 0


def _compared(name: str, before: dict[str, str] | None, after: str) -> list[str]:
    was = (before or {}).get(name)
    return [name, (was or "-")[:12], after[:12], "same" if was == after else "changed" if was else "new"]


def _views(home: Home) -> tuple[Views, int]:
    """The views, after whatever is new in the transcripts is folded, and the exit code where it cannot be."""
    from transcripts.standing import standing

    views = Views(home)
    with explained(home.transcripts, "read"):
        now = standing(views.folded(), home.transcripts)
    if now.grown or now.other:
        # Only then is the store needed, which takes a second to import.
        from memory.store import Store
        from transcripts.catch_up import catch_up

        try:
            with Store(home) as store:
                for problem in catch_up(store, home.transcripts, progress):
                    progress(f"warning: {problem}")
        except StoreError as error:
            if error.damaged:
                raise
            # What can be read is still worth reading, and what cannot be says so itself.
            left = len(now.grown) + len(now.other)
            progress(f"warning: {error}; {left} transcripts are not taken into account")
            return views, error.exit_code
    return views, 0


def _document(views: Views, row: Any) -> dict[str, Any]:
    return {**row, **{key: views.parsed(row, key) for key in ("packages", "scenario", "claim")}}


def _versions(views: Views, row: Any) -> str:
    return ", ".join(f"{name} {version}" for name, version in views.parsed(row, "packages").items())


def _scenario(views: Views, row: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in views.parsed(row, "scenario").items())


def _place(one: Any) -> str:
    if one["kind"] == "source":
        lines = f"{one['line']}-{one['end_line']}"
        return f"{one['package']} {one['version']} {one['file']}:{lines} ({one['idiom']})"
    # The columns of an event's evidence carry the names of its own fields.
    return ", ".join(
        f"{key} {one[key]}" for key in one if one[key] is not None and key not in {"text", "finding"}
    )
