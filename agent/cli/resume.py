"""``agent resume``: go on with an investigation that was stopped."""

from __future__ import annotations

from pathlib import Path

import click

from agent.cli.common import CommandError, json_option, progress, redactor, stopwatch, the_home
from agent.cli.model_options import ModelOptions, budget_option, granting_options
from agent.cli.run_options import Running, interpreter_options, run_option


@click.command()
@click.argument("transcript", required=False)
@click.option("--last", is_flag=True, help="The newest transcript.")
@click.option("--model", metavar="NAME", help="Another model than the one that decided.")
@budget_option
@granting_options
@run_option
@interpreter_options
@click.option("--all", "everything", is_flag=True, help="Every row, not the ones that matter most.")
@json_option
def resume(
    transcript: str | None,
    last: bool,
    model: str | None,
    budget: tuple[str, ...],
    allow: tuple[str, ...],
    yes: bool,
    run: str | None,
    python: Path | None,
    site: Path | None,
    everything: bool,
    as_json: bool,
) -> int:
    """Go on with TRANSCRIPT (an id or its beginning) where it stopped: Ctrl-C, a kill, a full disk, a lack.

    What is finished is not done again; calls that had not returned are made again. One that came to its
    answer is only drawn again. A model that decides has its budget again, or the one that is given here, and
    nothing of what it was allowed; what runs anything needs --run again, and --python where it was given.

    \b
    Examples:
      agent resume --last
      agent resume 20260307-3f --budget steps=200
    """
    took = stopwatch()
    from agent.cli.transcripts import find_transcript

    home = the_home()
    path = find_transcript(home, transcript, last=last, decided=True)
    progress(f"resuming {path.stem}")
    from agent.cli.ending import ended
    from agent.session import Setting, resume as go_on

    home.prepare()
    if path.parent.resolve() != home.transcripts.resolve():
        raise CommandError(
            f"{path} is not in {home.transcripts}, where investigations go on; "
            "only reading works elsewhere: agent transcripts show, agent replay"
        )
    about = ModelOptions(model, budget, allow, yes)
    running = Running(run, python=python, site=site)
    setting = Setting(
        say=progress,
        redact=redactor(),
        grants=about.grants(),
        policy=running.policy(),
        interpreter=running.interpreter(),
    )
    concluded = go_on(home, path, setting=setting, llm=about.given(home, model))
    return ended(home, path.stem, concluded, took(), everything=everything, as_json=as_json)
