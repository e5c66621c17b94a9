"""What a server is asked to run with, at the command line, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.cli.common import CommandError, Finite, engine_option, progress
from agent.cli.given import there_or_named
from agent.cli.run_options import Place
from agent.text import shorten

if TYPE_CHECKING:
    from memory.home import Home
    from tools.server import Plan
    from tools.server.fit import Fit

Function = TypeVar("Function", bound=Callable[..., Any])


def server_options(function: Function) -> Function:
    """What a server is asked to run with."""
    for option in reversed(
        [
            click.option("-e", "--environment", metavar="NAME|PATH", help="The full environment to run in."),
            click.option("--model", metavar="PATH|NAME", help="A model's folder, or its name on a hub."),
            engine_option,
            click.option(
                "-b", "--backend", "backends", metavar="COMPONENT=NAME", multiple=True,
                help="The backend of a component; repeatable.",
            ),
            click.option("--attention", metavar="NAME", help="Short for --backend attention=NAME."),
            click.option("--moe-runner", metavar="NAME", help="Short for --backend moe_runner=NAME."),
            click.option(
                "--tp", type=click.IntRange(1, 1024), default=1, metavar="N", help="Ranks, a GPU each."
            ),
            click.option("--dtype", metavar="NAME", help="Of activations and unquantised weights."),
            click.option(
                "--quantisation", "--quantization", metavar="NAME", help="Where the config does not say."
            ),
            click.option(
                "--context-length", type=click.IntRange(1), metavar="N", help="Tokens of one request."
            ),
            click.option(
                "--memory-fraction", type=Finite(0, 1, min_open=True), metavar="F",
                help="Of a GPU's memory, for weights and cache.",
            ),
            click.option("--load-format", metavar="NAME", help="dummy makes the weights up."),
            click.option(
                "--option", "options", metavar="NAME[=VALUE]", multiple=True,
                help="A further option of the engine, without dashes; repeatable.",
            ),
            click.option("--layers", type=click.IntRange(1, 64), metavar="N",
                         help="Try a shrunk copy of the model: N layers, made-up weights."),
            click.option("--cpu", is_flag=True, help="An engine that was built for the CPU."),
            click.option("--gpu", "gpus", metavar="N|UUID", multiple=True,
                         help="Which GPU, also where others use it; repeatable. Else the first free ones."),
            click.option("--python", type=Place(folder=False), metavar="PATH",
                         help="The interpreter to run with, where -e is a folder of others."),
            click.option("--site", type=Place(folder=True), metavar="FOLDER",
                         help="Packages that this interpreter does not find by itself."),
            click.option("--pass-env", metavar="NAME", multiple=True, help="A variable that it may see."),
            click.option("--patience", type=Finite(min=1), default=60.0, metavar="MINUTES",
                         help="The most that a start may take while it makes progress."),
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def planned(home: Home, given: dict[str, Any]) -> Plan:
    """The launch that the options ask for. Raises :class:`CommandError` and ``ToolError``."""
    from tools.environment.store import open_environment
    from tools.server import ServerSettings, plan_launch

    if not given["model"]:
        raise CommandError("which model? --model PATH, its folder or its name on a hub")
    model = there_or_named("--model", given["model"])
    if given["cpu"] and given["gpus"]:
        raise CommandError("--gpu names a GPU, and with --cpu none is used; give one of them")
    if given["layers"] and given["load_format"] not in (None, "dummy"):
        raise CommandError("--layers makes the weights up; leave --load-format out")
    options = _options(given["options"])
    environment = open_environment(home.prepare(), given["environment"] or "current")
    settings = {
        "model": model,
        "engine": (given["engine"] or _engine(environment)).lower(),
        "backends": _backends(given),
        "tensor_parallel": given["tp"],
        "options": options,
        "device": "cpu" if given["cpu"] else "gpu",
    }
    for name in ("dtype", "quantisation", "context_length", "memory_fraction", "load_format"):
        settings[name] = given[name]
    if given["layers"]:
        from tools.server.shrink import shrunk

        made = shrunk(Path(model), given["layers"], home)
        settings |= {"model": str(made.folder), "load_format": "dummy"}
        progress(f"shrunk to {made.layers} of {made.of} layers with made-up weights: says nothing of quality")
    from pydantic import ValidationError

    from tools.server.plan import TYPED

    try:
        typed = ServerSettings.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(one) for one in first["loc"]]
        where = ".".join([TYPED.get(place[0], place[0]), *place[1:]])
        what = "expected one word" if first["type"] == "string_pattern_mismatch" else first["msg"]
        raise CommandError(f"{where}, {shorten(str(first['input']), 80)!r}: {what}") from None
    python = given["python"] or beside(environment)
    return plan_launch(
        home,
        environment,
        typed,
        extra=given["extra"],
        driver=False,
        python=python,
        site=given["site"],
        pass_env=given["pass_env"],
    )


def beside(environment: Any) -> Path | None:
    """The interpreter of a virtual environment of others, by whose packages it was named."""
    found = Path(environment.path).parents[2] / "bin" / "python" if environment.kind == "adopted" else None
    return found if found is not None and found.is_file() else None


def _engine(environment: Any) -> str:
    from tools.engines.adapter import engines

    tree = environment.tree()
    there = [name for name, profile in engines().items() if profile.installed(tree)]
    if len(there) != 1:
        raise CommandError(f"which engine? --engine {' or '.join(there or engines())}")
    return there[0]


def _backends(given: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    short = [f"{name}={given[name]}" for name in ("attention", "moe_runner") if given[name]]
    for one in (*given["backends"], *short):
        component, equals, backend = one.partition("=")
        if not equals or not component or not backend:
            raise CommandError(f"--backend {one!r} is not COMPONENT=NAME, e.g. attention=triton")
        if found.setdefault(component, backend) != backend:
            raise CommandError(f"two backends for {component}: {found[component]} and {backend}")
    return found


def _options(given: Sequence[str]) -> dict[str, bool | int | float | str]:
    from agent.trials import typed

    found: dict[str, bool | int | float | str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        value = typed(text) if equals else True
        if found.setdefault(name, value) != value:
            raise CommandError(f"--option gives {name} twice, {found[name]} and {value}; give it once")
    return found


def audited(plan: Plan, named: Sequence[str]) -> tuple[str, ...]:
    """The GPUs that it gets, after a look at this machine: what would hold it back is said."""
    from tools.hardware.audit import audit
    from tools.server.gpus import choose_gpus

    chosen: tuple[str, ...] = ()
    if plan.settings.device == "gpu":
        chosen = tuple(gpu.uuid for gpu in choose_gpus(named, plan.settings.tensor_parallel))
    for check in audit(chosen, plan.environment.packages):
        if check.ok is not True:
            progress(f"{check.name}: {check.found}" + (f"; {check.fix}" if check.fix else ""))
    return chosen


def fit_of(plan: Plan, named: Sequence[str]) -> Fit | None:
    from tools.hardware.gpu import read_gpus
    from tools.server.fit import will_it_fit

    there = [gpu for gpu in read_gpus().gpus if not named or {str(gpu.index), gpu.uuid} & set(named)]
    sizes = [gpu.memory_total_mib << 20 for gpu in there if gpu.memory_total_mib]
    return will_it_fit(plan.settings, min(sizes) if sizes and plan.settings.device == "gpu" else None)
