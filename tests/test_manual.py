"""What the pages say of the command line is what the program does: commands, options, every line shown."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from program import ROOT

from agent.cli.lazy import Branching, load
from agent.cli.main import COMMANDS, cli

MANUAL = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def below(command: click.Command) -> dict[str, click.Command]:
    """The commands that a command has below it, by name."""
    if isinstance(command, click.Group):
        names = command.list_commands(click.Context(command))
        found = {name: command.get_command(click.Context(command), name) for name in names}
        return {name: inner for name, inner in found.items() if inner is not None}
    if isinstance(command, Branching):
        return {name: load(place) for name, place in command.branches.items()}
    return {}


def commands() -> list[tuple[str, ...]]:
    """Every command, groups and their commands alike."""
    found: list[tuple[str, ...]] = []
    for name, command in below(cli).items():
        found.append((name,))
        found += [(name, inner) for inner in below(command)]
    return found


def named(words: tuple[str, ...]) -> click.Command:
    found: click.Command = cli
    for word in words:
        found = below(found)[word]
    return found


def options(command: click.Command) -> set[str]:
    """The long names of the options of a command and of those below it."""
    own = {max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)}
    return own.union(*(options(inner) for inner in below(command).values())) - {"--help"}


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

FRONT, *SECTIONS = re.split(r"^## agent (?=\w+$)", MANUAL, flags=re.MULTILINE)
"""What holds for all commands, and a section for each."""


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_help_has_examples_and_says_what_each_option_does(words: tuple[str, ...]) -> None:
    command = named(words)
    context = click.Context(command, info_name=f"agent {' '.join(words)}")
    assert f"agent {' '.join(words)}" in command.get_help(context).split("Examples:", 1)[1]
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, f"{parameter.name} says nothing"


def test_the_manual_has_a_section_for_each_command_and_shows_all_of_them() -> None:
    assert {section.split("\n", 1)[0] for section in SECTIONS} == set(COMMANDS)
    for words in commands():
        assert f"agent {' '.join(words)}" in MANUAL


@pytest.mark.parametrize("section", SECTIONS, ids=[section.split("\n", 1)[0] for section in SECTIONS])
def test_a_section_names_the_options_that_there_are(section: str) -> None:
    there = options(named((section.split("\n", 1)[0],)))
    # Lines of other programs, and of other commands, have options of their own.
    told = set(OPTION.findall(re.sub(r"`(?:agent|python|investigate) [^`]*`", "", section)))
    assert told <= there, "the manual names what is not there"
    assert there <= told | set(OPTION.findall(FRONT)), "the manual does not name what is there"


def shown_commands() -> list[str]:
    """Every command line of ours that README and manual show, without what a shell makes of its end."""
    found = []
    for page in ("README.md", "docs/cli.md", "docs/extending.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        found += re.findall(r"^    (agent [^\n]+)$", text, re.MULTILINE)
        found += re.findall(r"(?:^|[ `/])(agent [a-z]+ [^`\n]*--[^`\n]+)`", text, re.MULTILINE)
        found += re.findall(r"\.venv/bin/(agent [^\n&]+)", text)
    return sorted({re.split(r" +[#>]", line)[0] for line in found})


@pytest.mark.parametrize("line", shown_commands())
def test_every_command_that_is_shown_can_be_typed(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "agent"
    command: click.Command = cli
    while words and words[0] in below(command):
        command = below(command)[words.pop(0)]
    assert command is not cli
    # Parsing alone: unknown options, missing arguments and wrong values raise here.
    command.make_context(line, words)
