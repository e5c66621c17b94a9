"""Of those who use an option, whom a backend is judged by: seen by running them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tools.engines.options import Option
from tools.viability.cell import CONTRASTS
from tools.viability.discover import Discovery
from tools.viability.interpreter.values import Kind
from tools.viability.layers import Layer
from tools.viability.remembered import Frozen, frozen
from tools.viability.runs import Run
from tools.viability.sizes import of_any

RunUser = Callable[[Layer, Option, str, tuple[int, int], Mapping[str, str]], Run]
"""Runs a user for a backend on an architecture under a scenario (remembered by whoever gives it)."""


class Alternatives:
    """The users of the options of one engine version."""

    def __init__(self, discovery: Discovery, run: RunUser) -> None:
        self._discovery = discovery
        self._run = run
        self._found: dict[tuple[str, Frozen], tuple[list[Layer], list[Layer]]] = {}
        """Users that were seen reading an option, and those of them that do their work with some value."""

    def readers(self, option: Option, scenario: Mapping[str, str]) -> list[Layer]:
        """Those that were seen reading the option."""
        return self._of(option, of_any(scenario))[0]

    def chosen(
        self, option: Option, backend: str, arch: tuple[int, int], scenario: Mapping[str, str]
    ) -> Layer:
        """The user that decides about a backend on an architecture.

        A function that tells the value decides where it refuses the device. Else it is one that the backend
        works for: of classes of one base, which models choose among, one that gets past this device, if any
        does. Where the backend works for none, each must refuse it.
        """
        scenario = of_any(scenario)
        readers, users = self._of(option, scenario)
        for check in readers:
            if check in self._discovery.users(option.field).checks and self._refuses(
                check, option, backend, arch, scenario
            ):
                end = self._run(check, option, backend, arch, scenario).refused
                if end is not None and any(Kind.OPTION in one.taint.kinds for one in end.conditions):
                    return check
        fits = [user for user in users if self._fits(user, option, backend, scenario)]
        kin = [user for user in fits if self._akin(user, fits[0])]
        passing = (user for user in kin if self._run(user, option, backend, arch, scenario).refused is None)
        found = next(passing, None) or next(iter(kin), None)
        if found is not None:
            return found
        left = users or readers
        ends = [self._run(user, option, backend, arch, scenario).refused for user in left]
        sure = bool(users) and all(end is not None and end.proven for end in ends)
        return replace(left[0], unsuited=not sure and len(left) > 1)

    def against(
        self, option: Option, backend: str, arch: tuple[int, int], scenario: Mapping[str, str], user: Layer
    ) -> Run | None:
        """A run of one that reads the option beside ``user`` and certainly refuses the device."""
        scenario = of_any(scenario)
        for other in self._of(option, scenario)[0]:
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

    def _of(self, option: Option, scenario: Mapping[str, str]) -> tuple[list[Layer], list[Layer]]:
        key = (option.field, frozen(scenario))
        if key not in self._found:
            values = [value.value for value in option.values]
            ways = [(value, arch) for arch in CONTRASTS[:2] for value in values[:2]]
            readers = [
                user
                for user in self._discovery.users(option.field).layers
                if any(self._run(user, option, value, arch, scenario).observed for value, arch in ways)
            ]
            users = [
                user for user in readers if any(self._fits(user, option, value, scenario) for value in values)
            ]
            self._found[key] = readers, users
        return self._found[key]

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
