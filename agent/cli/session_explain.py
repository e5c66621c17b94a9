"""``agent transcripts explain``: what led to a step, what it showed, and what became of it. Nothing heavy is
imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

import click

from agent.cli.common import CommandError, emit, json_option, say, the_home
from agent.cli.transcripts import find_transcript, is_ours
from agent.text import safe, squeeze
from memory.home import Home

if TYPE_CHECKING:
    from tools.sessions.explaining import Explanation, Statement

TITLES = {
    "did": "What it did",
    "request": "What it served",
    "hypothesis": "What it tested",
    "assumption": "What it rests on",
    "before": "Before",
    "first": "Seen here first",
    "later": "Later",
}


@click.command("explain")
@click.argument("transcript")
@click.argument("event", type=click.IntRange(0))
@json_option
def explain(transcript: str, event: int, as_json: bool) -> None:
    """Explain event EVENT of TRANSCRIPT: an imported session, or an investigation of our own.

    The request it served, what had been read of the same file or symbol, what was seen for the first time,
    and later calls on the same file or backend with how they came out; each with the events that say so.

    \b
    Examples:
      agent transcripts explain ses_41ab 5955
      agent transcripts explain 20260307-3f 40
      agent transcripts explain ses_41ab 5955 --json
    """
    explanation = _explained(the_home(), transcript, event)
    if as_json:
        emit(asdict(explanation))
    else:
        say(_lines(explanation))


def _explained(home: Home, name: str, event: int) -> Explanation:
    if not is_ours(home, name):
        from tools.sessions.explain_imported import explain_imported
        from transcripts.imported.reader import Library

        with Library(home) as library:
            return explain_imported(library.open(name), event)
    from tools.sessions.explain_own import explain_own
    from transcripts.reader import read_raw

    own = find_transcript(home, name, last=False)
    try:
        return explain_own(own.stem, read_raw(own), event)
    except LookupError as error:
        raise CommandError(str(error.args[0])) from None


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"event {explanation.event} of {explanation.transcript} ({explanation.format})"
    for about, title in TITLES.items():
        statements = [one for one in explanation.statements if one.about == about]
        yield from chain([title] if statements else (), (f"  {_line(one)}" for one in statements))


def _line(statement: Statement) -> str:
    """The statement, with the events that its words do not name."""
    text = safe(squeeze(statement.text))
    named = set(re.findall(r"\d+", text))
    more = [str(number) for number in statement.events if str(number) not in named]
    return f"{text} (event{'s' if len(more) > 1 else ''} {', '.join(more)})" if more else text
