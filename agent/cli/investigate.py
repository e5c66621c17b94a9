"""``agent investigate``: a question in, an answer with its proof out."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from agent.cli.common import (
    CommandError,
    engine_option,
    json_option,
    model_config_of,
    model_options as checkpoint_options,
    one_source,
    package_options,
    progress,
    redactor,
    requirements_of,
    scenario_of,
    scenario_option,
    stopwatch,
    the_home,
)
from agent.cli.model_options import ModelOptions, model_options
from agent.cli.run_options import Running, interpreter_options, run_options


@click.command()
@click.argument("question")
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@package_options
@click.option("--arch", metavar="ARCH", help="Architecture or GPU, where the question does not say.")
@engine_option
@click.option(
    "--driver", type=click.Choice(["auto", "planner", "llm"]), default="auto", help="What decides the steps."
)
@run_options
@interpreter_options
@model_options
@scenario_option
@checkpoint_options
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
    run: str | None,
    gpu: str | None,
    gpu_minutes: float | None,
    serve: str | None,
    python: Path | None,
    site: Path | None,
    model: str | None,
    api: str,
    budget: tuple[str, ...],
    allow: tuple[str, ...],
    yes: bool,
    scenario: tuple[str, ...],
    model_config: str | None,
    tp: int | None,
    everything: bool,
    as_json: bool,
) -> int:
    """Answer QUESTION: which backends the source lets through for a model on an architecture, and a command.

    Without packages: the newest engine and the kernel libraries that it pins. Nothing is executed, unless
    --run probes says so: then what reading lets through is compiled, and with --gpu-minutes its kernels run.
    Where a model is configured, it goes on where the planner ends, and reads what could not be followed.

    \b
    Examples:
      agent investigate "qwen3.5 nvfp4 on sm120"
      agent investigate "qwen3.5 nvfp4 on 8x RTX PRO 6000" sglang==0.5.9 flashinfer-python==0.6.5
      agent investigate "qwen3.5 nvfp4 on sm120" -e work --run probes --gpu-minutes 10
      agent investigate "qwen3.5 on 8x H200" --model-config Qwen3.5-NVFP4/config.json
      agent investigate "deepseek v3.2 fp8 on h200" -e ~/venv/lib/python3.12/site-packages --json
    """
    running = Running(run, gpu, gpu_minutes, serve, python, site)
    running.model()
    took = stopwatch()
    progress("reading the question")
    # Imported late: the line above is there within a tenth of a second.
    from agent.question import NoArchitectureError, parse_question
    from agent.report import understood
    from agent.words import filler, quantisation_named

    for word in positional:
        if word.lower() in filler() or quantisation_named(word):
            whole = " ".join([question, *positional])
            raise CommandError(
                f'{word!r} is no package; put the question in quotes: agent investigate "{whole}"'
            )
    home = the_home()
    requirements = requirements_of(packages, positional)
    one_source(environment, requirements)
    facts, checkpoint = scenario_of(scenario), model_config_of(model_config)
    understand = partial(parse_question, question, arch=arch, engine=engine, requirements=requirements)
    local: tuple[str, ...] = ()
    try:
        target = understand()
    except NoArchitectureError:
        from agent.cli.common import local_archs

        local = local_archs(home)
        target = understand(local_archs=local)
    opened = None
    if environment is not None:
        from agent.cli.common import place_of
        from tools.environment.store import open_environment

        environment = place_of(home, environment)
        opened = open_environment(home, environment)
        # Which engine is meant may be for the environment to say.
        target = understand(local_archs=local, installed=opened.packages)
    running.check(home, opened, target.engine)
    about_model: dict[str, object] = {}
    if checkpoint is not None:
        from tools.viability.checkpoint import read_checkpoint

        about_model["checkpoint"] = read_checkpoint(checkpoint, "--model-config").text
        # The launch command divides the model over all GPUs that were named.
        tp = tp or target.gpu_count
    if tp is not None:
        about_model["tp"] = tp
    progress(f"understood: {understood(target)}, engine {target.engine}")
    about = ModelOptions(model, budget, allow, yes, api)
    chosen = about.driver(driver)

    from agent.cli.ending import ended
    from agent.session import Setting, start
    from memory.clock import Ids, SystemClock

    options = {
        "requirements": requirements,
        "environment": environment,
        "arch": arch,
        "engine": engine,
        "scenario": facts,
        "local_archs": list(local),
        **about_model,
        **running.recorded(),
        "llm": about.recorded(home) if chosen == "llm" else None,
    }
    name = Ids().investigation(SystemClock())
    setting = Setting(
        say=progress, redact=redactor(), grants=about.grants(), policy=running.policy(),
        interpreter=running.interpreter(),
    )  # fmt: skip
    concluded = start(home.prepare(), question, options, name=name, setting=setting, driver=chosen)
    return ended(home, name, concluded, took(), everything=everything, as_json=as_json)
