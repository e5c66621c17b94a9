"""``agent environment bisect``: the release with which something changed, and by which lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import (
    CommandError,
    Context,
    emit,
    environment_of,
    one_source,
    progress,
    requirements_of,
    say,
    the_home,
)
from agent.text import squeeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.home import Home
    from tools.environment.bisect import Bisection, Search, Side
    from tools.environment.model import Environment


@click.command()
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@click.option("--package", "package", metavar="P", required=True, help="Whose releases are searched.")
@click.option("--good", metavar="V", required=True, help="The release to begin with.")
@click.option("--bad", metavar="V", required=True, help="One that says something else; may be older.")
@click.option("--test", "text", metavar="TEST", required=True, help="What is asked of each; see below.")
@click.option("-e", "--environment", metavar="NAME", help="All other packages; else P==V, else: current.")
@click.option("--index", "indexes", metavar="URL|FOLDER", multiple=True, help="An index to ask first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else.")
def bisect(
    positional: tuple[str, ...],
    package: str,
    good: str,
    bad: str,
    text: str,
    environment: str | None,
    indexes: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find the release of a package with which a test begins to say something else.

    \b
    Tests that only read:
      static COMPONENT BACKEND ARCH [KEY=VALUE...]   the verdict of the source
      option FLAG [VALUE]                            whether the engine takes it, and its default
    Tests that run something, in a full environment (-e):
      import MODULE                                  whether it can be imported, else why not
      probe COMPONENT BACKEND [gpu=N]                what its kernels do on a GPU of this machine

    \b
    Examples:
      agent environment bisect sglang==0.5.9 --package flashinfer-python --good 0.6.5 --bad 0.7.2 \\
        --test "static moe_runner flashinfer_trtllm sm120 quantisation=nvfp4"
      agent environment bisect --package sglang --good 0.5.9 --bad 0.5.14 \\
        --test "option --moe-runner-backend cutlass"
      agent environment bisect -e work --package torch --good 2.11.0 --bad 2.13.0 \\
        --test "import flashinfer"
    """
    progress("looking up the environment")
    import time

    from tools.environment.bisect import Search, bisect as search
    from tools.environment.experiment import parse_test

    home = the_home()
    test = parse_test(text, runs=True)
    asked = Search(package, good, bad, indexes)
    base = _base(home, environment, positional, asked)
    found = search(Context(home), base, asked, test, time.time)
    if as_json:
        emit(document(found, asked))
    else:
        say(_lines(found, asked))
        _changed_lines(found)
    return 0 if found.other is not None else 1


def _base(home: Home, environment: str | None, packages: Sequence[str], asked: Search) -> Environment:
    from memory.names import distribution
    from tools.environment.history import DEFAULT, read_history
    from tools.environment.pins import profiles

    requirements = requirements_of(packages)
    one_source(environment, requirements)
    name = distribution(asked.package)
    if environment is None and not requirements and name not in profiles():
        if read_history(home, DEFAULT) is None:
            raise CommandError(
                f"beside {name} an engine is needed; give it as P==V, or an environment with -e"
            )
        environment = DEFAULT
    if environment is not None:
        found = environment_of(home, environment, (), None)
        if found.kind == "adopted":
            raise CommandError("the folder of someone else is only read; give the engine as P==V")
        return found
    requirements = [one for one in requirements if distribution(one.partition("==")[0]) != name]
    return environment_of(home, None, [*requirements, f"{name}=={asked.good}"], None, with_pins=False)


def document(found: Bisection, asked: Search) -> dict[str, Any]:
    """As JSON types."""

    def side(one: Side | None) -> dict[str, Any] | None:
        if one is None:
            return None
        outcome = one.outcome
        return {
            "version": one.version,
            "says": outcome.says,
            "environment": one.environment.name,
            "row": outcome.trace.row.model_dump(mode="json") if outcome.trace else None,
            "line": outcome.line.model_dump(mode="json") if outcome.line else None,
        }

    return {
        "package": asked.package,
        "versions": list(found.versions),
        "analyses": found.analyses,
        "same": side(found.same),
        "other": side(found.other),
        "between": list(found.between),
        "skipped": found.skipped,
        "moved": [{"before": before, "after": after} for before, after in found.moved],
    }


def _lines(found: Bisection, asked: Search) -> list[str]:
    number = len(found.versions)
    lines = [squeeze(f"skipped {version}: {why}") for version, why in found.skipped.items()]
    tail = f"{found.analyses} of {number} releases analysed"
    if found.other is None:
        return [*lines, squeeze(f"{asked.bad} says what {asked.good} says: {found.same.outcome.says}"), tail]
    lines.append(squeeze(f"{asked.package} {found.other.version} is the first that says something else"))
    if found.between:
        lines.append(f"or one that could not be looked at: {', '.join(found.between)}")
    for mark, side in (("-", found.same), ("+", found.other)):
        line = side.outcome.line
        place = f"  {line.file}:{line.line}  {line.text}" if line else ""
        lines.append(f"{mark} {side.version} {squeeze(side.outcome.says + place)}")
    for before, after in found.moved:
        lines.append(squeeze(f"moved with it: asks for {before or 'nothing'} → {after or 'nothing'}"))
    return [*lines, tail]


def _changed_lines(found: Bisection) -> None:
    """For a static test what decides on either side, and what became of a line that refuses."""
    from agent.cli.compare import show
    from agent.comparison import comparison

    if found.other is None:
        return
    sides = (found.same, found.other)
    traces = [[side.outcome.trace] if side.outcome.trace else [] for side in sides]
    if any(traces):
        held = (sides[0].environment, sides[1].environment)
        packages, trees = (held[0].packages, held[1].packages), (held[0].tree(), held[1].tree())
        show(comparison(traces[0], traces[1], packages, trees))
