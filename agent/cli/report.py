"""``agent report``: the answer of a transcript, drawn again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.cli.common import CommandError, draw, emit, json_option, the_home, width
from agent.cli.transcripts import find_transcript

if TYPE_CHECKING:
    from transcripts.events import Concluded


@click.command()
@click.argument("transcript", required=False)
@click.option("--last", is_flag=True, help="The newest transcript.")
@click.option("--all", "everything", is_flag=True, help="Every row.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown with all evidence on stdout.")
@json_option
def report(transcript: str | None, last: bool, everything: bool, as_markdown: bool, as_json: bool) -> int:
    """The answer of TRANSCRIPT (an id, its beginning, or a file) again, from its log alone.

    \b
    Examples:
      agent report --last
      agent report 20260307-3f --all
      agent report --last --markdown > answer.md
    """
    path = find_transcript(the_home(), transcript, last=last)
    concluded = conclusion_of(path)
    answer = concluded.answer
    if answer is None:
        raise CommandError(f"{path.stem} has no answer ({concluded.exit_reason}): {concluded.summary}", 1)
    if as_json:
        emit(answer.model_dump(mode="json"))
    elif as_markdown:
        from agent.markdown import markdown

        click.echo(markdown(answer, why_undecided(path)), nl=False)
    else:
        from agent.report import screen

        why = why_undecided(path) if everything else None
        draw(screen(answer, everything=everything, width=width(), why=why))
    return 0


def conclusion_of(path: Path) -> Concluded:
    """The last event of a finished transcript. Raises :class:`CommandError` for one that goes on."""
    from transcripts.events import Concluded
    from transcripts.log import tail

    events = tail(path)
    if not events or not isinstance(events[-1].data, Concluded):
        raise CommandError(
            f"{path.stem} is not concluded yet; see what was done: agent transcripts show {path.stem}", 1
        )
    return events[-1].data


def why_undecided(path: Path) -> dict[tuple[str, str], str]:
    """Component and backend → why reading did not decide, from the hypotheses of a transcript."""
    from agent.reasons import undecided
    from transcripts.events import HypothesisChanged
    from transcripts.log import read

    return undecided(event.data for event in read(path) if isinstance(event.data, HypothesisChanged))
