"""A certain model on a certain number of ranks: the same cells, with the sizes that its layers have there.

In a scenario, ``config`` names the model's ``config.json`` and ``tp`` the number of ranks; ``place`` is the
construction of a layer, by its number, that a run looks at. Without them every size is nominal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memory.vocabulary import Because, Verdict
from tools.engines.adapter import engine as engine_called
from tools.engines.models import Registered, registered
from tools.engines.modules import Modules
from tools.engines.options import Option
from tools.viability.cell import Cell, Judgement
from tools.viability.checkpoint import Checkpoint
from tools.viability.evidence import evidence_at
from tools.viability.facts import Facts
from tools.viability.given import MODEL
from tools.viability.interpreter.values import Kind, Tainted, bare, of
from tools.viability.layers import Layer
from tools.viability.profile import scenarios
from tools.viability.served import Served, served
from tools.viability.settings import DIVIDED
from tools.viability.survey import QUANTISED, Built, survey

if TYPE_CHECKING:
    from tools.viability.analysis import Analysis

CONFIG, RANKS, PLACE = "config", "tp", "place"
SAID = "config of the class"
"""The same config, as far as it tells what the engine does for the model's class, whatever its sizes."""
MOST = 12
"""Different constructions of one layer that a cell is judged for."""

_TELLING = {Verdict.BLOCKED: 0, Verdict.UNKNOWN: 1}
"""What is said of one layer is said of the model."""

Changed = tuple[Because, Mapping[str, str]]
"""A scenario in which one fact of the target is another, and which fact that is."""


def nominal(scenario: Mapping[str, str]) -> dict[str, str]:
    """The scenario for no certain model."""
    return {name: value for name, value in scenario.items() if name not in (CONFIG, RANKS, PLACE)}


def of_any(scenario: Mapping[str, str]) -> dict[str, str]:
    """The scenario for a model of any class."""
    return {name: value for name, value in nominal(scenario).items() if name not in (MODEL.name, SAID)}


def of_class(scenario: Mapping[str, str]) -> Mapping[str, str]:
    """The scenario under which options are settled: no layer is built yet, and what the model's config says
    is known by its class."""
    if SAID not in scenario:
        return scenario
    return {name: value for name, value in scenario.items() if name not in (CONFIG, PLACE)}


class Sizes:
    """What certain models make of the layers of one engine."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._known: dict[str, Checkpoint] = {}
        self._found: dict[tuple[Any, ...], list[Built]] = {}
        self._models: dict[str, Served | None] = {}

    def scenario(self, checkpoint: Checkpoint | None, ranks: int | None) -> dict[str, str]:
        """What a model's config and the number of ranks add to a scenario."""
        added = {RANKS: str(ranks)} if ranks is not None else {}
        if checkpoint is not None:
            self._known[checkpoint.digest] = checkpoint
            added[CONFIG] = checkpoint.digest
        return added

    def quantisation(self, scenario: Mapping[str, str]) -> dict[str, Any] | None:
        """What the model's config says of its quantisation, where that is the scenario's."""
        checkpoint = self._known.get(scenario.get(CONFIG, ""))
        same = checkpoint is not None and checkpoint.scheme() == scenario["quantisation"]
        return _tainted(checkpoint.quantisation) if checkpoint is not None and same else None

    def tell(self, facts: Facts, scenario: Mapping[str, str]) -> None:
        """Let a run know the model and the number of ranks."""
        if MODEL.name in scenario:
            facts.model = self._served(scenario[MODEL.name], scenario)
        facts.checkpoint = self._known.get(scenario.get(CONFIG, ""))
        if RANKS in scenario:
            facts.tensor_parallel = int(scenario[RANKS])
            ranks = Tainted(facts.tensor_parallel, of(Kind.PARALLELISM))
            facts.overrides |= {name: ranks for name in facts.options.fields if DIVIDED.search(name)}

    def serves(self, architecture: str) -> bool:
        """Whether the engine registers a class of this name."""
        return any(item.architecture == architecture for item in self._registered)

    def rules(self, architecture: str, scenario: Mapping[str, str]) -> dict[str, str]:
        """What a scenario says of a class that the engine can load models by."""
        if not self.serves(architecture):
            return {}
        said = {SAID: scenario[CONFIG]} if CONFIG in scenario else {}
        return {MODEL.name: architecture, **said}

    def told(self, scenario: Mapping[str, str]) -> Checkpoint | None:
        """The model's config, where it was given."""
        return self._known.get(scenario.get(CONFIG, scenario.get(SAID, "")))

    def _served(self, architecture: str, scenario: Mapping[str, str]) -> Served | None:
        """The model that a class serves; None for one that the engine does not register."""
        if architecture not in self._models:
            found = next((item for item in self._registered if item.architecture == architecture), None)
            texts = self._analysis.discovery.texts
            known = frozenset(item.architecture for item in self._registered)
            self._models[architecture] = served(self._analysis.world, texts, found, known) if found else None
        model = self._models[architecture]
        checkpoint = self._known.get(scenario.get(SAID, ""))
        scheme = scenario["quantisation"]
        told = scenarios().get(scheme, {}).get("checkpoint", {})
        if checkpoint is not None and checkpoint.scheme() == scheme:
            told = checkpoint.quantisation
        return replace(model, quantisation=told, checkpoint=checkpoint) if model is not None else None

    @cached_property
    def _registered(self) -> list[Registered]:
        analysis = self._analysis
        return registered(analysis.tree, engine_called(analysis.engine), Modules(analysis.tree))

    def built(self, layer: Layer, scenario: Mapping[str, str]) -> Built | None:
        """The construction that a scenario speaks of."""
        if PLACE not in scenario:
            return None
        found = self._places(layer, scenario)
        number = int(scenario[PLACE])
        return found[number] if number < len(found) else None

    def judge(self, cell: Cell, option: Option, scenario: Mapping[str, str], without: Judgement) -> Judgement:
        """The cell for the model's own layers; ``without``: for layers of no certain model.

        A place where one of them is refused decides, then one that is not followed; else the first. Where
        only the model's class is known, nothing decides but what refuses a layer that it builds in any case.
        """
        if without.row.verdict in (Verdict.BLOCKED, Verdict.NOT_APPLICABLE):
            return without
        layer = self._analysis.layer_of(option, cell.backend, scenario)
        if CONFIG in scenario:
            return self._for_config(cell, layer, scenario, without)
        judged = self._judge(cell, scenario) if RANKS in scenario else without
        if layer is not None and MODEL.name in scenario:
            for number, built in self._different(layer, scenario):
                one = self._judge(cell, {**scenario, PLACE: str(number)})
                if one.row.verdict is Verdict.BLOCKED:
                    return _placed(self._analysis, one, built)
        return judged

    def _for_config(
        self, cell: Cell, layer: Layer | None, scenario: Mapping[str, str], without: Judgement
    ) -> Judgement:
        judged: list[Judgement] = []
        for number, built in self._different(layer, scenario) if layer is not None else ():
            one = self._judge(cell, {**scenario, PLACE: str(number)})
            # One that is refused may be so before it looks at the option: nobody gets past that place.
            if one.run is not None and (one.run.observed or one.row.verdict is Verdict.BLOCKED):
                judged.append(_placed(self._analysis, one, built))
        if not judged:
            without.notes.append(
                "where the model builds such a layer was not seen: judged with nominal sizes"
            )
            return without
        return min(judged, key=lambda one: _TELLING.get(one.row.verdict, len(_TELLING)))

    def _judge(self, cell: Cell, scenario: Mapping[str, str]) -> Judgement:
        changed: list[Changed] = []
        if int(scenario.get(RANKS, "1")) > 1:
            changed.append((Because.PARALLELISM, {**scenario, RANKS: "1"}))
        if CONFIG in scenario or PLACE in scenario:
            changed.append((Because.MODEL, of_any(scenario)))
        return self._analysis.judge_under(cell, scenario, changed)

    def _different(self, layer: Layer, scenario: Mapping[str, str]) -> list[tuple[int, Built]]:
        """Constructions that differ in their sizes, each by its number, as many as are looked at."""
        seen: dict[Any, tuple[int, Built]] = {}
        for number, built in enumerate(self._places(layer, scenario)):
            seen.setdefault(built.key, (number, built))
        # Those in full precision last: few options are about them.
        return sorted(seen.values(), key=lambda item: QUANTISED in item[1].arguments)[:MOST]

    def _places(self, layer: Layer, scenario: Mapping[str, str]) -> list[Built]:
        key = (layer.name, *sorted((name, value) for name, value in scenario.items() if name != PLACE))
        if key not in self._found:
            self._found[key] = self._survey(layer, scenario)
        return self._found[key]

    def _survey(self, layer: Layer, scenario: Mapping[str, str]) -> list[Built]:
        analysis, checkpoint = self._analysis, self._known.get(scenario.get(CONFIG, ""))
        classes = checkpoint.classes if checkpoint is not None else (scenario[MODEL.name],)
        for item in self._registered:
            if item.architecture in classes and item.class_file is not None:
                model = (analysis.world.dotted(item.class_file), item.class_name)
                return survey(
                    analysis.discovery, analysis.remembered.facts_of_model(scenario), layer, checkpoint, model
                )
        return []


def _tainted(told: Any) -> Any:
    """What a config says of its quantisation: every word of it may be what a gate looks at."""
    if isinstance(told, dict):
        return {name: _tainted(value) for name, value in told.items()}
    if isinstance(told, list):
        return [_tainted(value) for value in told]
    return Tainted(told, of(Kind.QUANTISATION)) if told is not None else None


def _placed(analysis: Analysis, judged: Judgement, built: Built) -> Judgement:
    """The judgement with the line of the model that it is about, and the sizes given there."""
    sizes = [f"{name}={bare(value)}" for name, value in built.arguments.items() if _is_size(value)]
    judged.hops.insert(0, (built.place, f"the model builds the layer: {', '.join(sizes)}"))
    line = evidence_at(analysis.tree, built.place, "model")
    judged.row = judged.row.model_copy(update={"evidence": (*judged.row.evidence, line)})
    name = built.arguments.get("prefix")
    judged.place = str(bare(name)) if name is not None else None
    return judged


def _is_size(value: Any) -> bool:
    return isinstance(bare(value), (int, str)) and not isinstance(bare(value), bool)
