"""Options of commands that may run what they investigate: how far, on which GPU, for how long."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.cli.common import CommandError, Finite

if TYPE_CHECKING:
    from agent.policy import Policy
    from memory.home import Home
    from tools.environment.model import Environment

Function = TypeVar("Function", bound=Callable[..., Any])
RUNS = ("probes", "servers", "benchmarks")


def run_options(function: Function) -> Function:
    """``--run``, ``--gpu``, ``--gpu-minutes``: the parameters of :class:`Running`."""
    options = [
        run_option,
        click.option("--gpu", metavar="N|UUID", help="Which GPU, also where others use it."),
        click.option("--serve", metavar="PATH", help="The model to serve with --run servers."),
        click.option("--gpu-minutes", type=Finite(min=0.1), metavar="N", help="The most that it may take."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


class Place(click.Path):
    """A path that is there, as seen from where the person is: what runs has a working folder of its own."""

    def __init__(self, *, folder: bool) -> None:
        super().__init__(exists=True, file_okay=not folder, dir_okay=folder, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(os.fsdecode(super().convert(value, param, ctx))).absolute()


def interpreter_options(function: Function) -> Function:
    """``--python``, ``--site``: what runs packages that lie in a folder of others."""
    options = [
        click.option("--python", type=Place(folder=False), metavar="PATH",
                     help="The interpreter to run with, where the packages are a folder of others."),
        click.option("--site", type=Place(folder=True), metavar="FOLDER",
                     help="Packages that this interpreter does not find by itself."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def run_option(function: Function) -> Function:
    """``--run``: what a person lets run, in this process."""
    return click.option(
        "--run", type=click.Choice(RUNS), help="Go on from reading: kernels alone, then servers, then loads."
    )(function)


@dataclass(frozen=True)
class Running:
    """What was said about running. Raises :class:`CommandError` for what does not go together."""

    run: str | None
    gpu: str | None = None
    gpu_minutes: float | None = None
    serve: str | None = None
    python: Path | None = None
    site: Path | None = None

    def __post_init__(self) -> None:
        if self.site is not None and self.python is None:
            raise CommandError("--site is for an interpreter; give --python too")
        if self.python is not None and self.run is None:
            raise CommandError(f"--python is for what runs; give --run {RUNS[1]} too")
        if self.serve is not None and self.run not in RUNS[1:]:
            raise CommandError(f"--serve is the model that is launched; give --run {RUNS[1]} too")
        if self.run is None and (self.gpu is not None or self.gpu_minutes is not None):
            raise CommandError(f"--gpu and --gpu-minutes are for what runs; give --run {RUNS[0]} too")

    @property
    def launches(self) -> bool:
        return self.run in RUNS[1:]

    def model(self) -> Path | None:
        """The folder of the model that is launched; None where none is."""
        if not self.launches:
            return None
        if self.serve is None:
            raise CommandError(f"--run {self.run} launches servers; say of which model: --serve PATH")
        if not (model := Path(self.serve).expanduser()).is_dir():
            raise CommandError(
                f"--serve {self.serve}: there is no such folder; expected a model's, with its config.json "
                "and its tokenizer: a shrunk copy of it is launched first"
            )
        return model.absolute()

    def recorded(self) -> dict[str, Any]:
        """What a transcript's options hold of it."""
        model = self.model()
        serve = str(model) if model is not None else None
        return {"run": self.run, "gpu": self.gpu, "gpu_minutes": self.gpu_minutes, "serve": serve}

    def check(self, home: Home, environment: Environment | None, engine: str) -> None:
        """Raise what would be raised by the first launch, after all has been read. ``environment``: None for
        packages that are yet to be unpacked."""
        if self.gpu is not None or self.launches:
            from tools.server.gpus import choose_gpus

            choose_gpus([self.gpu] if self.gpu is not None else [], 1)
        if (model := self.model()) is None:
            return
        from tools.benchmark.generator import generator_of
        from tools.environment.full import interpreter
        from tools.server.shrink import shrunk

        shrunk(model, 1, home)
        if self.python is None and (environment is None or interpreter(environment) is None):
            what = "packages that are unpacked here are" if environment is None else f"{environment.name} is"
            raise CommandError(
                f"{what} only read; --run {self.run} needs a full environment (agent environment create "
                "--full, then -e NAME), or name an interpreter: --python PATH",
                3,
            )
        if self.run == RUNS[2] and environment is not None:
            generator_of(environment, engine)

    def interpreter(self) -> tuple[Path, Path | None] | None:
        """A person's word, like the policy: on no record."""
        return (self.python, self.site) if self.python is not None else None

    def policy(self) -> Policy:
        """What the person allows in this process by having said so: it is on no record."""
        from agent.policy import PERSON, Policy
        from memory.terms import Effect

        if self.run is None:
            return PERSON
        return Policy(PERSON.allowed | {Effect.USES_GPU, Effect.EXECUTES_FOREIGN_CODE})
