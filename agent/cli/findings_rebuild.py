"""``agent findings rebuild``: every row made again from the transcripts."""

from __future__ import annotations

import click

from agent.cli.common import emit, json_option, progress, table, the_home


@click.command()
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
