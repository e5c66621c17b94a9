"""Of those who use an option, whom a backend is judged by: seen by running them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tools.engines.options import Option
from tools.viability.cell import CONTRASTS
from tools.viability.discover import Discovery
from tools.viability.interpreter.values import Kind
from tools.viability.layers import Layer
from tools.viability.remembered import Frozen, Settled, frozen
from tools.viability.runs import Run
from tools.viability.sizes import of_any

RunUser = Callable[[Layer, Option, str, tuple[int, int], Mapping[str, str]], Run]
"""Runs a user for a backend on an architecture under a scenario (remembered by whoever gives it)."""


SEARCH_STEPS = 2_000_000
"""Steps after which nobody else is tried: an option's value may be handed to half of the engine."""
USER_STEPS = 250_000
"""Steps after which one is not tried any further, and which those who do their work may take together."""
READER_STEPS = 50_000
"""Who takes more and does no work with the value does not use it, but starts those who do."""


@dataclass
class _Found:
    """``readers``: who was seen reading an option; ``users``: of those who do their work with some value."""

    readers: list[Layer]
    users: list[Layer]
    whole: bool = True
    """Whether all were tried that may be."""


class Alternatives:
    """The users of the options of one engine version."""

    def __init__(self, discovery: Discovery, run: RunUser) -> None:
        self._discovery = discovery
        self._run = run
        self._found: dict[tuple[str, Frozen], _Found] = {}

    def readers(self, option: Option, scenario: Mapping[str, str]) -> list[Layer]:
        """Those that were seen reading the option."""
        return self._of(option, of_any(scenario)).readers

    def chosen(
        self, option: Option, backend: str, arch: tuple[int, int], scenario: Mapping[str, str]
    ) -> Layer:
        """The user that decides about a backend on an architecture.

        A function that tells the value decides where it refuses the device. Else it is one that the backend
        works for: of classes of one base, which models choose among, one that gets past this device, if any
        does. Where the backend works for none, each must refuse it.
        """
        scenario = of_any(scenario)
        found = self._of(option, scenario)
        for check in found.readers:
            if check in self._discovery.users(option.field).checks and self._refuses(
                check, option, backend, arch, scenario
            ):
                end = self._run(check, option, backend, arch, scenario).refused
                if end is not None and any(Kind.OPTION in one.taint.kinds for one in end.conditions):
                    return check
        first = next((user for user in found.users if self._fits(user, option, backend, scenario)), None)
        if first is not None:
            kin = (user for user in found.users if self._akin(user, first))
            fits = (user for user in kin if self._fits(user, option, backend, scenario))
            passing = (one for one in fits if self._run(one, option, backend, arch, scenario).refused is None)
            return next(passing, first)
        left = found.users or found.readers
        ends = (self._run(user, option, backend, arch, scenario).refused for user in found.users)
        sure = bool(found.users) and found.whole and all(end is not None and end.proven for end in ends)
        return replace(left[0], unsuited=not sure and (len(left) > 1 or not found.whole))

    def against(
        self, option: Option, backend: str, arch: tuple[int, int], scenario: Mapping[str, str], user: Layer
    ) -> Run | None:
        """A run of one that reads the option beside ``user`` and certainly refuses the device."""
        scenario = of_any(scenario)
        for other in self._of(option, scenario).readers:
            if not self._akin(other, user) and self._refuses(other, option, backend, arch, scenario):
                return self._run(other, option, backend, arch, scenario)
        return None

    def unread(self, option: Option, scenario: Mapping[str, str], run: Run) -> list[str]:
        """Packages that a run met, of which it is not known whether they are there, and that the user does
        its work without for other values."""
        user, scenario = run.layer, of_any(scenario)
        assert user is not None
        ways = [(value.value, arch) for value in option.values for arch in CONTRASTS[:3]]
        every = [self._run(user, option, value, arch, scenario) for value, arch in ways]
        spared = [self._met(one) for one in every if _works(one)]
        return sorted(self._met(run) - frozenset.intersection(*spared)) if spared else []

    def _met(self, run: Run) -> frozenset[str]:
        """Without those that are an optional part of a package that is here, as their names say."""
        world = self._discovery.world
        parts = tuple(f"{root}_" for root in world.roots)
        met = run.machine.facts.kernel_packages
        return frozenset(root for root in met if not world.certain(root) and not root.startswith(parts))

    def _of(self, option: Option, scenario: Mapping[str, str]) -> _Found:
        # What start-up chooses differs from device to device, and says little about who uses an option.
        scenario = {name: value for name, value in scenario.items() if not isinstance(value, Settled)}
        key = (option.field, frozen(scenario))
        if key not in self._found:
            self._found[key] = self._search(option, scenario)
        return self._found[key]

    def _search(self, option: Option, scenario: Mapping[str, str]) -> _Found:
        """Try those who may use the option, the likeliest first, for as long as that is worth it."""
        values = [value.value for value in option.values]
        found, seen, steps = _Found([], []), dict[int, Run](), 0

        def total() -> int:
            return sum(run.machine.steps for run in seen.values())

        def tried(user: Layer, some: list[str]) -> Iterator[Run]:
            """Another device only where one is refused, nothing where it takes too long."""
            before = total()
            for arch in CONTRASTS[:3]:
                refused = False
                for value in some:
                    run = self._run(user, option, value, arch, scenario)
                    seen[id(run)] = run  # what comes out alike for several was done once
                    yield run
                    if run.problem is not None or total() - before > USER_STEPS:
                        return
                    refused = refused or run.refused is not None
                if not refused:
                    return

        for user in self._discovery.users(option.field).layers:
            if total() > SEARCH_STEPS or steps > USER_STEPS:
                found.whole = False
                break
            reads = next((run for run in tried(user, values[:2]) if run.observed), None)
            works = next((run for run in tried(user, values) if _works(run)), None) if reads else None
            if works is not None:
                found.users.append(user)
                steps += works.machine.steps
            if works is not None or (reads is not None and reads.machine.steps <= READER_STEPS):
                found.readers.append(user)
        return found

    def _fits(self, user: Layer, option: Option, backend: str, scenario: Mapping[str, str]) -> bool:
        """Whether a user does its work with a backend on some architecture."""
        return any(_works(self._run(user, option, backend, arch, scenario)) for arch in CONTRASTS[:3])

    def _refuses(
        self, user: Layer, option: Option, backend: str, arch: tuple[int, int], scenario: Mapping[str, str]
    ) -> bool:
        """Whether a user certainly refuses a device, and another one not."""
        end = self._run(user, option, backend, arch, scenario).refused
        if end is None or not end.proven or Kind.ARCH not in end.guard.kinds:
            return False
        return any(self._run(user, option, backend, other, scenario).refused is None for other in CONTRASTS)

    def _akin(self, user: Layer, other: Layer) -> bool:
        """Whether they are one, or classes of one base: whichever the model needs is built."""
        bases = self._discovery.bases
        common = bases.get(user.classes[0], frozenset()) & bases.get(other.classes[0], frozenset())
        return user.classes == other.classes or bool(common)


def _works(run: Run) -> bool:
    """Whether a run was not stopped, and the option's value led to what does the work."""
    refused = run.refused
    # What a package is missing for says nothing about who uses it.
    stands = refused is None or not refused.proven or refused.cause in ("import", "name")
    worked = any(crossing.works and crossing.by_option for crossing in run.machine.crossings)
    return run.problem is None and stands and worked
