"""Changing and comparing environments as tools. What a driver may bring in is narrower than what a person
may: no index of its own, nothing built from source, no package that nothing here asks for."""

from __future__ import annotations

import os
import time
from typing import Any

from pydantic import BaseModel, Field

from memory.clock import SystemClock
from memory.vocabulary import Contract, Effect, Row
from tools.base import ToolError, tool
from tools.environment.bisect import Search, Side, bisect
from tools.environment.choosing import roll_back, subject
from tools.environment.differences import Differences, PackageChange, differences
from tools.environment.environment_tools import check_allowed
from tools.environment.experiment import changed_verdicts, engine_of, parse_test
from tools.environment.history import DEFAULT, histories, is_name
from tools.environment.marks import marks
from tools.environment.model import Environment
from tools.environment.pins import pin_warnings
from tools.environment.plan import NEWEST, Wanted
from tools.environment.store import chosen, open_for
from tools.environment.upgrade import upgrade

_NAME = Field(
    default=DEFAULT, description="A name that stands for an environment, or an environment: then 'current'."
)


def moving(name: str) -> tuple[str, ...]:
    """What must be held to change what ``name`` stands for: an environment's own name moves the default."""
    return tuple(f"environment:{each}" for each in {DEFAULT, *([name] if is_name(name) else [])})


class DescribeEnvironmentInput(BaseModel):
    environment: str = Field(default=DEFAULT, description="A name, or a folder that may be read.")


class DescribeEnvironmentResult(Contract):
    """``fingerprint``: packages, machine and variables that a result may depend on; ``names``: what stands
    for it now; ``warnings``: pins of its engine that are not kept."""

    environment: Environment
    fingerprint: dict[str, Any]
    names: tuple[str, ...]
    warnings: tuple[str, ...]


@tool(effect=Effect.READS)
def describe_environment(args: DescribeEnvironmentInput, context: Any) -> DescribeEnvironmentResult:
    """Describe an environment: its packages with hashes, the machine, and which names stand for it."""
    found = open_for(context, args.environment)
    here = chosen(found).environment
    return DescribeEnvironmentResult(
        environment=found,
        fingerprint=marks(found, os.environ, context),
        names=tuple(one.name for one in histories(context.home) if one.current.environment == here),
        warnings=tuple(pin_warnings(found)),
    )


class UpgradeEnvironmentInput(BaseModel):
    name: str = _NAME
    to: list[str] = Field(description="['latest'], ['nightly'], or packages as NAME==VERSION.", min_length=1)
    only: list[str] = Field(default_factory=list, description="Packages that may change; empty: all.")
    plan_only: bool = Field(default=False, description="Say what would change and who objects; do nothing.")


class UpgradeEnvironmentResult(Contract):
    """``environment``: None where it was only planned. ``name`` stands for it now."""

    name: str
    changes: tuple[PackageChange, ...]
    conflicts: tuple[str, ...]
    warnings: tuple[str, ...]
    environment: Environment | None


@tool(effect=Effect.WRITES_ENVIRONMENT, alone=True, resources=lambda args: moving(args.name))
def upgrade_environment(args: UpgradeEnvironmentInput, context: Any) -> UpgradeEnvironmentResult:
    """Make an environment with other versions beside the old one, and let the name stand for it.

    The old one stays as it is: rollback_environment goes back to it.
    """
    packages = [each for each in args.to if each not in NEWEST]
    if refused := [each for each in packages if each.startswith("git+") or "://" in each]:
        raise ToolError(f"{refused[0]!r} is built from source, which only a person may allow")
    if packages:
        check_allowed(context.home, packages)
    if not is_name(args.name):
        open_for(context, args.name)
    moves, _ = subject(context.home, args.name)
    wanted = Wanted(tuple(args.to), tuple(args.only))
    proposal, made = upgrade(
        context.home, args.name, wanted, lambda _: not args.plan_only, context.progress, SystemClock()
    )
    return UpgradeEnvironmentResult(
        name=moves,
        changes=tuple(
            PackageChange(package=package, before=old, after=new) for package, old, new in proposal.changes
        ),
        conflicts=proposal.conflicts,
        warnings=proposal.warnings,
        environment=made,
    )


class RollbackEnvironmentInput(BaseModel):
    name: str = _NAME
    to: str | None = Field(default=None, description="An environment; else what it stood for before.")


class RollbackEnvironmentResult(Contract):
    name: str
    environment: str


@tool(effect=Effect.WRITES_ENVIRONMENT, alone=True, resources=lambda args: moving(args.name))
def rollback_environment(args: RollbackEnvironmentInput, context: Any) -> RollbackEnvironmentResult:
    """Let a name stand for the environment that it stood for before, or for another one that exists."""
    if args.to is not None:
        open_for(context, args.to)
    name = args.name if is_name(args.name) else DEFAULT
    history = roll_back(context.home, name, SystemClock(), args.to)
    return RollbackEnvironmentResult(name=name, environment=history.current.environment)


class CompareEnvironmentInput(BaseModel):
    before: str
    after: str
    engine: str | None = Field(default=None, description="Whose options; else the only engine in both.")
    component: str | None = Field(default=None, description="Compare verdicts of this component too.")
    arch: str | None = Field(default=None, description="For which architecture; needed for verdicts.")
    quantisation: str | None = None


class ChangedVerdict(Contract):
    """One backend; None where it is not declared. The evidence of either row are the lines that decide."""

    backend: str
    before: Row | None
    after: Row | None


class CompareEnvironmentResult(Contract):
    differences: Differences
    verdicts: tuple[ChangedVerdict, ...]


@tool(effect=Effect.READS, alone=True)
def compare_environment(args: CompareEnvironmentInput, context: Any) -> CompareEnvironmentResult:
    """Compare two environments: packages, options, pins, findings that go stale, verdicts that changed."""
    if (args.component is None) != (args.arch is None):
        raise ToolError("verdicts are compared for a component on an architecture; give both, or neither")
    sides = open_for(context, args.before), open_for(context, args.after)
    engine = args.engine or engine_of(sides[1])
    verdicts: tuple[ChangedVerdict, ...] = ()
    if args.component is not None and args.arch is not None:
        changed = changed_verdicts(context, sides, engine, args.component, args.arch, args.quantisation)
        verdicts = tuple(
            ChangedVerdict(backend=backend, before=before, after=after) for backend, before, after in changed
        )
    return CompareEnvironmentResult(differences=differences(context.home, *sides, engine), verdicts=verdicts)


class BisectEnvironmentInput(BaseModel):
    environment: str = Field(default=DEFAULT, description="All other packages.")
    package: str = Field(description="Whose releases are searched.")
    good: str = Field(description="The release to begin with.")
    bad: str = Field(description="One that says something else; may be older.")
    test: str = Field(description="static COMPONENT BACKEND ARCH [KEY=VALUE...], or option FLAG [VALUE].")


class BisectedRelease(Contract):
    version: str
    says: str
    environment: str
    row: Row | None


class BisectEnvironmentResult(Contract):
    """``same``: the last release that says what the good one says; ``other``: the first that does not, None
    where none does. ``between``: releases between them that could not be looked at."""

    same: BisectedRelease
    other: BisectedRelease | None
    between: tuple[str, ...]
    moved: tuple[tuple[str | None, str | None], ...]
    """What the package asks for: before, after."""
    analyses: int
    versions: int


@tool(effect=Effect.WRITES_ENVIRONMENT, alone=True)
def bisect_environment(args: BisectEnvironmentInput, context: Any) -> BisectEnvironmentResult:
    """Find the release of a package with which a verdict or an option changed, by halving its releases."""
    test = parse_test(args.test)
    check_allowed(context.home, [args.package])
    base = open_for(context, args.environment)
    if base.kind == "adopted":
        raise ToolError(f"{base.path} is someone else's and only read; name an environment made here")
    found = bisect(context, base, Search(args.package, args.good, args.bad), test, time.time)
    return BisectEnvironmentResult(
        same=_release(found.same),
        other=_release(found.other) if found.other else None,
        between=found.between,
        moved=found.moved,
        analyses=found.analyses,
        versions=len(found.versions),
    )


def _release(side: Side) -> BisectedRelease:
    trace = side.outcome.trace
    return BisectedRelease(
        version=side.version,
        says=side.outcome.says,
        environment=side.environment.name,
        row=trace.row if trace else None,
    )
