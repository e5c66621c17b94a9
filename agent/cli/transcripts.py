"""``agent transcripts``: what was done, event by event. Plain JSON lines; nothing heavy is imported."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from agent.cli.common import CommandError, emit, json_option, page, say, table, the_home, width
from agent.cli.lazy import LazyGroup
from agent.event_line import WIDTH, event_line
from agent.text import shorten
from memory.home import Home
from memory.names import few

COMMANDS = {
    "list": ("agent.cli.transcripts:list_", "Transcripts, newest first."),
    "show": ("agent.cli.transcripts:show", "The events of a transcript, one line each."),
    "parse-command": ("agent.cli.parse_command:parse_command", "What a shell command does, as typed calls."),
    "import": ("agent.cli.importing:import_", "Sessions of other agents, into the home."),
    "findings": ("agent.cli.session_findings:findings", "What a session shows of backends, as candidates."),
    "search": ("agent.cli.imported:search", "Words in imported sessions."),
    "stats": ("agent.cli.imported:stats", "What imported sessions did, in numbers."),
    "explain": ("agent.cli.session_explain:explain", "What led to a step, and what became of it."),
    "redact": ("agent.cli.redact:redact", "Take out what should not have been written."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, no_args_is_help=False)
def transcripts() -> None:
    """Read what was done.

    \b
    Examples:
      agent transcripts list
      agent transcripts show --last
      agent transcripts import ~/.claude/projects
      agent transcripts search out of memory
      agent transcripts findings ses_3ce42b
    """


@click.command("list")
@click.option("--imported", is_flag=True, help="Sessions of other agents that were imported.")
@json_option
def list_(imported: bool, as_json: bool) -> None:
    """Transcripts, newest first.

    \b
    Examples:
      agent transcripts list
      agent transcripts list --imported
      agent transcripts list --json
    """
    if imported:
        from agent.cli.imported import list_imported

        list_imported(the_home(), as_json=as_json)
        return
    rows = [_summary(path) for path in reversed(files(the_home()))]
    if as_json:
        emit({"transcripts": rows})
        return
    if not rows:
        say(['No transcripts yet. Start with: agent investigate "qwen3.5 nvfp4 on sm120"'])
    if imports := len(_imports(the_home())):
        many = "s were" if imports > 1 else " was"
        say([f"{imports} session{many} imported: agent transcripts list --imported"])
    say(table([[row["id"], row["ended"], shorten(row["question"], 60)] for row in rows]))


@click.command()
@click.argument("transcript", required=False)
@click.option("--last", is_flag=True, help="The newest transcript.")
@click.option("--from", "start", type=click.IntRange(0), default=0, help="First event to show.")
@click.option("--events", type=click.IntRange(1), default=None, help="How many to show.")
@click.option("--segment", type=click.IntRange(1), default=None, help="Of an import: only this segment.")
@click.option("--tools-only", is_flag=True, help="Of an import: only calls and their results.")
@json_option
def show(
    transcript: str | None,
    last: bool,
    start: int,
    events: int | None,
    segment: int | None,
    tools_only: bool,
    as_json: bool,
) -> None:
    """The events of TRANSCRIPT (an id, its beginning, or a file), one line each.

    An imported session is shown by its id, or its beginning.

    \b
    Examples:
      agent transcripts show --last
      agent transcripts show 20260307-3f --from 40 --events 20
      agent transcripts show ses_3ce42b --segment 2 --tools-only
      agent transcripts show --last --json
    """
    from transcripts.reader import read_raw

    home = the_home()
    if transcript is not None and not last and not is_ours(home, transcript):
        from agent.cli.imported import show_imported

        show_imported(home, transcript, start, events, segment, tools_only=tools_only, as_json=as_json)
        return
    if segment is not None or tools_only:
        raise CommandError(
            "--segment and --tools-only are for imported sessions; page with --from and --events"
        )
    path = find_transcript(home, transcript, last=last)
    found = _begun(read_raw(path, start=start, limit=events))
    if as_json:
        emit({"transcript": path.stem, "events": found})
    else:
        room = width() if sys.stdout.isatty() else WIDTH
        page(event_line(event, room) for event in found)


def files(home: Home) -> list[Path]:
    """All transcripts of a home, oldest first."""
    if not home.transcripts.is_dir():
        return []
    found = []
    for path in home.transcripts.glob("*.jsonl"):
        with suppress(OSError):  # a link that leads nowhere, or a file that was just moved away
            state = path.stat()
            if stat.S_ISREG(state.st_mode):
                found.append((state.st_mtime_ns, path.name, path))
    return [path for *_, path in sorted(found)]


KEPT = frozenset({"accounts", "import", "verify"})
"""Drivers of transcripts that a command wrote to keep something: nobody decided anything in them."""


def find_transcript(home: Home, name: str | None, *, last: bool, decided: bool = False) -> Path:
    """The file of a transcript by id, beginning of an id, or path; or the newest one. ``decided``: the newest
    in which something was decided."""
    known = files(home)
    if last or name is None:
        if name is not None:
            raise CommandError("give a transcript or --last, not both")
        if not last:
            raise CommandError("which transcript? give an id (see agent transcripts list) or --last")
        newest = next(
            (path for path in reversed(known) if begins(path) and not (decided and kept(path))), None
        )
        if newest is None:
            what = "investigations" if decided else "transcripts"
            raise CommandError(
                f'there are no {what} yet; start with: agent investigate "qwen3.5 nvfp4 on sm120"'
            )
        return newest
    if "/" in name or name.endswith(".jsonl"):
        return Path(name)
    matches = [path for path in known if path.stem.startswith(name)] if name else []
    exact = [path for path in matches if path.stem == name]
    if len(matches) > 1 and not exact:
        raise CommandError(f"{name!r} fits several transcripts: {few([path.stem for path in matches], 5)}")
    if not matches and name and _imports(home, name):
        raise CommandError(
            f"{name!r} is an imported session, no investigation; see: agent transcripts show {name}, "
            f"agent replay {name} --rerun reads -e ENVIRONMENT"
        )
    if not matches:
        raise CommandError(f"no transcript {name!r}; see: agent transcripts list")
    return (exact or matches)[0]


def _imports(home: Home, name: str = "") -> list[Path]:
    """The files of imported sessions whose ids begin so, by their names alone."""
    files = home.imported.glob("[!.]*.jsonl")
    return [path for path in files if path.stem.partition("-")[2].startswith(name)]


def is_ours(home: Home, name: str) -> bool:
    """Whether a name is that of a transcript here, or of none that was imported either."""
    if not name or "/" in name or name.endswith(".jsonl") or not home.imported.is_dir():
        return True
    return any(path.stem.startswith(name) for path in files(home))


def begins(path: Path) -> bool:
    """Whether a file begins as a transcript does: what else lies there is no investigation."""
    from transcripts.chain import LogError
    from transcripts.reader import first_raw

    try:
        first_raw(path)
    except LogError:
        return False
    return True


def kept(path: Path) -> bool:
    """Whether a command wrote this transcript, and nobody decided anything in it."""
    from transcripts.reader import first_raw

    return first_raw(path)["data"].get("driver") in KEPT


def _begun(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same, the first of them read: what is no transcript is said before anything is written."""
    first = list(islice(events, 1))
    return chain(first, events)


def _summary(path: Path) -> dict[str, Any]:
    from transcripts.chain import LogError
    from transcripts.reader import ending, first_raw

    try:
        question = str(first_raw(path)["data"].get("question", ""))
        return {"id": path.stem, "ended": ending(path) or "unfinished", "question": question}
    except LogError as error:
        return {"id": path.stem, "ended": "unreadable", "question": str(error)}
