"""Environments as tools. What a driver may bring in is narrower than what a person may."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, Field

from memory.architecture import ArchitectureError, parse_architecture
from memory.home import Home
from memory.vocabulary import Contract, Effect
from tools.base import ToolContext, ToolError, tool
from tools.environment import create, store
from tools.environment.model import Environment
from tools.environment.pins import closure, machine_of, pin_warnings, profiles
from tools.environment.request import parse_request


class CreateEnvironmentInput(BaseModel):
    packages: list[str] = Field(
        default_factory=list,
        description="NAME==VERSION or NAME (the newest). Empty: the default engine and what it pins.",
    )
    arch: str | None = Field(
        default=None, description="The GPU architecture that it is for, e.g. sm120: decides the CPU platform."
    )
    with_pins: bool = Field(
        default=True, description="Bring the kernel libraries that an engine pins, where only it is named."
    )


class EnvironmentRow(Contract):
    """``megabytes``: the wheels as fetched, 10^6 bytes."""

    name: str
    packages: dict[str, str]
    platform: str
    fingerprint: str
    megabytes: float


class EnvironmentResult(Contract):
    environment: Environment
    warnings: tuple[str, ...]
    """Where a version differs from the one that the engine asks for."""


class ListEnvironmentsInput(BaseModel):
    pass


class ListEnvironmentsResult(Contract):
    environments: tuple[EnvironmentRow, ...]


def check_allowed(home: Home, packages: Iterable[str]) -> None:
    """Refuse what a driver may not install: anything but an engine, its kernel libraries, or what the
    packages of an existing environment require. Raises :class:`ToolError`."""
    wanted = set(parse_request(list(packages)).packages)
    known = {name for profile in profiles().values() for name in (profile.name, *profile.kernel_libraries)}
    if wanted <= known:
        return
    for environment in store.list_environments(home):
        known |= closure(environment.root, environment.packages, machine_of(environment.platform))
    if refused := sorted(wanted - known):
        raise ToolError(
            f"{', '.join(refused)}: neither an engine, nor a kernel library of one, nor required by a "
            "package of an environment here; a person can add it: agent environment create -p NAME==VERSION"
        )


@tool(effect=Effect.WRITES_ENVIRONMENT, alone=True)
def create_environment(args: CreateEnvironmentInput, context: ToolContext) -> EnvironmentResult:
    """Fetch packages and unpack them for reading; nothing of them runs. Same request, same environment."""
    check_allowed(context.home, args.packages)
    try:
        arch = parse_architecture(args.arch) if args.arch else None
    except ArchitectureError as error:
        raise ToolError(str(error)) from error
    made = create.create_environment(
        context.home, args.packages, arch, context.progress, with_pins=args.with_pins
    )
    return EnvironmentResult(environment=made, warnings=tuple(pin_warnings(made)))


@tool(effect=Effect.READS)
def list_environments(args: ListEnvironmentsInput, context: ToolContext) -> ListEnvironmentsResult:
    """List the environments that exist here, with their packages and the platform they are for."""
    return ListEnvironmentsResult(
        environments=tuple(
            EnvironmentRow(
                name=environment.name,
                packages=environment.packages,
                platform=environment.platform,
                fingerprint=environment.fingerprint,
                megabytes=round(sum(wheel.size or 0 for wheel in environment.wheels) / 1e6, 1),
            )
            for environment in store.list_environments(context.home)
        )
    )
