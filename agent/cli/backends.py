"""``agent backends``: the static matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

import click

from agent.cli.common import (
    CommandError,
    draw,
    emit,
    engine_option,
    environment_of,
    json_option,
    model_config_of,
    model_options,
    package_options,
    progress,
    requirements_of,
    scenario_of,
    scenario_option,
    the_home,
    width,
)
from agent.cli.lazy import Branching

if TYPE_CHECKING:
    from memory.vocabulary import Row


MARK = "*"
"""Behind a verdict that some report contradicts."""


class Backends(Branching):
    branches = {"score": "agent.cli.score:score"}  # noqa: RUF012


@click.command(cls=Backends)
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@package_options
@click.option("--arch", "archs", metavar="ARCH", multiple=True, help="Architecture or GPU; repeatable.")
@click.option("--component", "components", metavar="NAME", multiple=True, help="Only this one; repeatable.")
@click.option("--quantisation", metavar="NAME", help="Of the model, e.g. nvfp4: part of the scenario.")
@click.option("--model", metavar="NAME", help="Whose classes' rules count.")
@model_options
@engine_option
@scenario_option
@click.option("--only", is_flag=True, help="The engine alone, without the kernel packages that it pins.")
@click.option(
    "--compare",
    "others",
    metavar="P==V|ENV",
    multiple=True,
    help="Show what changes with this package, or in this environment; repeatable.",
)
@click.option("--fail-on-change", is_flag=True, help="With --compare: exit 1 where a verdict changed.")
@click.option("--all", "everything", is_flag=True, help="Rows that are not applicable anywhere too.")
@json_option
def backends(
    positional: tuple[str, ...],
    packages: tuple[str, ...],
    environment: str | None,
    archs: tuple[str, ...],
    components: tuple[str, ...],
    quantisation: str | None,
    model: str | None,
    model_config: str | None,
    tp: int | None,
    engine: str | None,
    scenario: tuple[str, ...],
    only: bool,
    others: tuple[str, ...],
    fail_on_change: bool,
    everything: bool,
    as_json: bool,
) -> int:
    """What the source says of every backend on each architecture. Nothing is executed.

    \b
    Examples:
      agent backends -p sglang==0.5.9 -p flashinfer-python==0.6.5 --arch sm120
      agent backends --arch sm90 --arch sm120 --component moe_runner --quantisation nvfp4
      agent backends -e sglang-0.5.9 --arch "RTX 5090" --json
      agent backends sglang==0.5.9 --arch sm120 --compare sglang==0.5.10 --fail-on-change
      agent backends sglang==0.5.9 --arch sm90 --model-config config.json --tp 8
      agent backends score TRUTH.csv -e sglang-0.5.9
    """
    if fail_on_change and not others:
        raise CommandError("--fail-on-change needs --compare P==V, which says what to compare with")
    progress("looking up the environment")
    from agent.cli.matrix import Question, architectures, engine_of, reports, traces
    from agent.words import known_quantisation
    from memory.architecture import parse_architecture

    home = the_home()
    facts, checkpoint = scenario_of(scenario), model_config_of(model_config)
    scheme = known_quantisation(quantisation) if quantisation is not None else None
    wanted = architectures(home, archs)
    asked = requirements_of(packages, positional)
    arch = parse_architecture(wanted[0])
    found = environment_of(home, environment, asked, arch, engine, with_pins=not only)
    question = Question(
        engine=engine_of(found, engine),
        components=components,
        archs=tuple(wanted),
        quantisation=scheme,
        scenario=facts,
        model=model,
        checkpoint=checkpoint,
        tp=tp,
    )
    if others:
        from agent.cli.compare import compared, other_side, show

        sides = (found, other_side(home, others, asked, found, arch, with_pins=not only))
        difference = compared(home, sides, question)
        if as_json:
            emit(difference)
        else:
            show(difference)
        return 1 if fail_on_change and difference["changed"] else 0
    traced = traces(home, found, question)
    rows = [trace.row for trace in traced]
    told = reports(home, found, question, traced)
    conflicts = [
        {**{name: row[name] for name in ("component", "backend", "arch", "verdict")}, "reports": differing}
        for row, said in zip(rows, told, strict=True)
        if (differing := [one for one in said if one["differs"]])
    ]
    if as_json:
        emit({"backends": rows, "conflicts": conflicts})
    else:
        why = {id(trace.row): trace.notes[0] for trace in traced if trace.notes}
        marked = {(one["component"], one["backend"], one["arch"]) for one in conflicts}
        _draw(rows, wanted, found.packages, everything, why, marked)
    return 0


def _draw(
    rows: Sequence[Row],
    archs: Sequence[str],
    packages: dict[str, str],
    everything: bool,
    why: Mapping[int, str],
    marked: Set[tuple[str, str, str]],
) -> None:
    from agent.layout import Line, path_of, versions
    from agent.reasons import NAMES, deciding, reason, where
    from agent.report import STYLES
    from agent.text import shorten, squeeze
    from memory.terms import Verdict

    cited = (lines.package for row in rows for lines in row.evidence)
    lines: list[Line] = [[(versions(packages, cited), "bold")]]
    by_cell = {(row.component, row.backend, row.arch): row for row in rows}
    names = list(dict.fromkeys((row.component, row.backend) for row in rows))
    size = max((len(squeeze(" ".join(name))) for name in names), default=0) + 2
    column = max(len(name) for name in NAMES.values()) + 2
    if len(archs) > 1:
        lines.append([(" " * size + "".join(f"{arch:{column}}" for arch in archs), "bold")])
    hidden: Counter[Verdict] = Counter()
    for component, backend in names:
        mine = [by_cell[component, backend, arch] for arch in archs]
        if not everything and all(row.verdict == Verdict.NOT_APPLICABLE for row in mine):
            hidden[Verdict.NOT_APPLICABLE] += 1
            continue
        line: Line = [(f"{squeeze(f'{component} {backend}'):{size}}", "")]
        for row in mine:
            mark = MARK if (component, backend, row.arch) in marked else ""
            line.append((f"{NAMES[row.verdict]}{mark}".ljust(column), STYLES[row.verdict]))
        room = width() - size - column
        if len(archs) == 1 and room > 12:
            place = deciding(mine[0])
            if mine[0].verdict == Verdict.BLOCKED and place is not None:
                line.append((path_of(where(place), room), ""))
            else:
                line.append((shorten(reason(mine[0], why=why.get(id(mine[0]))), room), ""))
        lines.append(line)
    if hidden:
        number = hidden[Verdict.NOT_APPLICABLE]
        lines.append(
            [
                (
                    f"{number} of other vendors, for other models or not reached under this scenario (--all)",
                    "dim",
                )
            ]
        )
    if marked:
        lines.append([(f"{MARK} reports say otherwise: agent explain COMPONENT BACKEND --arch ARCH", "dim")])
    lines.append([("Read, not run: none of these has been tested.", "dim")])
    draw(lines)
