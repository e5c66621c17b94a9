"""One engine version under analysis: discovery done once, runs remembered, cells judged."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from memory.vocabulary import Because, Verdict
from tools.engines.options import Option, discover_options
from tools.source.tree import SourceTree
from tools.viability.alternatives import Alternatives
from tools.viability.cell import CONTRASTS, Cell, Judgement, RunCell, put_in_place
from tools.viability.compiled import CompiledCode
from tools.viability.discover import Discovery
from tools.viability.facts import Facts
from tools.viability.fit import misfit
from tools.viability.given import MODEL
from tools.viability.hostcode.follow import HostCode
from tools.viability.hostcode.sources import Sources
from tools.viability.installed import absent_modules, assumed_modules, pinned_versions
from tools.viability.interpreter.machine import Machine
from tools.viability.interpreter.modules import World
from tools.viability.interpreter.values import bare
from tools.viability.judge import judge
from tools.viability.kinds import kind_of
from tools.viability.layers import Layer
from tools.viability.life import run_layer
from tools.viability.profile import covering, libraries, profile, scenarios
from tools.viability.reach import Reach
from tools.viability.remembered import Frozen, Remembered, Settled, frozen
from tools.viability.runs import Run
from tools.viability.settle import run_options
from tools.viability.sizes import Changed, Sizes, nominal, of_any, of_class
from tools.viability.suited import Suited
from tools.viability.table import run_registered
from tools.viability.undecided import alike, divided, doubtful, rests_on_class, unknown, unused_row
from tools.viability.used import run_user

PASSING = (Verdict.NO_STATIC_OBSTACLE, Verdict.REROUTED)

STACK_BYTES = 512 * 1024 * 1024


Result = TypeVar("Result")
Under = Callable[[str, tuple[int, int]], Mapping[str, str]]
"""The scenario under which a backend is run on an architecture."""


class Analysis:
    """Verdicts for one engine in one tree. Not for concurrent use."""

    def __init__(self, tree: SourceTree, engine: str) -> None:
        self.tree = tree
        self.engine = engine
        self.profile = profile(engine)
        self.options = discover_options(tree, engine)
        self.world = World(tree, assumed_modules(tree), absent_modules(), pinned_versions(tree))
        self.discovery = Discovery(self.world, self.profile, self.options)
        self.code = CompiledCode(tree)
        self.reach = Reach(tree, engine)
        self._kinds: dict[tuple[str, str], dict[str, str]] = {}
        self._misfits: dict[tuple[str, Frozen], str | None] = {}
        self.sizes = Sizes(self)
        self.remembered = Remembered(self.discovery, HostCode(Sources(tree)), self.sizes.tell)
        self.layers = Suited(self.discovery, self._run)
        self.users = Alternatives(self.discovery, self._run)

    def prepare(self) -> None:
        """Find now what every cell needs, so that forked workers share it; what comes later stays small."""
        self.discovery.prepare()
        self.world.shelve()

    def option(self, component: str) -> Option | None:
        """The option of a component; where there is none of its own, the one that covers it."""
        for name in (component, covering(component)):
            for option in self.options:
                if option.component == name:
                    return option
        return None

    def scenario(self, component: str, quantisation: str | None, given: Mapping[str, str]) -> dict[str, str]:
        """The scenario a component is judged under, with every default that was taken."""
        data = scenarios()
        own = data["components"].get(component)
        scheme = own or quantisation or "bf16"
        name = given.get("quantization") or self._engine_name(scheme)
        facts = libraries()["facts"]
        scenario = {"quantisation": scheme, "quantization": name or "none", "cuda": str(facts["cuda"])}
        scenario.update({key: value for key, value in given.items() if key not in scenario})
        return scenario

    def _engine_name(self, scheme: str) -> str | None:
        """What this engine version calls a quantisation scheme."""
        declared = next((option for option in self.options if option.field == "quantization"), None)
        known = {value.value for value in declared.values} if declared is not None else set()
        names: list[str] = scenarios().get(scheme, {}).get("names", [scheme])
        return next((name for name in names if name in known), names[0] if names and not known else None)

    def judge(self, cell: Cell, scenario: Mapping[str, str], models: Sequence[str] = ()) -> Judgement:
        """The verdict of one cell; what cannot be followed is unknown, with the reason.

        ``models`` are the classes that may serve the model: what none of them builds is not applicable. Where
        the way depends on the kind of model, and neither they nor the scenario tell, the cell is judged for
        the kind that the backend needs.
        """
        option = self.option(cell.component)
        if option is not None and models:
            layer = self.layer_of(option, cell.backend, scenario)
            unused = self.reach.unused(layer, models) if layer is not None else None
            if layer is not None and unused is not None:
                return unused_row(cell, unused, layer.root)
            models = [model for model in models if layer is None or self.reach.may_use(layer, model)]
        field = option.field if option is not None else ""
        rules = [self._rules_of(model, scenario) for model in models] or [{}]
        judged: dict[str, Judgement] = {}
        asked: set[str] = set()
        for number, own in enumerate(rules):
            # Another class for which nothing that was looked at is otherwise is judged alike.
            if number and all(own.get(name) == rules[0].get(name) for name in asked):
                continue
            one, looked = self._judge_kinds(cell, option, field, {**own, **scenario})
            judged[own.get(MODEL.name, "")] = one
            asked |= looked
        return next(iter(judged.values())) if alike(judged.values()) else divided(cell, judged)

    def _judge_kinds(
        self, cell: Cell, option: Option | None, field: str, scenario: Mapping[str, str]
    ) -> tuple[Judgement, set[str]]:
        """The verdict for the kind of model that the backend gets furthest with, and what was looked at."""
        judged: list[Judgement] = []
        looked: set[str] = set()
        kinds = [kind for kind in self.discovery.kinds if kind.attribute not in scenario]
        for members in itertools.product(*(kind.members for kind in kinds)):
            under = {
                **scenario,
                **{kind.attribute: member for kind, member in zip(kinds, members, strict=True)},
            }
            plain = nominal(under)
            changed = [(Because.MODEL, of_any(plain))] if MODEL.name in plain else []
            found = self.judge_under(cell, plain, changed)
            asked = self.remembered.asked(field, cell.backend, cell.arch, plain)
            if option is not None and (plain != under or MODEL.name in plain):
                found = self.sizes.judge(cell, option, under, found)
            told = asked if rests_on_class(found.row) else asked - {MODEL.name}
            found.under |= {name: under[name] for name in sorted(told)}
            judged.append(found)
            looked |= asked
            if not asked - set(scenario):
                break
        return min(judged, key=_preference), looked

    def _rules_of(self, model: str, scenario: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """The class of a model as scenarios tell it, and the kinds of model that it is of."""
        told = self.sizes.told(scenario)
        key = (model, told.digest if told is not None else "")
        if key not in self._kinds:
            facts = Facts(self.world, self.profile, self.discovery.option_table, CONTRASTS[0], None, None)
            kinds = self.discovery.kinds
            members = {
                kind.attribute: kind_of(Machine(self.world, facts), kind, model, told) for kind in kinds
            }
            known = {name: member for name, member in members.items() if member is not None}
            self._kinds[key] = known | self.sizes.rules(model, scenario)
        return self._kinds[key]

    def left(self, cell: Cell, scenario: Mapping[str, str], models: Sequence[str]) -> str | None:
        """What start-up takes for the classes of a model where nobody sets an option that has no default."""
        option = self.option(cell.component)
        if option is None or option.default is not None:
            return None
        runs = (
            self.remembered.of(
                ("options", "unset"),
                option,
                None,
                cell.arch,
                of_class({**self._rules_of(model, scenario), **scenario}),
                self._run_options,
            )
            for model in models
        )
        found = {run.puts[0] if run.puts else None for run in runs}
        return found.pop() if len(found) == 1 else None

    def layer_of(self, option: Option, backend: str, scenario: Mapping[str, str]) -> Layer | None:
        """The layer that a backend is judged in; none where the option's values are names in a table."""
        return None if self.is_registered(option) else self.layers.for_backend(option, backend, scenario)

    def is_registered(self, option: Option) -> bool:
        """Whether the option's values are names in a table of their own."""
        places = [self.discovery.registered(value) for value in option.values]
        return sum(place is not None for place in places) * 2 >= len(places)

    def judge_under(
        self, cell: Cell, scenario: Mapping[str, str], changed: Sequence[Changed] = ()
    ) -> Judgement:
        """``changed``: scenarios with one fact of the target changed, and what that fact is."""
        option = self.option(cell.component)
        if option is None:
            return unknown(cell, f"{self.engine} declares no option for {cell.component}")
        declared = next((value for value in option.values if value.value == cell.backend), None)
        if declared is None:
            known = ", ".join(value.value for value in option.values)
            return unknown(cell, f"{option.flag} does not accept {cell.backend!r}; it accepts {known}")
        others = [value.value for value in option.values]

        def options(
            backend: str,
            arch: tuple[int, int],
            layer: Layer | None = None,
            scenario: Mapping[str, str] = scenario,
        ) -> Run:
            del layer  # there is none yet
            under = of_class(scenario)
            return self.remembered.of(("options",), option, backend, arch, under, self._run_options)

        def as_settled(backend: str, arch: tuple[int, int]) -> Mapping[str, str]:
            """The scenario with what start-up puts into options that nobody set."""
            return {**scenario, **self._settled(option, options(backend, arch))}

        wrong = self._misfit(option, cell, of_any(scenario))
        checked = options(cell.backend, cell.arch)
        # What start-up itself refuses is so whatever comes after it, read or not.
        if checked.refused is not None and (wrong is None or self.discovery.quantisation_lookup is not None):
            otherwise = [
                (because, partial(options, cell.backend, cell.arch, scenario=one)) for because, one in changed
            ]
            judged = judge(
                cell, checked, options, others, list(CONTRASTS), self.tree, self.code, otherwise=otherwise
            )
            if judged.row.verdict is Verdict.BLOCKED:
                return judged
        if wrong is not None:
            return unknown(cell, f"the analyser does not fit this version: {wrong}")
        other = checked.puts[0] if len(checked.puts) == 1 and checked.puts[0] in others else None
        if other is not None and not options(other, cell.arch).puts:
            asked = partial(self.remembered.asked, option.field, arch=cell.arch, scenario=scenario)
            judged = self.judge_under(replace(cell, backend=other), scenario, changed)
            asked(cell.backend).update(asked(other))
            return put_in_place(cell, other, judged)
        judged = self._judge_way(cell, option, options, lambda *_: scenario, changed)
        settled = self._settled(option, checked)
        if judged.row.verdict is Verdict.UNKNOWN and settled:
            again = self._judge_way(cell, option, options, as_settled, changed)
            if again.row.verdict is not Verdict.UNKNOWN:
                return again
        return judged

    def _settled(self, option: Option, checked: Run) -> dict[str, str]:
        """Of what start-up gives options that nobody set the values that were declared for them."""
        found: dict[str, str] = {}
        for other in self.options:
            value = bare(checked.settled.get(other.field))
            declared = {one.value for one in other.values}
            if other.field != option.field and isinstance(value, str) and value in declared:
                found[other.field] = Settled(value)
        return found

    def _judge_way(
        self, cell: Cell, option: Option, options: RunCell, under: Under, changed: Sequence[Changed]
    ) -> Judgement:
        way = self._way(option, under, cell)
        if way is None:
            return unknown(cell, f"no layer was found that reads {option.flag} under what start-up chooses")

        def dedicated() -> bool:
            return all(
                any(_refuses(one(cell.backend, arch)) for one in (options, way))
                for arch in CONTRASTS
                if arch[0] != cell.arch[0]
            )

        others = [value.value for value in option.values]
        run = way(cell.backend, cell.arch)
        chosen = under(cell.backend, cell.arch)
        settled = {name: value for name, value in chosen.items() if isinstance(value, Settled)}
        otherwise = []
        for because, scenario in changed:
            other = self._way(option, partial(_always, {**scenario, **settled}), cell)
            if other is not None:
                otherwise.append((because, partial(other, cell.backend, cell.arch)))
        judged = judge(cell, run, way, others, list(CONTRASTS), self.tree, self.code, dedicated, otherwise)
        if run.layer is not None and run.layer.user and judged.row.verdict in PASSING:
            doubt = options(cell.backend, cell.arch).doubt
            if doubt is None:
                against = self.users.against(option, cell.backend, cell.arch, chosen, run.layer)
                doubt = against.refused if against is not None else None
            if doubt is not None:
                return doubtful(cell, doubt)
            if missing := self.users.unread(option, chosen, run):
                return unknown(cell, f"hands its work on to code that was not read: {', '.join(missing)}")
        judged.under = {name: settled[name] for name in sorted(run.looked_at) if name in settled}
        return judged

    def _misfit(self, option: Option, cell: Cell, scenario: Mapping[str, str]) -> str | None:
        """Why nothing is said of an option in this version, if so; whatever kind of model."""
        kinds = {kind.attribute: kind.members for kind in self.discovery.kinds if kind.attribute in scenario}
        fixed = {name: value for name, value in scenario.items() if name not in kinds}
        key = (option.field, frozen(fixed))
        if key not in self._misfits:
            unders = [
                {**fixed, **dict(zip(kinds, members, strict=True))}
                for members in itertools.product(*kinds.values())
            ]
            self._misfits[key] = misfit(
                self.discovery,
                option,
                ((under, self._way(option, partial(_always, under), cell)) for under in unders),
                CONTRASTS[:3],
            )
        return self._misfits[key]

    def _way(self, option: Option, under: Under, cell: Cell) -> RunCell | None:
        """How the option's value reaches code: through a table of its own, or through a layer's life.

        ``under`` tells the scenario of each backend and architecture.
        """
        if self.is_registered(option):
            places = {value.value: self.discovery.registered(value) for value in option.values}

            def registered(backend: str, arch: tuple[int, int], layer: Layer | None = None) -> Run:
                del layer
                place, scenario = places.get(backend), under(backend, arch)
                if place is None:
                    facts = self.remembered.facts(option, backend, arch, scenario)
                    return Run(Machine(self.world, facts), None)
                return self.remembered.of(
                    ("table", *place),
                    option,
                    backend,
                    arch,
                    scenario,
                    lambda facts, _: run_registered(self.discovery, facts, place),
                )

            return registered
        if next(self.layers.of(option, of_any(under(cell.backend, cell.arch))), None) is None:
            if not self.users.readers(option, under(cell.backend, cell.arch)):
                return None

            def used(backend: str, arch: tuple[int, int], layer: Layer | None = None) -> Run:
                scenario = under(backend, arch)
                layer = layer or self.users.chosen(option, backend, arch, scenario)
                return self._run(layer, option, backend, arch, scenario)

            return used

        def lived(backend: str, arch: tuple[int, int], layer: Layer | None = None) -> Run:
            scenario = under(backend, arch)
            layer = layer or self.layers.for_backend(option, backend, scenario)
            assert layer is not None
            if layer.unsuited and self.layers.refused_alike(option, backend, arch, nominal(scenario)):
                layer = replace(layer, unsuited=False)
            return self._run(layer, option, backend, arch, scenario)

        return lived

    def _run(
        self, layer: Layer, option: Option, backend: str, arch: tuple[int, int], scenario: Mapping[str, str]
    ) -> Run:
        if layer.unsuited:  # what it does is the same, what it means is not
            plain = replace(layer, unsuited=False)
            return replace(self._run(plain, option, backend, arch, scenario), layer=layer)
        quantisation = None if scenario["quantization"] == "none" else scenario["quantization"]
        checkpoint = scenarios().get(scenario["quantisation"], {}).get("checkpoint", {})
        checkpoint = self.sizes.quantisation(scenario) or checkpoint
        built = self.sizes.built(layer, scenario)
        return self.remembered.of(
            ("layer", layer.name),
            option,
            backend,
            arch,
            scenario,
            lambda facts, _: (
                run_user(self.discovery, facts, layer)
                if layer.user
                else run_layer(self.discovery, facts, layer, quantisation, checkpoint, built)
            ),
        )

    def _run_options(self, facts: Facts, key: Hashable) -> Run:
        return run_options(self.discovery, facts, self.remembered.kept, key, self.remembered.plain[key])


def _always(scenario: Mapping[str, str], *_: Any) -> Mapping[str, str]:
    return scenario


def _refuses(run: Run) -> bool:
    return run.refused is not None and run.refused.proven


def _preference(judged: Judgement) -> int:
    """Of several kinds of model nobody named, the one that a backend gets furthest with comes first."""
    verdict = judged.row.verdict
    if verdict is Verdict.BLOCKED:
        return 3 if judged.row.because is Because.ARCHITECTURE else 5
    if verdict is Verdict.UNKNOWN:
        return 4 if judged.cut else 2
    return {Verdict.NO_STATIC_OBSTACLE: 0, Verdict.REROUTED: 1}.get(verdict, 6)


def with_stack(function: Callable[[], Result]) -> Result:
    """Run with the deep stack that interpreting deep call chains needs."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append((True, function()))
        except BaseException as error:  # noqa: BLE001 - handed over to the caller's thread
            outcome.append((False, error))

    limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(max(limit, 40_000))
    try:
        thread = threading.Thread(target=work, name="analysis", daemon=True)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    done, value = outcome[0]
    if not done:
        raise value
    result: Result = value
    return result
