"""What was given at the command line, looked at before anything is done."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from click.core import ParameterSource

from agent.cli.common import CommandError


def to_write(option: str, path: str | Path | None) -> None:
    """Raises :class:`CommandError` where a file that is to be written in the end cannot be."""
    if path is None:
        return
    file = Path(path)
    place = file if file.exists() else file.absolute().parent
    fits = place.is_dir() is not file.exists()
    if not fits or not os.access(place, os.W_OK):
        raise CommandError(f"{option} {path} cannot be written; expected a file in a folder that is there")


def there_or_named(option: str, text: str) -> str:
    """A path that is there, as seen from anywhere; or a name on a hub, or an address. Else it is refused."""
    path = Path(text).expanduser()
    if path.exists():
        return str(path.absolute())
    if text.startswith((".", "/", "~")) or (text.count("/") > 1 and "://" not in text):
        raise CommandError(f"{option} {text}: there is no such file or folder, nor is it a name on a hub")
    return text


def only_for(what: str, names: Iterable[str]) -> None:
    """Raises :class:`CommandError` for options that were typed and are of no use without ``what``."""
    context = click.get_current_context()
    for parameter in context.command.params:
        typed = context.get_parameter_source(str(parameter.name))
        if parameter.name in names and typed is ParameterSource.COMMANDLINE:
            raise CommandError(f"{parameter.opts[0]} is for {what}")
