"""Runs of one engine version under scenarios, each done once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from tools.engines.options import Option
from tools.viability.cell import CONTRASTS
from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.given import MODEL
from tools.viability.hostcode.follow import HostCode
from tools.viability.interpreter.asked import Fact
from tools.viability.interpreter.values import Kind, Tainted, of
from tools.viability.kept import Kept
from tools.viability.runs import Run

Frozen = tuple[tuple[str, str], ...]
"""A scenario as a key."""

VARIABLE = "$"
"""In a scenario, what the name of an environment variable begins with."""


class Settled(str):
    """A value that an option has because start-up chose it: it chooses ways, and proves nothing."""


class Remembered:
    """What was run, by the way that it was run, the option's value, the architecture and the scenario."""

    def __init__(
        self, discovery: Discovery, host: HostCode, tell: Callable[[Facts, Mapping[str, str]], None]
    ) -> None:
        """``tell`` lets a run know the model and the ranks that a scenario names."""
        self._discovery = discovery
        self._host = host
        self._tell = tell
        self.runs: dict[tuple[Any, ...], Run] = {}
        self.kept: Kept[Run] = Kept()
        self.plain: dict[Hashable, Facts] = {}
        """For each key of what is kept, the scenario that stands for all: it decides what takes too long."""
        self._asked: dict[tuple[str, str, tuple[int, int], Frozen], set[str]] = {}

    def asked(self, field: str, backend: str, arch: tuple[int, int], scenario: Mapping[str, str]) -> set[str]:
        """What the runs of an option's value looked at of the model: its class, kinds of it."""
        return self._asked.setdefault((field, backend, arch, frozen(scenario)), set())

    def forget(self) -> None:
        """Have everything run anew."""
        self.runs.clear()
        self.kept.clear()
        self._asked.clear()

    def of(
        self,
        way: tuple[str, ...],
        option: Option,
        backend: str | None,
        arch: tuple[int, int],
        scenario: Mapping[str, str],
        run: Callable[[Facts, Hashable], Run],
    ) -> Run:
        """What ``run`` gives, which is told the key under which it is kept what it does for all values."""
        key = (way, option.field, backend, arch, frozen(scenario))
        if key not in self.runs:
            facts = self.facts(option, backend, arch, scenario)
            kinds = {kind.attribute for kind in self._discovery.kinds if kind.attribute in scenario}
            fixed = {name: value for name, value in scenario.items() if name not in kinds}
            same = (way, option.field, frozen(fixed), tuple(sorted(kinds)))

            if same not in self.plain:
                some = {kind.attribute: kind.members[0] for kind in self._discovery.kinds}
                some = {name: member for name, member in some.items() if name in kinds}
                first = option.values[0].value if backend is not None else None
                self.plain[same] = self.facts(option, first, CONTRASTS[0], {**fixed, **some})

            def work(facts: Facts) -> Run:
                made = run(facts, same)
                made.looked_at = frozenset(facts.given)
                return made

            self.runs[key] = self.kept.of(same, facts, work)
            asked = self.asked(option.field, backend or "", arch, scenario)
            asked.update(name for name in (*kinds, MODEL.name) if Fact(name) in facts.asked)
        return self.runs[key]

    def facts_of_model(self, scenario: Mapping[str, str]) -> Facts:
        """The facts under which a model's own constructor runs: no option is under test."""
        facts = self._new(CONTRASTS[0], None, None)
        self._tell(facts, scenario)
        return facts

    def _new(self, arch: tuple[int, int], field: str | None, value: str | None) -> Facts:
        found = self._discovery
        return Facts(found.world, found.profile, found.option_table, arch, field, value)

    def facts(
        self, option: Option, backend: str | None, arch: tuple[int, int], scenario: Mapping[str, str]
    ) -> Facts:
        """The facts under which a backend is run, or a start for which none was chosen."""
        facts = self._new(arch, option.field, backend)
        facts.tell(
            {
                kind.attribute: (kind, scenario[kind.attribute])
                for kind in self._discovery.kinds
                if kind.attribute in scenario
            }
        )
        facts.operators = self._discovery.operators
        facts.host = self._host
        self._tell(facts, scenario)
        name = scenario.get("quantization")
        facts.overrides["quantization"] = Tainted(None if name == "none" else name, of(Kind.QUANTISATION))
        for key, value in scenario.items():
            if key.startswith(VARIABLE):
                facts.environment[key.removeprefix(VARIABLE)] = value
            if key in self._discovery.option_table.fields and key != "quantization":
                kind = Kind.SOFT if isinstance(value, Settled) else Kind.PARALLELISM
                facts.overrides[key] = Tainted(value, of(kind))
        return facts


def frozen(scenario: Mapping[str, str]) -> Frozen:
    return tuple(sorted(scenario.items()))
