"""``agent serve --check``: launches as experiments, each ended before the next, all of them on record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.cli.common import CommandError, emit, progress, redactor, say, table, the_home
from agent.cli.given import only_for
from agent.text import safe

if TYPE_CHECKING:
    from memory.home import Home
    from tools.server import Plan

MOST = 64
"""Launches of one call."""
WORDS = 100
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Checking:
    """``each``: the values to try by component, or by ``--option``; ``repeat``: launches of each."""

    each: dict[str, list[str]]
    repeat: int
    concurrency: int
    rounds: int
    questions: int
    loads: tuple[int, ...]
    input: int
    output: int
    long: int | None


def _levels(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[1-9]\d{0,3}(,[1-9]\d{0,3}){0,15}", value):
        raise click.BadParameter("expected concurrencies, e.g. 1,8,32")
    return value


def check_options(function: Function) -> Function:
    options = [
        click.option("--check", is_flag=True, help="Check what it answers, then end it; all on record."),
        click.option(
            "--each", metavar="COMPONENT=NAME,...", multiple=True,
            help="With --check: one launch for each of these, and each combination; repeatable.",
        ),
        click.option(
            "--vary", metavar="NAME=VALUE,...", multiple=True,
            help="The same for an option of the engine; off leaves it out.",
        ),
        click.option(
            "--repeat", type=click.IntRange(1, 16), default=1, metavar="N", help="Launches of each setting."
        ),
        click.option(
            "--concurrency", type=click.IntRange(0, 4096), default=64, metavar="N",
            help="Other requests at the same time while it is checked; 0 checks the start alone.",
        ),
        click.option("--rounds", type=click.IntRange(1, 64), default=4, metavar="N", help="Of such a crowd."),
        click.option(
            "--questions", type=click.IntRange(0, 5000), default=200, metavar="N",
            help="Questions with one right answer, beside the first setting that was right.",
        ),
        click.option("--loads", metavar="N,N,...", callback=_levels,
                     help="With --check: measure at these concurrencies what has passed."),
        click.option("--input", type=click.IntRange(1), default=1024, metavar="N", help="Tokens in a load."),
        click.option("--output", type=click.IntRange(1), default=256, metavar="N", help="And in an answer."),
        click.option("--long", type=click.IntRange(1), metavar="N", help="One more load with this input."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def checking(given: dict[str, Any]) -> Checking | None:
    """What was said about checking; None where it was not asked for. Raises :class:`CommandError`."""
    from agent.trials import FLAG

    wanted, each, vary = given.pop("check"), given.pop("each"), given.pop("vary")
    found: dict[str, list[str]] = {}
    for flag, mark, one in [("--each", "", one) for one in each] + [("--vary", FLAG, one) for one in vary]:
        component, equals, names = one.partition("=")
        values = [name.strip() for name in names.split(",") if name.strip()]
        key = mark + component.lstrip("-").replace("_", "-") if mark else component.strip()
        if not equals or not component.strip("-") or not values or key in found:
            raise CommandError(f"{flag} {one!r} is not NAME=VALUE,VALUE once a name")
        found[key] = list(dict.fromkeys(values))
    _once(found, given)
    loads = tuple(sorted({int(one) for one in (given.pop("loads") or "").split(",") if one}))
    names = ("repeat", "concurrency", "rounds", "questions", "input", "output", "long")
    made = Checking(each=found, loads=loads, **{name: given.pop(name) for name in names})
    if made.loads and not made.concurrency:
        raise CommandError("--loads measures what has passed the check; give --concurrency as well")
    if not wanted:
        only_for("launches that are checked and ended; give --check too", ("each", "vary", "loads", *names))
        return None
    if not made.loads:
        only_for("what is measured; give --loads too", ("input", "output", "long"))
    only_for("a server that stays; leave --check out", ("keep",))
    return made


def _once(each: Mapping[str, list[str]], given: Mapping[str, Any]) -> None:
    """Raises :class:`CommandError` where what is tried in turn is set as well."""
    from agent.trials import FLAG

    set_ = {one.partition("=")[0]: "--backend" for one in given["backends"]}
    set_ |= {name: f"--{name.replace('_', '-')}" for name in ("attention", "moe_runner") if given[name]}
    options = (one.partition("=")[0].lstrip("-").replace("_", "-") for one in given["options"])
    set_ |= {FLAG + name: "--option" for name in options}
    for key in each:
        if key in set_:
            flag = "--vary" if key.startswith(FLAG) else "--each"
            name = key.removeprefix(FLAG)
            raise CommandError(f"{set_[key]} and {flag} both set {name}; give all its values to {flag}")


def checked(home: Home, plan: Plan, asked: Checking, given: dict[str, Any], *, as_json: bool) -> int:
    """Launch all, one after the other; 0 where one is right, 1 where none is."""
    from agent.drivers.trier import TOOL, Trier
    from agent.policy import PERSON, Policy
    from agent.session import Setting, board_of, start
    from agent.trials import grid, settings_of
    from memory.artifacts import Artifacts
    from memory.clock import Ids, SystemClock
    from memory.vocabulary import Effect
    from tools.server import ServerSettings, plan_launch
    from transcripts.reader import transcript_path

    trials = grid(asked.each)
    if (count := len(trials) * asked.repeat) > MOST:
        raise CommandError(f"{count} launches are too many for one call (at most {MOST}); name fewer")
    if given["extra"]:
        raise CommandError("words after -- are not kept on record, so they cannot be checked; use --option")
    settings = plan.settings.model_dump(mode="json", exclude_defaults=True)
    environment = plan.environment
    for pairs in trials:  # before anything is launched
        tried = ServerSettings.model_validate(settings | settings_of(settings, pairs))
        plan_launch(home, environment, tried, driver=False, python=plan.python, site=given["site"])
    trial: dict[str, Any] = {
        # As the record calls it: a folder of others by the path of its packages.
        "environment": environment.name if environment.kind == "source" else environment.path,
        "settings": settings,
        "concurrency": asked.concurrency,
        "rounds": asked.rounds,
        "questions": asked.questions,
        "minutes": given["patience"],
    }
    if asked.loads:
        loads = {"concurrency": list(asked.loads), "input": asked.input, "output": asked.output}
        loads |= {"long": asked.long} if asked.long is not None else {}
        trial["loads"] = {**loads, "tokenizer": settings["model"]}
    if given["gpus"]:
        trial["gpus"] = list(given["gpus"])
    if given["layers"]:
        trial |= {"layers": given["layers"], "settings": {**settings, "model": given["model"]}}
        trial["settings"].pop("load_format", None)
    options = {"environment": trial["environment"], "trial": trial, "trials": trials, "repeat": asked.repeat}
    clock = SystemClock()
    name = Ids().investigation(clock)
    setting = Setting(
        say=progress,
        clock=clock,
        redact=redactor(),
        policy=Policy(PERSON.allowed | {Effect.USES_GPU, Effect.EXECUTES_FOREIGN_CODE}),
        interpreter=(plan.python, given["site"]),
    )
    question = f"which settings serve {settings['model']} rightly"
    concluded = start(home, question, options, setting=setting, name=name, driver=Trier())
    board = board_of(transcript_path(the_home(), name), Artifacts(home.artifacts))
    outputs = [board.output(called.call) or {"error": back.error} for called, back in board.results(TOOL)]
    answer = concluded.answer
    advised = answer.recommendation if answer is not None else None
    if as_json:
        emit({"transcript": name, "summary": concluded.summary, "launches": outputs,
              "recommendation": advised.model_dump(mode="json") if advised is not None else None,
              "findings": list(board.findings)})  # fmt: skip
        return concluded.exit_code
    _show(outputs)
    if advised is not None:
        words = "tested" if advised.tested else "not checked"
        say([safe(f"{words}: {advised.command}"), safe(f"  because {advised.ranked_by[0]}")])
        say(safe(f"  else {one}") for one in advised.alternatives)
    say([safe(f"{concluded.summary}; transcript {name}")])
    return concluded.exit_code


def _show(outputs: Sequence[dict[str, Any]]) -> None:
    rows = []
    for one in outputs:
        if "error" in one:
            rows.append(["?", "not tried", str(one["error"])[:WORDS]])
            continue
        given = {**one["asked"], **one["options"]}
        asked = ", ".join(f"{name}={value}" for name, value in given.items()) or "defaults"
        rows.append([asked, one["outcome"].replace("_", " "), one["because"][:WORDS]])
    say(table(rows))
