"""``agent environment compare``: what another environment changes for a target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from agent.cli.common import (
    CommandError,
    emit,
    engine_option,
    json_option,
    progress,
    say,
    scenario_of,
    scenario_option,
    the_home,
)
from agent.text import squeeze

if TYPE_CHECKING:
    from memory.home import Home
    from memory.vocabulary import Row
    from tools.environment.differences import Differences, OptionChange
    from tools.environment.model import Environment


@click.command()
@click.argument("before", required=False)
@click.argument("after", required=False)
@click.option("--arch", "archs", metavar="ARCH", multiple=True, help="Compare verdicts too; repeatable.")
@click.option("--component", "components", metavar="NAME", multiple=True, help="Only this one; repeatable.")
@click.option("--quantisation", metavar="NAME", help="Of the model, e.g. nvfp4: part of the scenario.")
@engine_option
@scenario_option
@json_option
def compare(
    before: str | None,
    after: str | None,
    archs: tuple[str, ...],
    components: tuple[str, ...],
    quantisation: str | None,
    engine: str | None,
    scenario: tuple[str, ...],
    as_json: bool,
) -> None:
    """Packages, options, defaults, verdicts, pins and findings: what differs between BEFORE and AFTER.

    With one name: what it stood for before its last upgrade, and what it stands for now.

    \b
    Examples:
      agent environment compare
      agent environment compare work --arch sm120 --quantisation nvfp4
      agent environment compare sglang-0.5.9 sglang-0.5.10 --arch sm120 --component moe_runner
    """
    progress("looking up the environments")
    from agent.cli.environment_history import fold
    from agent.cli.matrix import Question, architectures, engine_of
    from agent.words import known_quantisation
    from tools.environment.differences import differences

    home = the_home()
    facts = scenario_of(scenario)
    scheme = known_quantisation(quantisation) if quantisation is not None else None
    sides = _sides(home, before, after)
    chosen = engine_of(sides[1], engine)
    if home.environments.is_dir():
        fold(home)
    found = differences(home, *sides, chosen)
    verdicts: dict[str, Any] | None = None
    if archs:
        from agent.cli.compare import compared

        question = Question(chosen, components, tuple(architectures(home, archs)), None, scheme, facts)
        verdicts = compared(home, sides, question)
        verdicts["defaults"] = _moved(verdicts["changed"], found.defaults)
    if as_json:
        emit(found.model_dump(mode="json") | {"verdicts": verdicts})
        return
    say(_lines(found, components))
    if verdicts is not None:
        from agent.cli.compare import show

        say(_moved_line(one) for one in verdicts["defaults"])
        show(verdicts)
    else:
        click.echo("Verdicts are compared for an architecture: --arch sm120")


def _sides(home: Home, before: str | None, after: str | None) -> tuple[Environment, Environment]:
    from tools.environment.choosing import opened
    from tools.environment.history import DEFAULT, read_history
    from tools.environment.store import open_environment

    if before is not None and after is not None:
        return open_environment(home, before), open_environment(home, after)
    history = read_history(home, before or DEFAULT)
    if history is None or history.previous is None:
        raise CommandError(
            f"{before or DEFAULT} stood for nothing before; give two environments: "
            "agent environment compare BEFORE AFTER"
        )
    return opened(home, history.previous), opened(home, history.current)


def _moved(changed: list[dict[str, Any]], defaults: dict[str, str]) -> list[dict[str, Any]]:
    """Components whose default leads somewhere else now: what it led to, what it leads to."""
    return [
        {
            **{key: one[key] for key in ("component", "backend", "arch")},
            **{side: _leads_to(one[side]) for side in ("before", "after")},
        }
        for one in changed
        if defaults.get(one["component"]) == one["backend"]
    ]


def _leads_to(row: Row | None) -> str | None:
    from agent.reasons import NAMES

    return None if row is None else row.runs_instead or NAMES[row.verdict]


def _moved_line(one: dict[str, Any]) -> str:
    led = f"{one['before'] or 'not declared'} → {one['after'] or 'not declared'}"
    return squeeze(f"default {one['component']} {one['arch']}: {one['backend']} leads to {led}")


def _lines(found: Differences, components: tuple[str, ...]) -> Iterator[str]:
    yield squeeze(f"{found.before} → {found.after}")
    for package in found.packages:
        change = f"{package.before or 'not there'} → {package.after or 'gone'}"
        same = " (another wheel of the same version)" if package.before == package.after else ""
        yield squeeze(f"package {package.package} {change}{same}")
    for option in found.options:
        if not components or option.component in components:
            yield squeeze(f"option {_option(option)}")
    for mark, side in zip("-+", found.pins, strict=True):
        for text in side:
            yield squeeze(f"pin {mark} {text}")
    for finding in found.stale:
        yield squeeze(f"stale {finding.finding[:8]} {finding.sentence}")
        yield squeeze(f"      {finding.file}:{finding.line} is not there any more: {finding.text}")
    if found.stands:
        yield f"findings: {found.stands} rest on lines that are the same"


def _option(change: OptionChange) -> str:
    parts = [change.option]
    if change.is_new or change.is_gone:
        parts.append("is new:" if change.is_new else "is gone:")
    parts += [f"+{value}" for value in change.appeared]
    parts += [f"-{value}" for value in change.gone]
    if change.defaults:
        parts.append(f"default {change.defaults[0]} → {change.defaults[1]}")
    return " ".join(parts)
