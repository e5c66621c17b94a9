"""``agent mcp``: the tools for other agents."""

from __future__ import annotations

import os
import secrets

import click

from agent.cli.common import (
    CommandError,
    engine_option,
    one_source,
    package_options,
    progress,
    requirements_of,
    the_home,
)
from memory.terms import Effect

TOKEN = "ASSAY_MCP_TOKEN"  # noqa: S105 - the name of a variable
SHORTEST = 16
STEPS = 1000
SEEN = frozenset({"steps", "minutes"})
"""Limits of a budget that hold for a client."""
GRANTED = [effect.value for effect in Effect if effect is not Effect.READS]


@click.command()
@package_options
@click.option("--arch", metavar="ARCH", help="Architecture or GPU, where a question does not say.")
@engine_option
@click.option(
    "--allow",
    metavar="EFFECT",
    multiple=True,
    type=click.Choice(GRANTED),
    help=f"What clients may do besides reading; repeatable: {', '.join(GRANTED)}.",
)
@click.option(
    "--gpu-minutes",
    type=click.FloatRange(min=0.1),
    metavar="N",
    help="With --allow uses_gpu: the most that all clients together may take.",
)
@click.option(
    "--budget",
    metavar="KEY=NUMBER",
    multiple=True,
    help=f"What each investigation may spend: steps ({STEPS}, calls of a client), minutes, calls.TOOL.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve on this port of 127.0.0.1 instead of stdin and stdout; 0 takes a free one.",
)
def mcp(
    packages: tuple[str, ...],
    environment: str | None,
    arch: str | None,
    engine: str | None,
    allow: tuple[str, ...],
    gpu_minutes: float | None,
    budget: tuple[str, ...],
    port: int | None,
) -> int:
    """Serve the tools to another agent, by the Model Context Protocol: over stdin and stdout, or HTTP.

    What a client does is an investigation on record like any other. It reads what is given here (-p, -e) or
    lies here already, and does more only where --allow says so. docs/mcp.md shows how agents are told of it.

    \b
    Examples:
      agent mcp -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent mcp -e ~/venv/lib/python3.12/site-packages
      agent mcp --http 8765 --allow writes_environment
    """
    requirements = requirements_of(packages)
    one_source(environment, requirements)
    if (Effect.USES_GPU in allow) is not (gpu_minutes is not None):
        raise CommandError("--allow uses_gpu and --gpu-minutes N go together: a GPU is lent for a time")
    from agent.budget import read_budget

    limits, calls = read_budget(budget)
    if unseen := limits.keys() - SEEN:
        raise CommandError(
            f"--budget {min(unseen)} is not seen here: a client's model is its own; there are "
            f"{', '.join(sorted(SEEN))} and calls.TOOL, and --gpu-minutes"
        )
    token = "" if port is None else _token()
    home = the_home().prepare()
    if environment is not None:
        # Said at once: what follows takes a second to load.
        from tools.environment.store import open_environment

        open_environment(home, environment)
    from agent.mcp.begin import Given
    from agent.mcp.serve import Granted, serve
    from transcripts.redaction.secrets import Redactor, environment_secrets

    given = Given(environment, tuple(requirements), arch, engine)
    known = environment_secrets({**os.environ, TOKEN: token})
    spend = {"budget": {"steps": float(STEPS), **limits}, **({"calls": calls} if calls else {})}
    granted = Granted(frozenset(map(Effect, allow)), gpu_minutes, spend)
    serve(home, given, granted, progress, Redactor(known), port, token)
    return 0


def _token() -> str:
    """The token of a server over HTTP: the person's own, or one that is made and said."""
    given = os.environ.get(TOKEN)
    if given is None:
        made = secrets.token_urlsafe(32)
        progress(f"token: {made}  (to have the same each time, set {TOKEN})")
        return made
    if len(given) < SHORTEST or not given.isascii() or not given.isprintable() or " " in given:
        raise CommandError(f"{TOKEN} must have at least {SHORTEST} characters, letters and digits")
    return given
