"""``agent investigate``: a question in, an answer with its proof out."""

from __future__ import annotations

import click

from agent.cli.common import (
    CommandError,
    draw,
    emit,
    engine_option,
    json_option,
    package_options,
    progress,
    requirements_of,
    scenario_of,
    scenario_option,
    stopwatch,
    width,
)
from memory.home import Home


@click.command()
@click.argument("question")
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@package_options
@click.option("--arch", metavar="ARCH", help="Architecture or GPU, where the question does not say.")
@engine_option
@click.option(
    "--driver", type=click.Choice(["auto", "planner"]), default="auto", help="What decides the steps."
)
@scenario_option
@click.option("--all", "everything", is_flag=True, help="Every row, not the ones that matter most.")
@json_option
def investigate(
    question: str,
    positional: tuple[str, ...],
    packages: tuple[str, ...],
    environment: str | None,
    arch: str | None,
    engine: str | None,
    driver: str,
    scenario: tuple[str, ...],
    everything: bool,
    as_json: bool,
) -> int:
    """Answer QUESTION: which backends the source lets through for a model on an architecture, and a command.

    Without packages: the newest engine and the kernel libraries that it pins. Nothing is executed.

    \b
    Examples:
      agent investigate "qwen3.5 nvfp4 on sm120"
      agent investigate "qwen3.5 nvfp4 on 8x RTX PRO 6000" sglang==0.5.9 flashinfer-python==0.6.5
      agent investigate "deepseek v3.2 fp8 on h200" -e ~/venv/lib/python3.12/site-packages --json
    """
    took = stopwatch()
    progress("reading the question")
    # Imported late: the line above is there within a tenth of a second.
    from agent.question import NoArchitectureError, parse_question
    from agent.report import understood

    home = Home.default()
    requirements = requirements_of(packages, positional)
    if environment is not None and requirements:
        raise CommandError("give packages (-p) or an environment (-e), not both")
    if not question.strip():
        parse_question(question)
    facts = scenario_of(scenario)
    local: tuple[str, ...] = ()
    try:
        target = parse_question(question, arch=arch, engine=engine)
    except NoArchitectureError:
        from agent.cli.common import local_archs

        local = local_archs(home)
        target = parse_question(question, arch=arch, engine=engine, local_archs=local)
    progress(f"understood: {understood(target)}, engine {target.engine}")
    progress("driver: planner" + (" (no model is configured)" if driver == "auto" else ""))

    from agent.report import screen
    from agent.session import start

    concluded = start(
        home.prepare(),
        question,
        options={
            "requirements": requirements,
            "environment": environment,
            "arch": arch,
            "engine": engine,
            "scenario": facts,
            "local_archs": list(local),
        },
        say=progress,
    )
    if concluded.answer is None:
        raise CommandError(concluded.summary, concluded.exit_code)
    progress(f"{concluded.exit_reason} after {took():.1f} s: {concluded.summary}")
    if as_json:
        emit(concluded.answer.model_dump(mode="json"))
    else:
        draw(screen(concluded.answer, everything=everything, width=width()))
    return concluded.exit_code
