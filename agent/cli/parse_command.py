"""``agent transcripts parse-command``: what a shell command does, as typed calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from agent.cli.common import CommandError, emit, json_option, say
from agent.text import shorten


@click.command("parse-command")
@click.argument("command", required=False)
@click.option("--file", "file", metavar="F.jsonl|-", help="The `command` of each line; - is stdin.")
@json_option
def parse_command(command: str | None, file: str | None, as_json: bool) -> None:
    """What COMMAND (- is stdin) does, as typed calls: what it reads, searches, installs, launches, measures.

    Nothing is executed. `mutates` is false only where every part is known to read and nothing else. With
    --file the answer is a JSON list, in the order of the lines.

    \b
    Examples:
      agent transcripts parse-command "sed -n '840,910p' sglang/srt/server_args.py"
      agent transcripts parse-command "ssh box 'pip install -U sglang'" --json
      agent transcripts parse-command --file commands.jsonl
    """
    from transcripts.commands import parse_command as parse

    if (command is None) == (file is None):
        raise CommandError("give either a command or --file F.jsonl")
    if file is not None:
        commands = list(_commands(file))  # a bad line is said before anything is written
        _write_list(parse(one).document() for one in commands)
        return
    assert command is not None
    if command == "-":
        command = sys.stdin.buffer.read().decode("utf-8", "replace")
    found = parse(command).document()
    if as_json:
        emit(found)
    else:
        say(_lines(found))


def _commands(file: str) -> Iterator[str]:
    """The ``command`` of each line. Raises :class:`CommandError` with the line's number."""
    try:
        with Path(file).open("rb") if file != "-" else sys.stdin.buffer as lines:
            yield from _read(lines, "stdin" if file == "-" else file)
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}") from error


def _read(lines: IO[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            command = json.loads(line.decode("utf-8", "replace"))["command"]
        except (ValueError, LookupError, TypeError, RecursionError):
            command = None
        if not isinstance(command, str):
            raise CommandError(f'{name}, line {number}: expected a JSON object with a text "command"')
        yield command


def _write_list(documents: Iterator[dict[str, Any]]) -> None:
    """A JSON list on stdout, an item a line, one held at a time."""
    sys.stdout.write("[")
    for number, document in enumerate(documents):
        sys.stdout.write(f"{',' if number else ''}\n {json.dumps(document, sort_keys=True)}")
    sys.stdout.write("\n]\n")


def _lines(found: dict[str, Any]) -> list[str]:
    """The same for a person: a line for each step."""
    steps = found["steps"] or [found]
    return [
        *(f"{step['kind']:<20} {_fields(step['fields'])}".rstrip() for step in steps),
        "may change something" if found["mutates"] else "reads only",
    ]


def _fields(fields: dict[str, Any]) -> str:
    return "  ".join(f"{name}={shorten(json.dumps(value), 120)}" for name, value in sorted(fields.items()))
