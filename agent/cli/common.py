"""What commands share: options, the context that tools run in, drawing, JSON."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.text import safe
from memory.home import Home

if TYPE_CHECKING:
    from agent.layout import Line
    from memory.architecture import Architecture
    from tools.environment.model import Environment
    from transcripts.redaction.secrets import Redactor

_SETTING = re.compile(r"([A-Za-z]\w*\.)?[A-Za-z_]\w*|\$\w+")
Function = TypeVar("Function", bound=Callable[..., Any])


class CommandError(Exception):
    """An expected error of a command, with its exit code."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Context:
    """What tools are given at the command line."""

    home: Home

    def progress(self, text: str) -> None:
        progress(text)


def progress(text: str) -> None:
    """What is going on, on stderr. Never a reason to stop: nobody may be reading it."""
    try:
        click.echo(f"· {safe(text)}", err=True)
    except ValueError:
        return
    except OSError:
        # What could not be written stays in the stream's buffer, and would fail whoever flushes it next.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)


def redactor() -> Redactor:
    """What makes things fit for a log: it knows the keys in this program's environment too."""
    from transcripts.redaction.secrets import Redactor, environment_secrets

    return Redactor(environment_secrets(os.environ))


def the_home() -> Home:
    """Where things are kept. Raises :class:`CommandError` if that cannot even be a folder."""
    home = Home.default()
    there = next((path for path in (home.root, *home.root.parents) if path.exists()), home.root)
    if there.exists() and not there.is_dir():
        raise CommandError(f"{there} is no folder; set ASSAY_HOME to a folder that can be written", 3)
    return home


def package_options(function: Function) -> Function:
    """``-p/--package``, ``-e/--environment``: what is read."""
    function = click.option(
        "-e",
        "--environment",
        metavar="NAME|PATH",
        help="An environment, a folder of packages, docker:IMAGE or ssh://HOST/PATH.",
    )(function)
    return click.option(
        "-p", "--package", "packages", metavar="P==V", multiple=True, help="A package to read; repeatable."
    )(function)


def engine_option(function: Function) -> Function:
    return click.option("--engine", metavar="NAME", help="sglang (the default) or another with a profile.")(
        function
    )


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")(
        function
    )


def scenario_option(function: Function) -> Function:
    return click.option(
        "--scenario",
        "scenario",
        metavar="[COMPONENT.]KEY=VALUE",
        multiple=True,
        help="A fact to judge under; repeatable. Without COMPONENT it reaches all.",
    )(function)


class Finite(click.FloatRange):
    """A number in a range; ``nan`` is in none, and what has no end is no limit."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number that ends.", param, ctx)
        return number


CONFIG_LIMIT = 4 << 20
"""Bytes of a ``config.json``; real ones have a few thousand."""


def model_options(function: Function) -> Function:
    ranks = click.option(
        "--tp", type=click.IntRange(1, 1024), metavar="N", help="Ranks that tensors are divided over."
    )
    config = click.option(
        "--model-config",
        metavar="FILE",
        help="The model's config.json: judge for its classes, quantisation and sizes.",
    )
    return config(ranks(function))


def model_config_of(path: str | None) -> str | None:
    """The text of a ``config.json``. Raises :class:`CommandError` where it cannot be read or is no object."""
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            data = file.read(CONFIG_LIMIT + 1)
        found = json.loads(data) if len(data) <= CONFIG_LIMIT else None
    except OSError as error:
        raise CommandError(f"--model-config {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CommandError(
            f"--model-config {path}: expected a model's config.json, an object of at most 4 MB"
        )
    return json.dumps(found, sort_keys=True)


def scenario_of(given: Sequence[str]) -> dict[str, str]:
    """``key=value`` pairs as a mapping. Raises :class:`CommandError` for what is none, or said twice."""
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not _SETTING.fullmatch(key.strip()) or not value.strip():
            raise CommandError(
                f"--scenario {one!r} is not [COMPONENT.]KEY=VALUE, e.g. attention.kv_cache_dtype=fp8_e4m3"
            )
        if found.setdefault(key.strip(), value.strip()) != value.strip():
            raise CommandError(
                f"--scenario gives {key.strip()} twice, {found[key.strip()]} and {value.strip()}"
            )
    return found


def requirements_of(packages: Sequence[str], positional: Sequence[str] = ()) -> list[str]:
    """Packages from options and positional arguments, in order, each once."""
    return list(dict.fromkeys([*packages, *positional]))


def one_source(environment: str | None, requirements: Sequence[str]) -> None:
    """Raises :class:`CommandError` unless what is read is named in one way."""
    if environment is not None and requirements:
        raise CommandError("give packages (-p) or an environment (-e), not both")
    if environment is not None and not environment.strip():
        raise CommandError(
            "-e/--environment is empty; expected a name (see agent environment list) or a folder"
        )


def place_of(home: Home, environment: str) -> str:
    """What to open for ``-e``: the copy of an image, another host's folder or checkouts, else itself. What is
    not as it was installed there is said."""
    from tools.environment.places import arrived, local_changes

    name = arrived(home, environment.strip(), progress)
    for line in local_changes(home, name):
        progress(line)
    return name


def environment_of(
    home: Home,
    environment: str | None,
    requirements: Sequence[str],
    arch: Architecture | None,
    engine: str | None = None,
    *,
    with_pins: bool = True,
) -> Environment:
    """The environment that was named, or the one that the packages make (created if need be).

    ``with_pins``: an engine alone brings the kernel packages that it pins; which, is said.
    """
    if environment is not None:
        from tools.environment.store import open_environment

        one_source(environment, requirements)
        return open_environment(home, place_of(home, environment))
    from tools.engines.adapter import engine as profile
    from tools.environment.create import create_environment

    if engine is not None and not requirements:
        requirements = [profile(engine).distribution]
    made = create_environment(home, list(requirements), arch, progress, with_pins=with_pins)
    if with_pins and len(requirements) < 2 and len(made.packages) > 1:
        progress(f"with the kernel packages that the engine pins: {_packages(made, requirements)}")
    return made


def _packages(made: Environment, asked: Sequence[str]) -> str:
    """The packages that were not asked for."""
    from memory.names import distribution

    named = {distribution(one.partition("==")[0].strip()) for one in asked}
    return ", ".join(f"{name} {version}" for name, version in made.packages.items() if name not in named)


def emit(document: Mapping[str, Any]) -> None:
    """A JSON document on stdout. Escaped to ASCII, so that nothing in it can drive a terminal.

    A member is a line; one that is a list, or an iterator, is written item by item, each on a line of its
    own, so that however many there are, one is held at a time.
    """

    def written(value: Any) -> str:
        return json.dumps(value, sort_keys=True)

    def pieces() -> Iterator[str]:
        for number, (name, value) in enumerate(sorted(document.items())):
            yield f"{',' if number else '{'}\n {written(name)}: "
            if not isinstance(value, list | tuple | Iterator):
                yield written(value)
                continue
            yield "["
            for place, item in enumerate(value):
                yield f"{',' if place else ''}\n  {written(item)}"
            yield "]"
        yield "\n}\n"

    sys.stdout.writelines(pieces())


def say(lines: Iterable[str]) -> None:
    """Lines on stdout, one at a time."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def page(lines: Iterable[str]) -> None:
    """Lines on stdout; on a terminal through the person's pager, which asks for no more than is looked at."""
    if not sys.stdout.isatty():
        say(lines)
        return
    # Less than a screen is printed as it is, and stays there.
    os.environ.setdefault("LESS", "-FRX")
    # The last line is ended by click.
    click.echo_via_pager(f"{'' if number == 0 else chr(10)}{line}" for number, line in enumerate(lines))


def width() -> int:
    """Columns to draw in: the terminal's, from 40 to 120; 80 where there is none."""
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, 120)) if sys.stdout.isatty() else 80


def draw(lines: Sequence[Line]) -> None:
    """Lines of ``(text, style)`` on stdout, styled only on a terminal."""
    if not sys.stdout.isatty():
        for line in lines:
            click.echo("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(width=width(), highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*line))


def table(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """Rows as aligned lines; all but the last column padded. Text is made safe."""
    safe_rows = [[safe(cell) for cell in row] for row in rows]
    if not safe_rows:
        return []
    widths = [max(len(row[column]) for row in safe_rows) for column in range(len(safe_rows[0]))]
    return [
        (" " * gap).join(f"{cell:{size}}" for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in safe_rows
    ]


def local_archs(home: Home) -> tuple[str, ...]:
    """Architectures of this machine's GPUs, empty where there is none or it cannot be told."""
    from memory.architecture import parse_architecture
    from tools.errors import ToolError
    from tools.hardware.gpu import gpu_status

    try:
        found = gpu_status.run(gpu_status.input(), Context(home))
    except ToolError:
        return ()
    named = [gpu.compute_capability for gpu in found.gpus if gpu.compute_capability]
    return tuple(dict.fromkeys(parse_architecture(one).name for one in named))


def stopwatch() -> Callable[[], float]:
    """Seconds since now."""
    start = time.monotonic()
    return lambda: time.monotonic() - start
