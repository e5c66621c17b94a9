"""Imported sessions at the command line: which there are, their events, words in them, numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import Any

import click

from agent.cli.common import emit, json_option, page, progress, say, table, the_home, width
from agent.cli.importing import cells, head, row
from agent.event_line import WIDTH
from agent.imported_line import imported_line
from agent.text import shorten
from memory.home import Home
from transcripts.imported.reader import Library

TOOL_KINDS = ("call", "result")


def list_imported(home: Home, *, as_json: bool) -> None:
    """``agent transcripts list --imported``."""
    with Library(home, progress) as library:
        children = library.child_counts()
        found = [row(one, children.get(one.id, 0)) for one in library.sessions()]
    if as_json:
        emit({"sessions": found})
        return
    if not found:
        say(["Nothing was imported yet. Start with: agent transcripts import ~/.claude/projects"])
    lines = [[*cells(one)[:-1], shorten(one["title"] or "", 50)] for one in found]
    say(table([*head(found), *lines]))


def show_imported(
    home: Home,
    name: str,
    start: int,
    limit: int | None,
    segment: int | None,
    *,
    tools_only: bool,
    as_json: bool,
) -> None:
    """``agent transcripts show`` of an imported session."""
    with Library(home, progress) as library:
        session = library.open(name)
        kinds = TOOL_KINDS if tools_only else ()
        events = _begun(session.events(start, limit, segment=segment, kinds=kinds))
        if as_json:
            emit({"session": session.session.id, "events": events})
            return
        room = width() if sys.stdout.isatty() else WIDTH
        page(imported_line(event, room) for event in events)


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--session", metavar="ID", help="Only in this one.")
@click.option("--format", "format_", metavar="NAME", help="Only in sessions of this format.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, help="How many to show; 20 without.")
@json_option
def search(
    words: tuple[str, ...], session: str | None, format_: str | None, limit: int, as_json: bool
) -> None:
    """Events of imported sessions that hold all WORDS, the best first. In quotes: one after the other.

    \b
    Examples:
      agent transcripts search out of memory
      agent transcripts search '"illegal memory access"' --format opencode
      agent transcripts search trtllm --json
    """
    with Library(the_home(), progress) as library:
        whose = None if session is None else library.open(session).session.id
        found = library.search(" ".join(words), session=whose, format_=format_, limit=limit)
    if as_json:
        emit({"matches": [asdict(one) for one in found]})
        return
    if not found:
        say(["Nothing found."])
    say(
        table(
            [
                [
                    shorten(one.session, 36),
                    str(one.event),
                    shorten(one.name or one.kind, 12),
                    shorten(one.excerpt, 90),
                ]
                for one in found
            ]
        )
    )


@click.command()
@click.argument("session", required=False)
@json_option
def stats(session: str | None, as_json: bool) -> None:
    """What imported sessions did, in numbers: of all, or of SESSION alone.

    \b
    Examples:
      agent transcripts stats
      agent transcripts stats ses_3ce42b
      agent transcripts stats --json
    """
    with Library(the_home(), progress) as library:
        found = library.stats(None if session is None else library.open(session))
    if as_json:
        emit(found)
        return
    say(table([["", *found["totals"]], ["all", *map(str, found["totals"].values())]]))
    for title, key in (("format", "formats"), ("tool", "tools"), ("segment", "segments")):
        if found[key]:
            say(["", *table(_rows(title, found[key]))])


def _rows(title: str, found: list[dict[str, Any]]) -> list[list[str]]:
    return [[title, *list(found[0])[1:]], *([str(value) for value in one.values()] for one in found)]


def _begun(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same, the first of them read: what cannot be read is said before anything is written."""
    first = list(islice(events, 1))
    return chain(first, events)
