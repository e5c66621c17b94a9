"""``agent explain``: the chain from the option to the kernel, hop by hop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
)
from memory.home import Home
from memory.terms import Verdict

if TYPE_CHECKING:
    from agent.layout import Line


@dataclass(frozen=True)
class Earlier:
    """What an investigation judged under, from its transcript."""

    environment: str | None = None
    arch: str | None = None
    engine: str | None = None
    quantisation: str | None = None
    model_classes: tuple[str, ...] = ()
    scenario: dict[str, str] = field(default_factory=dict)
    checkpoint: str | None = None
    tp: int | None = None


def _investigated(home: Home, name: str) -> Earlier:
    from agent.cli.transcripts import find_transcript
    from transcripts.reader import read_raw

    path = find_transcript(home, name, last=False)
    options: dict[str, Any] = {}
    try:
        for event in read_raw(path):
            data = event["data"]
            if data["kind"] == "opened":
                options = {**data["options"]}
            if data["kind"] == "understood":
                target = data["target"]
                return Earlier(
                    environment=data["environment"],
                    arch=target["arch"],
                    engine=target["engine"],
                    quantisation=target["quantisation"],
                    model_classes=tuple(target["model_classes"]),
                    scenario=dict(options.get("scenario", {})),
                    checkpoint=options.get("checkpoint"),
                    tp=options.get("tp"),
                )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CommandError(
            f"{path} does not say what was judged ({error!r}); check it: agent replay {path} --verify"
        ) from None
    raise CommandError(f"{path.stem} ended before it had an environment to judge in")


@click.command()
@click.argument("component", required=False)
@click.argument("backend", required=False)
@click.option("--command", metavar="LINE", help="Explain this launch command instead; - is stdin.")
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@package_options
@click.option("--arch", metavar="ARCH", help="Architecture or GPU.")
@click.option("--quantisation", metavar="NAME", help="Of the model, e.g. nvfp4: part of the scenario.")
@click.option("--model", metavar="NAME", help="Whose classes' rules count.")
@click.option(
    "--transcript", metavar="ID", help="Judge as that investigation did, where no option says else."
)
@click.option(
    "--compare",
    "others",
    metavar="P==V|ENV",
    multiple=True,
    help="Say what it is with this package, or in this environment; repeatable.",
)
@model_options
@engine_option
@scenario_option
@json_option
def explain(
    component: str | None,
    backend: str | None,
    command: str | None,
    positional: tuple[str, ...],
    packages: tuple[str, ...],
    environment: str | None,
    arch: str | None,
    quantisation: str | None,
    model: str | None,
    transcript: str | None,
    others: tuple[str, ...],
    model_config: str | None,
    tp: int | None,
    engine: str | None,
    scenario: tuple[str, ...],
    as_json: bool,
) -> int:
    """Why the source lets BACKEND of COMPONENT through on an architecture, or does not: every hop.

    \b
    Examples:
      agent explain moe_runner flashinfer_trtllm --arch sm120 --quantisation nvfp4
      agent explain fp4_gemm flashinfer_cudnn --arch sm120 -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent explain moe_runner flashinfer_trtllm --transcript 20260307-3f9a1c
      agent explain attention triton --arch h200 --json
      agent explain moe_runner flashinfer_trtllm sglang==0.5.9 --arch sm120 --compare sglang==0.5.10
      agent explain --command "vllm serve Qwen/Qwen3-8B -tp 2" vllm==0.11.0 --arch sm120
    """
    if command is not None:
        from agent.cli.explain_command import explain_command

        given = {
            "--quantisation": quantisation, "--model": model, "--transcript": transcript, "--tp": tp,
            "--compare": others or None, "--model-config": model_config, "--engine": engine,
        }  # fmt: skip
        if idle := [name for name, value in given.items() if value is not None]:
            raise CommandError(f"{', '.join(idle)}: not with --command, which says all of a launch itself")
        for one in (component, backend):
            if one is not None and "==" not in one:
                raise CommandError(f"{one!r} is no package; with --command, expected packages: P==V")
        named = requirements_of(packages, [one for one in (component, backend, *positional) if one])
        line = sys.stdin.buffer.read(1 << 20).decode("utf-8", "replace") if command == "-" else command
        under = scenario_of(scenario)
        return explain_command(the_home(), line, environment, named, arch, under, as_json=as_json)
    if component is None or backend is None:
        raise CommandError("give COMPONENT and BACKEND, or a launch command with --command")
    progress("looking up the environment")
    from agent.cli.matrix import Question, architectures, engine_of, traces
    from agent.words import known_quantisation
    from memory.architecture import parse_architecture

    home = the_home()
    facts, checkpoint = scenario_of(scenario), model_config_of(model_config)
    requirements = requirements_of(packages, positional)
    earlier = _investigated(home, transcript) if transcript else Earlier()
    scheme = earlier.quantisation if quantisation is None else known_quantisation(quantisation)
    wanted = architectures(home, [one for one in (arch, earlier.arch) if one is not None][:1])[0]
    wanted_engine = engine or earlier.engine
    if environment is None and not requirements:
        environment = earlier.environment
    found = environment_of(home, environment, requirements, parse_architecture(wanted), engine)
    other_model = model is not None or checkpoint is not None
    question = Question(
        engine=engine_of(found, wanted_engine),
        components=(component,),
        backend=backend,
        archs=(wanted,),
        quantisation=scheme,
        scenario={**earlier.scenario, **facts},
        model=model,
        model_classes=() if other_model else earlier.model_classes,
        checkpoint=checkpoint if other_model else earlier.checkpoint,
        tp=tp or earlier.tp,
    )
    (trace,) = traces(home, found, question)
    judged = trace.scenario.get("quantisation")
    if scheme is not None and judged not in (None, scheme):
        progress(f"{component} is judged for {judged}, not for {scheme}: its kernels are for that alone")
    versions: list[dict[str, Any]] = []
    if others or trace.row.verdict == Verdict.BLOCKED:
        from agent.cli.compare import other_side
        from agent.cli.elsewhere import elsewhere

        asked = [other_side(home, others, requirements, found, parse_architecture(wanted))] if others else []
        versions = elsewhere(home, found, question, asked)
    from agent.cli.matrix import reports

    (told,) = reports(home, found, question, [trace])
    if as_json:
        emit({**trace, "elsewhere": versions, "reports": told})
    else:
        _draw(trace, found.packages, versions, told)
    return 0


def _draw(
    trace: Any, packages: dict[str, str], elsewhere: Sequence[dict[str, Any]], told: Sequence[dict[str, Any]]
) -> None:
    from agent.layout import versions
    from agent.openings import opening_lines
    from agent.reasons import NAMES, conditions, lists_differ, reason
    from agent.report import STYLES
    from agent.reported import report_lines
    from agent.text import safe, squeeze

    row = trace.row
    under = ", ".join(f"{key}={value}" for key, value in trace.scenario.items())
    lines: list[Line] = [
        [
            (f"{squeeze(row.component)} {squeeze(row.backend)} on {row.arch}: ", "bold"),
            (NAMES[row.verdict], STYLES[row.verdict]),
            (f", {reason(row, why=trace.notes[0] if trace.notes else None)}", ""),
        ],
        [(versions(packages, (hop.package for hop in trace.hops)), "dim")],
    ]
    if under:
        lines.append([(f"under {squeeze(under)}", "dim")])
    if row.first_gate is not None:
        gate = row.first_gate
        lines.append(
            [(f"the first gate, at {squeeze(gate.file)}:{gate.line}, says: {NAMES[gate.verdict]}", "")]
        )
    if behind := lists_differ(row, packages):
        lines.append([(squeeze(behind), "yellow")])
    for number, hop in enumerate(trace.hops, 1):
        lines.append([("", "")])
        place = f"{number:3}. {hop.package} {hop.version} {hop.file}:{hop.line}"
        lines.append([(squeeze(place), "bold"), (f"  {squeeze(hop.says)}", "")])
        lines += [[(f"     {safe(text)}", "dim")] for text in hop.text.splitlines()]
    if row.conditions:
        what = "needs" if row.verdict == Verdict.BLOCKED else "depends on"
        lines += [[("", "")], [(f"{what}: {squeeze(conditions(row))}", "")]]
    # Of a refusal the trace notes its words, of everything else what it could not follow.
    label = "it says" if row.verdict == Verdict.BLOCKED else "not followed"
    for note in trace.notes:
        lines.append([(f"{label}: {squeeze(note)}", "dim")])
    lines += _claims(trace.claims)
    lines += report_lines(told)
    lines += opening_lines(trace.openings)
    lines += _versions(elsewhere)
    draw(lines)


def _claims(claims: Sequence[Any]) -> list[Line]:
    """What is only said, with a mark where the gates say otherwise."""
    from agent.reasons import where
    from agent.text import shorten, squeeze

    lines: list[Line] = [[("", "")], [("what is said beside the gates (it decides nothing):", "bold")]]
    for one in claims:
        mark = "differs" if one.differs else one.says
        text = shorten(squeeze(one.evidence.text), 110)
        lines.append([(f"  {mark}: ", "yellow" if one.differs else ""), (text, "dim")])
        lines[-1].append((f"  {squeeze(where(one.evidence))}", ""))
    return lines if claims else []


def _versions(elsewhere: Sequence[dict[str, Any]]) -> list[Line]:
    """The same with other packages, one environment a line."""
    from agent.reasons import NAMES
    from agent.text import squeeze

    lines: list[Line] = [[("", "")], [("with other versions:", "bold")]] if elsewhere else []
    for one in elsewhere:
        differ = ", ".join(f"{name} {version or 'absent'}" for name, version in one["packages"].items())
        says = NAMES[Verdict(one["verdict"])]
        lines.append([("  ", ""), (squeeze(f"{differ or one['environment']}: {says}"), "")])
    return lines
