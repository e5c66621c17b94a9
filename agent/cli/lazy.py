"""Groups of commands that are imported when they are called, not when they are listed."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """``lazy``: name → ``module:attribute`` and the line that stands in the list of commands."""

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        return load(self.lazy[cmd_name][0])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.lazy and not name.startswith("-"):
            near = get_close_matches(name, self.lazy, 2)
            what = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self.lazy)}"
            raise click.UsageError(f"No such command {name!r}; {what}", ctx)
        found, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            refuse_twice(command, found, rest, ctx)
        return found, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.lazy.items()])


class Branching(click.Command):
    """A command with plain arguments of its own that also has commands below it.

    ``branches``: word → ``module:attribute``. A first argument that is such a word leads there.
    """

    branches: dict[str, str]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.branches:
            command = load(self.branches[args[0]])
            name = f"{info_name} {args[0]}"
            refuse_twice(command, name, args[1:], parent)
            return command.make_context(name, args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def refuse_twice(
    command: click.Command, name: str | None, args: list[str], parent: click.Context | None
) -> None:
    """Raises a usage error for an option that takes one value and was given another: click takes the last."""
    if isinstance(command, Branching) and args and args[0] in command.branches:
        return
    context = click.Context(command, parent, name, **command.context_settings)
    given = Counter(command.make_parser(context).parse_args(list(args))[2])
    for option, times in given.items():
        if times > 1 and isinstance(option, click.Option) and not option.multiple and not option.is_flag:
            raise click.UsageError(
                f"{'/'.join(option.opts)} is given {times} times; it takes one value", context
            )


def load(place: str) -> click.Command:
    """The command at ``module:attribute``."""
    module, _, attribute = place.partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command
