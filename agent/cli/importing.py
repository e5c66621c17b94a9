"""``agent transcripts import``: sessions of other agents into the home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, redactor, say, table, the_home

if TYPE_CHECKING:
    from transcripts.imported.model import Session
    from transcripts.imported.recording import Kept
    from transcripts.importers.source import ImportingError

COUNTS = ("messages", "tool_calls", "failures", "segments")


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def import_(paths: tuple[Path, ...], as_json: bool) -> None:
    """Sessions of other agents, from files, folders or databases; the format is told by what is in them.

    opencode, Claude Code, Codex, OpenAI messages, mini-swe-agent and SWE-agent. Importing again changes
    nothing, or takes what is new. What can be imported is, also where another path is refused (exit code 2).

    \b
    Examples:
      agent transcripts import ~/.claude/projects
      agent transcripts import opencode.db rollout.jsonl
      agent transcripts import session.json --json
    """
    from transcripts.imported.reader import Library
    from transcripts.importers.importing import import_path
    from transcripts.importers.source import ImportingError

    home = the_home()
    clean = redactor().without
    done: list[Kept] = []
    failed: list[ImportingError] = []
    for path in paths:
        try:
            done += import_path(home, path, clean, progress)
        except ImportingError as error:
            failed.append(error)
    if failed and not done:
        raise _all_of(failed, len(paths))
    # The same session from two places counts once, as it is kept.
    kept = {one.path: one for one in done}
    with Library(home, progress) as library:
        found = [
            {**row(one.session, len(library.children(one.session.id))), "change": one.change}
            for one in kept.values()
        ]
    if as_json:
        emit({"sessions": found})
    else:
        say(table([*head(found), *map(cells, found)]))
    if failed:
        raise _all_of(failed, len(paths))


def _all_of(failed: list[ImportingError], paths: int) -> Exception:
    """One error for all paths that could not be imported."""
    if paths == 1:
        return failed[0]
    return CommandError(f"{len(failed)} of {paths} paths not imported: {'; '.join(map(str, failed))}")


def row(session: Session, children: int) -> dict[str, Any]:
    """A session as JSON."""
    return {
        "id": session.id,
        "format": session.format,
        **{key: getattr(session, key) for key in COUNTS},
        "children": children,
        "skipped": dict(session.skipped),
        **{key: getattr(session, key) for key in ("dead", "orphans", "unanswered", "parent", "title")},
        **{key: getattr(session, key) for key in ("started", "ended", "layout", "origin")},
    }


def head(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [["session", "format", "messages", "calls", "failed", "segments", ""]] if rows else []


def cells(found: dict[str, Any]) -> list[str]:
    from agent.text import shorten

    skipped = ", ".join(f"{count} {kind}" for kind, count in found["skipped"].items())
    rest = f"passed over: {skipped}" if skipped else ""
    return [found["id"], found["format"], *(str(found[key]) for key in COUNTS), shorten(rest, 60)]
