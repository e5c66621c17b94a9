"""Models and tokenizers as people name them: folders, names on a hub, addresses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agent.cli.common import CommandError
from agent.cli.given import there_or_named, to_write
from agent.cli.lazy import Branching, LazyGroup, load
from agent.cli.main import cli


def test_what_is_there_is_seen_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a model"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for said in (str(folder), "a model", "./a model", "~/a model"):
        assert there_or_named("--model", said) == str(folder)


def test_names_and_addresses_are_left_to_the_engine() -> None:
    for said in ("larch", "maple/larch-8b", "maple/larch-GGUF:Q4", "s3://bucket/models/larch"):
        assert there_or_named("--model", said) == said


def test_a_path_that_is_not_there_is_refused() -> None:
    for said in ("/no/such", "./no", "~/no/such", "no/such/folder"):
        with pytest.raises(CommandError, match="there is no such file or folder"):
            there_or_named("--model", said)


def test_a_file_that_is_there_is_written_whatever_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as /dev/stdout, whose folder is nobody's."""
    file = tmp_path / "there"
    file.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) == file)
    to_write("--html", file)
    for path in (tmp_path / "new", tmp_path, tmp_path / "no" / "such", file / "below"):
        with pytest.raises(CommandError, match="cannot be written"):
            to_write("--html", path)


def commands(command: click.Command, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that can be called, and how."""
    below = (
        {name: place for name, (place, _) in command.lazy.items()} if isinstance(command, LazyGroup) else {}
    )
    if isinstance(command, Branching):
        below = command.branches
    yield words, command
    for name, place in below.items():
        yield from commands(load(place), *words, name)


def test_an_option_that_takes_one_value_is_given_once() -> None:
    for words, command in commands(cli):
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag or option.multiple:
                continue
            given = [option.opts[0], "1"] * 2
            finished = CliRunner().invoke(cli, [*words, *given], standalone_mode=False)
            assert isinstance(finished.exception, click.UsageError), (words, given)
            assert "given 2 times" in finished.exception.message, (words, given, finished.exception.message)
