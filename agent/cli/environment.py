"""``agent environment``: the packages that are investigated, in folders of their own."""

from __future__ import annotations

from pathlib import Path

import click

from agent.cli.common import CommandError, emit, json_option, progress, requirements_of, table, the_home
from agent.cli.lazy import LazyGroup
from agent.text import squeeze

COMMANDS = {
    "create": ("agent.cli.environment:create", "Fetch packages and unpack them for reading."),
    "list": ("agent.cli.environment:list_", "Environments that exist here."),
    "show": ("agent.cli.environment:show", "Packages, versions, where the files are."),
    "current": ("agent.cli.environment_history:current", "What a name stands for."),
    "adopt": ("agent.cli.environment_history:adopt", "Name a folder of someone else's; it is only read."),
    "upgrade": ("agent.cli.environment_upgrade:upgrade", "Other versions, beside the old ones."),
    "rollback": ("agent.cli.environment_history:rollback", "Go back to what a name stood for before."),
    "forget": ("agent.cli.environment_history:forget", "Take a name away; its environments stay."),
    "compare": ("agent.cli.environment_compare:compare", "What another environment changes for a target."),
    "bisect": ("agent.cli.environment_bisect:bisect", "Find the release that changed something."),
    "gc": ("agent.cli.environment_history:gc", "Give back disk space; what findings cite stays."),
    "fingerprint": ("agent.cli.environment:fingerprint", "Packages, machine and settings, as one document."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, no_args_is_help=False)
def environment() -> None:
    """The packages that are investigated.

    \b
    Examples:
      agent environment create -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent environment upgrade --to flashinfer-python==0.6.7
      agent environment rollback
    """


@click.command()
@click.argument("positional", nargs=-1, metavar="[P==V]...")
@click.option("-p", "--package", "packages", metavar="P==V", multiple=True, help="A package; repeatable.")
@click.option("--arch", metavar="ARCH", help="Decides the CPU platform of the wheels.")
@click.option("--no-pins", is_flag=True, help="An engine alone, without the kernel libraries that it pins.")
@click.option("--refresh", is_flag=True, help="Ask again for the newest versions.")
@click.option("-r", "--requirements", metavar="FILE", help="Packages from a file, one a line.")
@click.option("--wheels", metavar="FOLDER", help="Take wheels from this folder alone; no network.")
@click.option("--index", "indexes", metavar="URL|FOLDER", multiple=True, help="An index to ask first.")
@click.option("--full", is_flag=True, help="With all dependencies and an interpreter, for running.")
@click.option("--python", metavar="3.X", help="With --full: which Python; else the one that runs this.")
@click.option("--name", metavar="NAME", help="What it is called from now on; else: current.")
@json_option
def create(
    positional: tuple[str, ...],
    packages: tuple[str, ...],
    arch: str | None,
    no_pins: bool,
    refresh: bool,
    requirements: str | None,
    wheels: str | None,
    indexes: tuple[str, ...],
    full: bool,
    python: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Fetch packages and unpack them for reading. Nothing of them is executed.

    Without packages: the newest engine and what it pins. The same request gives the same environment.

    \b
    Examples:
      agent environment create
      agent environment create -p sglang==0.5.9 -p flashinfer-python==0.6.5
      agent environment create sglang==0.5.9 --arch sm121 --name spark
      agent environment create sglang==0.5.9 --wheels /media/wheels
    """
    progress("resolving")
    from memory.architecture import parse_architecture
    from memory.clock import SystemClock
    from tools.environment.create import create_environment
    from tools.environment.history import DEFAULT, check_name, choose
    from tools.environment.request import read_requirements
    from tools.environment.store import chosen
    from tools.environment.uv_settings import settings_of
    from tools.locks import holding

    named = check_name(name) if name is not None else DEFAULT
    home = the_home().prepare()
    wanted = [*requirements_of(packages, positional)]
    wanted += read_requirements(requirements) if requirements else []
    settings = settings_of(indexes, (wheels,) if wheels else (), alone=wheels is not None)
    if python is not None and not full:
        raise CommandError("--python is for --full; what is only read has no interpreter")
    if full:
        from tools.environment.full import create_full

        made = create_full(home, wanted, python, progress, settings)
    else:
        made = create_environment(
            home,
            wanted,
            parse_architecture(arch) if arch else None,
            progress,
            with_pins=not no_pins,
            refresh=refresh,
            settings=settings,
        )
    with holding([f"environment:{named}"], home, progress):
        choose(home, named, chosen(made), "create", SystemClock())
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
    from tools.environment.history import histories
    from tools.environment.store import list_environments

    home = the_home()
    found = list_environments(home)
    names: dict[str, list[str]] = {}
    for history in histories(home):
        names.setdefault(history.current.environment, []).append(history.name)
    if as_json:
        emit({"environments": [one.document() | {"names": names.get(one.name, [])} for one in found]})
        return
    adopted = sorted(place for place in names if Path(place).is_absolute())
    if not found and not adopted:
        click.echo("No environments yet. Create one with: agent environment create -p sglang==0.5.9")
    rows = [[one.name, one.platform, one.fingerprint[:12], *_names(names.get(one.name))] for one in found]
    rows += [[place, "adopted", "", *_names(names[place])] for place in adopted]
    for line in table(rows):
        click.echo(line)


def _names(given: list[str] | None) -> list[str]:
    return [f"← {', '.join(given)}" if given else ""]


@click.command()
@click.argument("name", default="current")
@json_option
def fingerprint(name: str, as_json: bool) -> None:
    """All that a result may depend on: packages with the hashes of their wheels, Python, GPUs, driver, and
    the variables that engines heed.

    \b
    Examples:
      agent environment fingerprint
      agent environment fingerprint sglang-0.5.9 --json
    """
    progress("looking at this machine")
    import os

    from agent.cli.common import Context
    from tools.environment.marks import marks
    from tools.environment.store import open_environment

    home = the_home()
    found = marks(open_environment(home, name), os.environ, Context(home))
    if as_json:
        emit(found)
        return
    click.echo(f"{squeeze(found['name'])}: {found['platform']}, Python {found['python']}")
    for key in ("environment", "machine"):
        click.echo(f"{key:12} {found[key]}")
    rows = [
        [f"{one['package']} {one['version']}", one["sha256"] or "", one["from"] or ""]
        for one in found["packages"]
    ]
    for one in found["gpus"]:
        settings = ", ".join(f"{name} {value}" for name, value in one["settings"].items())
        rows.append([one["name"], one["capability"] or "", squeeze(f"driver {one['driver']}, {settings}")])
    rows += [["topology", "", line] for line in found["topology"]]
    rows += [[f"cuda, {part}", version, ""] for part, version in found["cuda"].items() if version]
    rows += [[name, value, ""] for name, value in found["variables"].items()]
    for line in table(rows):
        click.echo(f"  {line}")


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
    from tools.environment.history import histories
    from tools.environment.pins import pin_warnings
    from tools.environment.store import chosen, open_environment, origin_of

    home = the_home()
    found = open_environment(home, name)
    here = chosen(found)
    names = [one for one in histories(home) if here.environment in {each.environment for each in one.choices}]
    if as_json:
        origin = origin_of(found)
        emit(found.document() | {"histories": [one.document() for one in names], "origin": origin or None})
        return
    for key, value in (
        ("name", found.name),
        ("kind", found.kind),
        ("path", found.path),
        ("platform", f"{found.platform}, Python {found.python}"),
        ("fingerprint", found.fingerprint),
    ):
        click.echo(f"{key:12} {squeeze(value)}")
    if origin := origin_of(found):
        click.echo(f"{'copied from':12} {squeeze(str(origin['from']))}")
        for package, where in origin["checkouts"].items():
            click.echo(f"  {squeeze(f'{package} is a checkout there: {where}')}")
    sizes = {wheel.name.lower().replace("_", "-"): wheel for wheel in found.wheels}
    for package, version in found.packages.items():
        wheel = sizes.get(package.lower().replace("_", "-"))
        kept = f"  {wheel.filename}  sha256 {wheel.sha256[:12]}" if wheel else ""
        click.echo(f"  {squeeze(f'{package} {version}')}{squeeze(kept) and '  ' + squeeze(kept)}")
    for history in names:
        for number, choice in enumerate(history.choices):
            if choice.environment != here.environment:
                continue
            stands = "stands" if number == history.chosen else "stood"
            since = "; it has changed since" if choice.fingerprint != here.fingerprint else ""
            how = f"{choice.because}, {choice.at[:16].replace('T', ' ')}{since}"
            click.echo(f"{history.name} {stands} for it: {squeeze(how)}")
    for warning in pin_warnings(found):
        click.echo(f"warning: {squeeze(warning)}")
