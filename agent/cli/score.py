"""``agent backends score``: the static verdicts beside a table that was read by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agent.cli.common import (
    emit,
    engine_option,
    environment_of,
    json_option,
    package_options,
    progress,
    say,
    scenario_of,
    scenario_option,
    table,
    the_home,
)

HEAD = ("", "cells", "agree", "undecided", "blocked right", "no found", "hard found", "first gate")


@click.command()
@click.argument("truth", metavar="TRUTH.csv", type=click.Path(path_type=Path))
@package_options
@click.option("--quantisation", metavar="NAME", help="Of the model, where the table's component has none.")
@engine_option
@scenario_option
@json_option
def score(
    truth: Path,
    packages: tuple[str, ...],
    environment: str | None,
    quantisation: str | None,
    engine: str | None,
    scenario: tuple[str, ...],
    as_json: bool,
) -> int:
    """Compare the static verdicts with a table that was read by hand.

    Columns: component, backend, arch, verdict (yes, no; others are not scored), shallow_verdict,
    evidence_package. Cells whose evidence package is not in the environment are counted apart; those of a
    component that this version has no option for are undecided.

    \b
    Examples:
      agent backends score truth.csv -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent backends score truth.csv -e sglang-0.5.9 --json
    """
    from agent.scoring import read_table, score as scored

    rows = read_table(truth)
    progress("looking up the environment")
    from agent.cli.matrix import Question, engine_of, traces
    from agent.words import known_quantisation
    from memory.architecture import parse_architecture

    home = the_home()
    default = known_quantisation(quantisation) if quantisation is not None else None
    first = min((row.arch for row in rows), default=None)
    found = environment_of(
        home, environment, list(packages), parse_architecture(first) if first else None, engine
    )
    from agent.cli.cells import declared

    named = engine_of(found, engine)
    wanted = list(dict.fromkeys(row.component for row in rows))
    known = declared(found, named, wanted) or wanted  # of none at all the question itself says so
    said: dict[tuple[str, str, str], str] = {}
    for label, component, scheme in dict.fromkeys(
        (row.label, row.component, row.quantisation) for row in rows if row.component in known
    ):
        own = [row for row in rows if row.label == label]
        question = Question(
            engine=named,
            components=(component,),
            archs=tuple(dict.fromkeys(row.arch for row in own)),
            quantisation=scheme or default,
            scenario=scenario_of(scenario),
            choices=tuple(dict.fromkeys((component, row.backend) for row in own)),
        )
        for trace in traces(home, found, question):
            said[label, trace.row.backend, trace.row.arch] = trace.row.verdict
    document = scored(
        rows, lambda row: said.get((row.label, row.backend, row.arch), "unknown"), found.packages
    )
    document["not_declared"] = [component for component in wanted if component not in known]
    if as_json:
        emit(document)
    else:
        _draw(document)
    return 0


def _draw(document: dict[str, Any]) -> None:
    from agent.layout import versions

    groups = [*document["components"].items(), *document["architectures"].items(), ("all", document["all"])]
    absent = document["evidence_absent"]
    if absent["cells"]:
        groups.append(("evidence absent", absent))
    lines = table([HEAD, *(_figures(name, group) for name, group in groups)])
    say(
        [
            versions(document["packages"]),
            f"{document['not_scored']} cells are neither yes nor no: not scored",
            *(f"no option of this version is for {one}: undecided" for one in document["not_declared"]),
            "",
            *lines,
        ]
    )
    if document["wrong"]:
        wrong = [
            (
                f"  {one['component']} {one['backend']}",
                one["arch"],
                f"{one['verdict']}, expected {one['expected']}",
            )
            for one in document["wrong"]
        ]
        say(["", "Wrong:", *table(wrong)])


def _figures(name: str, group: dict[str, int]) -> tuple[str, ...]:
    return (
        name,
        str(group["cells"]),
        _share(group["agree"], group["cells"]),
        str(group["undecided"]),
        _share(group["blocked_right"], group["blocked"]),
        _share(group["no_found"], group["no"]),
        _share(group["hard_found"], group["hard"]),
        _share(group["first_gate"], group["cells"]),
    )


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} {100 * part / whole:.1f} %" if whole else "-"
