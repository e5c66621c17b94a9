"""``agent transcripts redact``: take secrets out of transcripts that were written already."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, the_home
from agent.text import safe

if TYPE_CHECKING:
    from transcripts.redaction.redact import Redacted
    from transcripts.redaction.survey import Surveyed


@click.command()
@click.argument("transcript", required=False)
@click.option("--last", is_flag=True, help="The newest transcript.")
@click.option("--all", "everything", is_flag=True, help="Every transcript.")
@click.option(
    "--secret-file",
    "secret_files",
    metavar="FILE|-",
    multiple=True,
    help="Strings to take out too, one a line; - is stdin. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@json_option
def redact(
    transcript: str | None,
    last: bool,
    everything: bool,
    secret_files: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Take out of TRANSCRIPT (an id, its beginning, or a file) what looks like a secret.

    The log is written anew under the same numbers and times, and whatever names one of its hashes follows:
    findings, artifacts, other transcripts, the database. Secrets that do not look like one are read from a
    file or stdin, never from the command line, which others see. Exit code 1: one still stands somewhere.

    \b
    Examples:
      agent transcripts redact --last --dry-run
      agent transcripts redact 20260307-3f --secret-file key.txt
      pass show work/key | agent transcripts redact --all --secret-file -
    """
    from agent.cli.transcripts import begins, files, find_transcript
    from tools.output import cap
    from transcripts.redaction.redact import redact as take_out
    from transcripts.redaction.secrets import LEAST, environment_secrets

    home = the_home()
    if everything:
        if transcript is not None or last:
            raise CommandError("give a transcript, --last or --all, not several of them")
        paths = [path for path in files(home) if begins(path)]
    else:
        paths = [find_transcript(home, transcript, last=last)]
    exact = [secret for file in secret_files for secret in _secrets(file, LEAST)]
    exact += environment_secrets(os.environ)
    done = take_out(home, paths, exact, cap, dry=dry_run, tell=progress)
    if as_json:
        emit(_document(done, dry_run))
    else:
        for line in _lines(done, dry_run):
            click.echo(safe(line))
    return 1 if done.left or done.kept else 0


def _secrets(file: str, least: int) -> list[str]:
    """The lines of a file, or of stdin."""
    where = "stdin" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        lines = [line for line in data.decode().splitlines() if line]
    except OSError as error:
        raise CommandError(f"cannot read the secrets in {where}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{where} is no text; expected secrets, one a line") from None
    if not lines:
        raise CommandError(f"{where} holds no secret; expected one a line")
    for number, line in enumerate(lines, start=1):
        if len(line) < least:
            raise CommandError(
                f"{where}: secret {number} has {len(line)} characters and would be found everywhere; "
                f"expected {least} or more"
            )
    return lines


def _lines(done: Redacted, dry_run: bool) -> list[str]:
    would = "would be " if dry_run else ""
    lines = [_line(one, would) for one in done.changed]
    if done.finished:
        lines.append("what an earlier run had begun is finished")
    if not lines:
        lines.append("nothing to redact")
    if done.artifacts:
        lines.append(f"{done.artifacts} artifact{'s' if done.artifacts > 1 else ''} replaced")
    lines += [
        f"artifact {name} is kept: other transcripts name it; redact them too (--all)" for name in done.kept
    ]
    lines += [f"a secret still stands in {path}; {_way_out(path)}" for path in done.left]
    if done.changed and not dry_run:
        lines.append("What was written once may have been read: replace the secrets themselves.")
    return lines


def _way_out(path: Path) -> str:
    if "imported" in {path.parent.name, path.name.partition(".")[0]}:
        return "delete it and imported.db, and import the session again from a source without it"
    return "redact all that name it (--all)"


def _line(one: Surveyed, would: str) -> str:
    torn = f"; {one.torn} bytes of a torn last line {would}cut off" if one.torn else ""
    if not one.strings:
        return f"{one.path.stem}: {would or 'is '}written anew, since it cites another{torn}"
    where = f"in {one.touched} of {one.events} events"
    return f"{one.path.stem}: {one.strings} strings {would}redacted {where}{torn}"


def _document(done: Redacted, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "transcripts": [
            {"id": one.path.stem, "events": one.events, "touched": one.touched, "strings": one.strings}
            for one in done.changed
        ],
        "artifacts": done.artifacts,
        "kept": list(done.kept),
        "finished": done.finished,
        "left": [str(path) for path in done.left],
    }
