"""Which kinds of layers read an option, and which of them a backend is made for: seen by running them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tools.engines.options import Option
from tools.viability.cell import CONTRASTS
from tools.viability.discover import Discovery
from tools.viability.interpreter.values import Kind
from tools.viability.layers import Layer
from tools.viability.runs import Run
from tools.viability.sizes import of_any

RunLayer = Callable[[Layer, Option, str, tuple[int, int], Mapping[str, str]], Run]
"""Runs a layer for a backend on an architecture under a scenario (remembered by whoever gives it)."""


class Suited:
    """The layers of one engine version, by what reads them."""

    def __init__(self, discovery: Discovery, run: RunLayer) -> None:
        self._discovery = discovery
        self._run = run
        self._layers: dict[tuple[str, str | None], tuple[list[Layer], list[Layer]]] = {}
        """Layers known to read an option, and those not tried yet."""
        self._suited: dict[tuple[Any, ...], Layer | None] = {}

    def of(self, option: Option, scenario: Mapping[str, str]) -> Iterator[Layer]:
        """The layers whose life reads the option, seen by running each; the one most often built first."""
        key = (option.field, scenario.get("quantization"))
        if key not in self._layers:
            built = self._discovery.built
            ranked = sorted(
                self._discovery.layers, key=lambda layer: -sum(built[name] for _, name in layer.classes)
            )
            self._layers[key] = ([], ranked)
        found, rest = self._layers[key]
        yield from found
        values = [value.value for value in option.values[:2]]
        while rest:
            layer = rest[0]
            ways = ((arch, value) for arch in CONTRASTS[:2] for value in values)
            reads = any(self._run(layer, option, value, arch, scenario).observed for arch, value in ways)
            rest.pop(0)  # only now: what failed on the way is tried again
            if reads:
                found.append(layer)
                yield layer

    def for_backend(self, option: Option, backend: str, scenario: Mapping[str, str]) -> Layer | None:
        """The first layer that a backend works for on some architecture; else the first of all.

        A backend may be made for another kind of layer than most models have: that it is refused there says
        nothing about it.
        """
        scenario = of_any(scenario)  # a layer is found for no certain model
        key = (option.field, backend, tuple(sorted(scenario.items())))
        if key not in self._suited:
            works = (
                layer
                for archs in (CONTRASTS[:3], CONTRASTS[-1:])
                for layer in self._candidates(option, scenario)
                for arch in archs
                if self._works(self._run(layer, option, backend, arch, scenario))
            )
            suited = next(works, None)
            if suited is None:
                readers = list(self.of(option, scenario))
                suited = replace(readers[0], unsuited=len(readers) > 1) if readers else None
            self._suited[key] = suited
        return self._suited[key]

    def _candidates(self, option: Option, scenario: Mapping[str, str]) -> Iterator[Layer]:
        """The layers that read an option, then the same with each flag that a model may set."""
        plain: list[Layer] = []
        for layer in self.of(option, scenario):
            plain.append(layer)
            yield layer
        for layer in plain if len(plain) > 1 else []:
            yield from self._discovery.of_other_kinds(layer)

    def refused_alike(
        self, option: Option, backend: str, arch: tuple[int, int], scenario: Mapping[str, str]
    ) -> bool:
        """Whether one test refuses a backend in every kind of layer: then the kind makes no difference."""
        runs = (
            self._run(layer, option, backend, arch, scenario) for layer in self._candidates(option, scenario)
        )
        first = _refusal(next(runs))
        return first is not None and all(_refusal(run) == first for run in runs)

    @staticmethod
    def _works(run: Run) -> bool:
        refused = run.refused
        # What a package is missing for says nothing about the kind of layer.
        stands = refused is None or not refused.proven or refused.cause in ("import", "name")
        return run.observed and run.problem is None and stands


def _refusal(run: Run) -> tuple[object, ...] | None:
    """What refuses a run, whatever kind of layer it is of: a test of the device, or certain other tests."""
    refused = run.refused
    if refused is None or not refused.proven or Kind.MODEL in refused.guard.kinds:
        return None
    return refused.site, Kind.ARCH if Kind.ARCH in refused.guard.kinds else refused.guard.sites
