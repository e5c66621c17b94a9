"""``agent explain``: the chain from the option to the kernel, hop by hop."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.common import (
    CommandError,
    draw,
    emit,
    engine_option,
    environment_of,
    json_option,
    package_options,
    progress,
    requirements_of,
    scenario_of,
    scenario_option,
)
from memory.home import Home


@click.command()
@click.argument("component")
@click.argument("backend")
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@package_options
@click.option("--arch", metavar="ARCH", help="Architecture or GPU.")
@click.option("--quantisation", metavar="NAME", help="Of the model, e.g. nvfp4: part of the scenario.")
@click.option("--model", metavar="NAME", help="Whose classes' rules count.")
@engine_option
@scenario_option
@json_option
def explain(
    component: str,
    backend: str,
    positional: tuple[str, ...],
    packages: tuple[str, ...],
    environment: str | None,
    arch: str | None,
    quantisation: str | None,
    model: str | None,
    engine: str | None,
    scenario: tuple[str, ...],
    as_json: bool,
) -> int:
    """Why the source lets BACKEND of COMPONENT through on an architecture, or does not: every hop.

    \b
    Examples:
      agent explain moe_runner flashinfer_trtllm --arch sm120 --quantisation nvfp4
      agent explain fp4_gemm flashinfer_cudnn --arch sm120 -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent explain attention triton --arch h200 --json
    """
    progress("looking up the environment")
    from agent.cli.matrix import architectures, model_classes, options_of, traces
    from agent.question import DEFAULT_ENGINE
    from memory.architecture import parse_architecture

    home = Home.default()
    facts = scenario_of(scenario)
    wanted = architectures(home, [arch] if arch else [])[0]
    named = engine or DEFAULT_ENGINE
    found = environment_of(
        home, environment, requirements_of(packages, positional), parse_architecture(wanted), engine
    )
    option = options_of(found, named, [component], quantisation)[0]
    values = [value.value for value in option.values]
    if backend not in values:
        raise CommandError(f"{option.flag} does not accept {backend!r} here; it accepts {', '.join(values)}")
    progress(f"following {option.flag} {backend} through the source")
    trace = traces(
        home,
        found,
        named,
        [(component, backend, wanted)],
        quantisation=quantisation,
        scenario=facts,
        model_classes=model_classes(home, found, named, model),
    )[0]
    if as_json:
        emit(trace.model_dump(mode="json"))
    else:
        _draw(trace, found.packages)
    return 0


def _draw(trace: Any, packages: dict[str, str]) -> None:
    from agent.reasons import NAMES, conditions, reason
    from agent.report import STYLES, Line
    from agent.text import safe, squeeze

    row = trace.row
    under = ", ".join(f"{key}={value}" for key, value in trace.scenario.items())
    lines: list[Line] = [
        [
            (f"{squeeze(row.component)} {squeeze(row.backend)} on {row.arch}: ", "bold"),
            (NAMES[row.verdict], STYLES[row.verdict]),
            (f", {reason(row)}", ""),
        ],
        [(squeeze(", ".join(f"{name} {version}" for name, version in packages.items())), "dim")],
    ]
    if under:
        lines.append([(f"under {squeeze(under)}", "dim")])
    if row.first_gate is not None:
        gate = row.first_gate
        lines.append(
            [(f"the first gate, at {squeeze(gate.file)}:{gate.line}, says: {NAMES[gate.verdict]}", "")]
        )
    for number, hop in enumerate(trace.hops, 1):
        lines.append([("", "")])
        place = f"{number:3}. {hop.package} {hop.version} {hop.file}:{hop.line}"
        lines.append([(squeeze(place), "bold"), (f"  {squeeze(hop.says)}", "")])
        lines += [[(f"     {safe(text)}", "dim")] for text in hop.text.splitlines()]
    if row.conditions:
        lines += [[("", "")], [(f"depends on: {squeeze(conditions(row))}", "")]]
    for note in trace.notes:
        lines.append([(f"not read: {squeeze(note)}", "dim")])
    draw(lines)
