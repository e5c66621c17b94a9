"""``agent compare``: benchmarks side by side. What launches do not show is not said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import CommandError, emit, json_option, progress, say, the_home
from agent.cli.given import to_write

if TYPE_CHECKING:
    from memory.home import Home

LARGEST = 256 << 20
MEASURE = ("try_server", "benchmark_server")
"""Tools whose results hold a benchmark."""


@click.command()
@click.argument("benchmarks", nargs=-1, required=True, metavar="A [B]...")
@click.option("--html", metavar="FILE", help="One page with plots; it runs nothing and asks nobody.")
@click.option("--markdown", metavar="FILE", help="The same as Markdown.")
@json_option
def compare(benchmarks: tuple[str, ...], html: str | None, markdown: str | None, as_json: bool) -> int:
    """Compare benchmarks A and B: transcripts in which servers were measured, or files of --json.

    One in which several settings were measured is as many benchmarks.

    By load and metric: by how much B differs from A, with an interval over launches. Then who gives the most
    output at each load, and what nobody beats in both speed for one user and output of all. Exit 1 where
    nothing could be compared.

    \b
    Examples:
      agent compare triton.json flashinfer.json
      agent compare 20260307-3f9a1c 20260307-77b0aa --html comparison.html
      agent compare 20260307-5d21e8 --html settings.html
      agent compare base.json a.json b.json --json
    """
    from agent.benchmarks_page import lines, markdown as as_markdown, page
    from tools.benchmark.comparing import document, sides_of

    to_write("--html", html)
    to_write("--markdown", markdown)
    home = the_home()
    sides = []
    for given, name in zip(benchmarks, _names(benchmarks), strict=True):
        try:
            sides += sides_of(name, _results(home, given))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise CommandError(
                f"{given} is no benchmark ({type(error).__name__}: {error}); expected what it wrote"
            ) from None
    if len(sides) < 2:
        raise CommandError(
            f"{benchmarks[0]} has one setting alone; name another benchmark to compare it with"
        )
    found = document(sides)
    for path, pieces in ((html, page), (markdown, as_markdown)):
        if path is not None:
            _write(path, pieces(found))
    if as_json:
        emit(found)
    else:
        say(lines(found))
    return 0 if any(one["rows"] for one in found["comparisons"]) else 1


def _names(given: tuple[str, ...]) -> list[str]:
    """Short names, each once."""
    short = [Path(one).stem if Path(one).suffix == ".json" else one for one in given]
    return [name if short.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(short, 1)]


def _results(home: Home, given: str) -> list[dict[str, Any]]:
    """Results of launches, from a file or a transcript."""
    path = Path(given)
    if path.is_file() and path.suffix != ".jsonl":
        return _of_file(path)
    from agent.cli.transcripts import find_transcript

    launches = _launches(home, find_transcript(home, given, last=False))
    if not launches:
        raise CommandError(f"{given} measured no server; see: agent transcripts list")
    return launches


def _launches(home: Home, path: Path) -> list[dict[str, Any]]:
    from agent.session import board_of
    from memory.artifacts import Artifacts

    board = board_of(path, Artifacts(home.artifacts))
    found = [board.output(called.call) for tool in MEASURE for called, _ in board.results(tool)]
    return [one for one in found if isinstance(one, dict)]


def measured_in(home: Home, path: Path) -> dict[str, Any] | None:
    """What was measured in a transcript, side by side; None where nothing was."""
    from transcripts.reader import records

    if not any(one.data.get("tool") in MEASURE for one in records(path)):
        return None
    from tools.benchmark.comparing import document, sides_of

    sides = [side for side in sides_of(path.stem, _launches(home, path)) if side.keys()]
    return document(sides) if sides else None


def _of_file(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        found = json.loads(data)
        launches = found["launches"]
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        launches = None
    from pydantic import TypeAdapter, ValidationError

    from tools.benchmark.loads import Measured

    try:
        found = TypeAdapter(list[dict[str, Any]]).validate_python(launches)
        TypeAdapter(list[Measured | None]).validate_python([one.get("benchmark") for one in found])
    except ValidationError:
        raise CommandError(f"{path} is no benchmark; expected what agent benchmark --json printed") from None
    if not found:
        raise CommandError(f"{path} measured no server")
    return found


def _write(path: str, pieces: Iterable[str]) -> None:
    try:
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(pieces)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}", 4) from None
    progress(f"wrote {path}")
