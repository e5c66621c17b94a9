"""``agent environment``: the packages that are investigated, in folders of their own."""

from __future__ import annotations

import click

from agent.cli.common import emit, json_option, progress, requirements_of, table, the_home
from agent.cli.lazy import LazyGroup
from agent.text import squeeze

COMMANDS = {
    "create": ("agent.cli.environment:create", "Fetch packages and unpack them for reading."),
    "list": ("agent.cli.environment:list_", "Environments that exist here."),
    "show": ("agent.cli.environment:show", "Packages, versions, where the files are."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, no_args_is_help=False)
def environment() -> None:
    """The packages that are investigated.

    \b
    Examples:
      agent environment create -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent environment list
    """


@click.command()
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@click.option("-p", "--package", "packages", metavar="P==V", multiple=True, help="A package; repeatable.")
@click.option("--arch", metavar="ARCH", help="Decides the CPU platform of the wheels.")
@click.option("--no-pins", is_flag=True, help="An engine alone, without the kernel libraries that it pins.")
@click.option("--refresh", is_flag=True, help="Ask again for the newest versions.")
@json_option
def create(
    positional: tuple[str, ...],
    packages: tuple[str, ...],
    arch: str | None,
    no_pins: bool,
    refresh: bool,
    as_json: bool,
) -> None:
    """Fetch packages and unpack them for reading. Nothing of them is executed.

    Without packages: the newest engine and what it pins. The same request gives the same environment.

    \b
    Examples:
      agent environment create
      agent environment create -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent environment create sglang==0.5.9 --arch sm121
    """
    progress("resolving")
    from memory.architecture import parse_architecture
    from tools.environment.create import create_environment

    made = create_environment(
        the_home().prepare(),
        requirements_of(packages, positional),
        parse_architecture(arch) if arch else None,
        progress,
        with_pins=not no_pins,
        refresh=refresh,
    )
    if as_json:
        emit(made.document())
    else:
        click.echo(made.name)


@click.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Environments that exist here.

    \b
    Examples:
      agent environment list
      agent environment list --json
    """
    from tools.environment.store import list_environments

    found = list_environments(the_home())
    if as_json:
        emit({"environments": [one.document() for one in found]})
        return
    if not found:
        click.echo("No environments yet. Create one with: agent environment create -p sglang==0.5.9")
    for line in table([[one.name, one.platform, one.fingerprint[:12]] for one in found]):
        click.echo(line)


@click.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """NAME (or its beginning, or a folder): packages, versions, where the files are.

    \b
    Examples:
      agent environment show sglang-0.5.9
      agent environment show ~/venv/lib/python3.12/site-packages --json
    """
    from tools.environment.pins import pin_warnings
    from tools.environment.store import open_environment

    found = open_environment(the_home(), name)
    if as_json:
        emit(found.document())
        return
    for key, value in (
        ("name", found.name),
        ("kind", found.kind),
        ("path", found.path),
        ("platform", f"{found.platform}, Python {found.python}"),
        ("fingerprint", found.fingerprint),
    ):
        click.echo(f"{key:12} {squeeze(value)}")
    sizes = {wheel.name.lower().replace("_", "-"): wheel for wheel in found.wheels}
    for package, version in found.packages.items():
        wheel = sizes.get(package.lower().replace("_", "-"))
        kept = f"  {wheel.filename}  sha256 {wheel.sha256[:12]}" if wheel else ""
        click.echo(f"  {squeeze(f'{package} {version}')}{squeeze(kept) and '  ' + squeeze(kept)}")
    for warning in pin_warnings(found):
        click.echo(f"warning: {squeeze(warning)}")
