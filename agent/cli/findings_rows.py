"""What commands that read findings share: the views, up to date; options of filters; how rows are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from agent.cli.common import CommandError, progress
from agent.text import shorten
from memory.database import StoreError, explained
from memory.home import Home
from memory.terms import FindingStatus, Level, Outcome, Verdict
from memory.views import Views

Function = TypeVar("Function", bound=Callable[..., Any])


def filter_options(function: Function) -> Function:
    """Options that say which findings; :func:`filters` reads them."""
    names = {
        "--component": ("NAME", "Only of this component."),
        "--backend": ("NAME", "Only of this backend."),
        "--arch": ("ARCH", "Only on this architecture."),
        "--engine": ("NAME", "Only of this engine."),
    }
    words = {"--level": Level, "--verdict": Verdict, "--outcome": Outcome}
    function = click.option(
        "-p", "--package", "packages", metavar="NAME[==V]", multiple=True, help="Only about this; repeatable."
    )(function)
    for name, allowed in words.items():
        choice = click.Choice([one.value for one in allowed])
        function = click.option(
            name, type=choice, metavar="WORD", help=f"Only with this {name.removeprefix('--')}."
        )(function)
    for name, (metavar, text) in reversed(names.items()):
        function = click.option(name, metavar=metavar, help=text)(function)
    return function


def status_option(function: Function) -> Function:
    choice = click.Choice([one.value for one in FindingStatus if one is not FindingStatus.STALE])
    return click.option(
        "--status", "statuses", type=choice, metavar="WORD", multiple=True, help="Only with this; repeatable."
    )(function)


def filters(given: dict[str, Any]) -> dict[str, Any]:
    """What was given to :func:`filter_options`, as the views take it."""
    found = dict(given)
    if found["arch"] is not None:
        from memory.architecture import parse_architecture

        found["arch"] = parse_architecture(found["arch"]).name
    packages: dict[str, str] = {}
    for one in found.pop("packages"):
        name, equals, version = one.partition("==")
        if not re.fullmatch(r"[\w.-]+", name.strip()) or (equals and not version.strip()):
            raise CommandError(f"-p {one!r} is no package; expected NAME or NAME==VERSION")
        packages[name.strip()] = version.strip()
    return {**found, "packages": packages}


def views_of(home: Home) -> tuple[Views, int]:
    """The views, after whatever is new in the transcripts is folded, and the exit code where it cannot be."""
    from transcripts.standing import standing

    views = Views(home)
    with explained(home.transcripts, "read"):
        now = standing(views.folded(), home.transcripts)
    if now.grown or now.other:
        # Only then is the store needed, which takes a second to import.
        from memory.store import Store
        from transcripts.catch_up import catch_up

        try:
            with Store(home) as store:
                for problem in catch_up(store, home.transcripts, progress):
                    progress(f"warning: {problem}")
        except StoreError as error:
            if error.damaged:
                raise
            # What can be read is still worth reading, and what cannot be says so itself.
            left = len(now.grown) + len(now.other)
            progress(f"warning: {error}; {left} transcripts are not taken into account")
            return views, error.exit_code
    return views, 0


def cells(views: Views, rows: Sequence[Any], *, status: bool) -> list[list[str]]:
    """Rows of findings as a table; ``status``: with how each stands."""
    return [
        [
            row["id"][:12],
            row["component"],
            row["backend"],
            row["arch"],
            " ".join(filter(None, (row["verdict"], row["outcome"]))).replace("_", " "),
            row["level"] if row.get("origin") != "imported" else f"{row['level']}, imported",
            row["status"] if status else "",
            shorten(versions(views, row), 44),
            shorten(settings(views, row) or row.get("url") or "", 60),
        ]
        for row in rows
    ]


def document(views: Views, row: Any) -> dict[str, Any]:
    return {**row, **{key: views.parsed(row, key) for key in ("packages", "scenario", "claim")}}


def versions(views: Views, row: Any) -> str:
    packages = views.parsed(row, "packages")
    first = sorted(packages, key=lambda name: (name != row["engine"], name))
    return ", ".join(f"{name} {packages[name]}" for name in first)


def settings(views: Views, row: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in views.parsed(row, "scenario").items())
