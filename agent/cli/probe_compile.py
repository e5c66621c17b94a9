"""``agent probe compile``: what a library would have compiled for an architecture, compiled without a GPU."""

from __future__ import annotations

import click

from agent.cli.common import json_option, progress
from agent.cli.probe import ALL, environment_named, recorded


@click.command("compile")
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@click.option("--arch", required=True, metavar="ARCH", help="Architecture or GPU that is compiled for.")
@click.option("-e", "--environment", metavar="NAME", help="The full environment whose library compiles.")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@click.option(
    "--units", type=click.IntRange(0), default=0, metavar="N", help="Only the last N units of a module."
)
@click.option("--cold", is_flag=True, help="Without what was compiled before.")
@json_option
def compile_(
    components: tuple[str, ...],
    arch: str,
    environment: str | None,
    backends: tuple[str, ...],
    units: int,
    cold: bool,
    as_json: bool,
) -> int:
    """Have the installed library make and compile the modules that its backends use on ARCH, with this nvcc.

    Refused by the library, by the compiler, or compiled, with the targets of the code that came of it. It
    runs the library's own code, on this machine.

    \b
    Examples:
      agent probe compile --arch sm120 -e work
      agent probe compile fp4_gemm --arch sm120 --units 1 -e work --json
    """
    from memory.architecture import parse_architecture
    from memory.artifacts import Artifacts
    from tools.probe.pack import make_plan
    from tools.probe.plan import modules_of

    found = parse_architecture(arch).base
    home, opened = environment_named(environment)
    wanted = [name for name in components if name != ALL]
    plan = make_plan(opened, modules_of(opened, found, wanted, backends, units), found)
    home.prepare()
    sha256 = Artifacts(home.artifacts).put(plan.text().encode())
    progress(f"{len(plan.cells)} modules for {found.name}")
    options = {"plan": sha256, "environment": plan.environment, "cold": cold or None}
    return recorded(home, f"what {opened.name} compiles for {found.name}", options, as_json=as_json)
