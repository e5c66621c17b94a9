"""A run is done once for all scenarios that answer alike what it asked, and nothing comes out otherwise."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

import pytest
from viability_fixtures.support import BACKENDS, COMPONENT, TREE

from tools.source.tree import SourceTree
from tools.viability.analysis import Analysis, with_stack
from tools.viability.cell import Cell
from tools.viability.facts import Facts
from tools.viability.interpreter.values import bare
from tools.viability.kept import Kept
from tools.viability.runs import Run

ARCHS = ((8, 0), (9, 0), (10, 0), (12, 0))


class Nothing(Kept[Run]):
    """Every run is done, whatever was done before."""

    def of(self, key: Hashable, facts: Facts, work: Callable[[Facts], Run]) -> Run:
        self.clear()
        return super().of(key, facts, work)


def facts(analysis: Analysis, backend: str, arch: tuple[int, int]) -> Facts:
    option = analysis.option(COMPONENT)
    assert option is not None
    return analysis.remembered.facts(option, backend, arch, analysis.scenario(COMPONENT, "nvfp4", {}))


def major(given: Facts) -> int:
    found: int = bare(
        bare(given.call_external(None, "torch.cuda.get_device_capability", [], {}, None, None))[0]
    )
    return found


def test_a_result_is_found_again_by_what_was_asked_and_by_nothing_else() -> None:
    analysis = Analysis(SourceTree(TREE), "sglang")
    kept: Kept[str] = Kept()
    done: list[str] = []

    def work(name: str, *questions: Callable[[Facts], object]) -> Callable[[Facts], str]:
        def run(given: Facts) -> str:
            for question in questions:
                question(given)
            done.append(name)
            return name

        return run

    def is_new(given: Facts) -> bool:
        return major(given) >= 10

    def is_elm(given: Facts) -> bool:
        return bool(given.under_test().value == "elm")

    def of(key: str, backend: str, arch: tuple[int, int], run: Callable[[Facts], str]) -> str:
        return kept.of(key, facts(analysis, backend, arch), run)

    assert of("x", "elm", (9, 0), work("old", is_new)) == "old"
    other = facts(analysis, "fern", (8, 9))
    assert kept.of("x", other, work("not done", is_new)) == "old"
    assert list(other.asked.values()) == [False], "whoever builds on it asks the same"
    assert of("x", "elm", (12, 0), work("new", is_new)) == "new"
    assert of("x", "fern", (10, 3), work("not done", is_new)) == "new"
    assert of("y", "elm", (9, 0), work("elm, old", is_elm, is_new)) == "elm, old"
    assert of("y", "fern", (9, 0), work("another", is_elm)) == "another"
    assert of("y", "amber", (12, 0), work("not done", is_elm)) == "another"
    assert of("y", "elm", (10, 0), work("elm, new", is_elm, is_new)) == "elm, new"
    assert of("z", "elm", (9, 0), work("sm90", lambda given: f"{major(given)}")) == "sm90"
    assert of("z", "elm", (8, 0), work("sm80", lambda given: f"{major(given)}")) == "sm80"
    assert done == ["old", "new", "elm, old", "another", "elm, new", "sm90", "sm80"]


def test_nothing_is_asked_when_the_run_is_over() -> None:
    given = facts(Analysis(SourceTree(TREE), "sglang"), "elm", (9, 0))
    number = major(given)
    given.rest()
    with pytest.raises(RuntimeError, match="over"):
        assert number == 9


def test_cells_judged_together_come_out_as_if_each_run_were_done() -> None:
    def judged(analysis: Analysis, cell: Cell) -> object:
        found = analysis.judge(cell, analysis.scenario(COMPONENT, "nvfp4", {}))
        return found.row, found.hops, found.notes, found.under

    cells = [Cell(COMPONENT, backend, arch) for arch in ARCHS for backend in BACKENDS]
    shared = Analysis(SourceTree(TREE), "sglang")
    together = with_stack(lambda: {cell: judged(shared, cell) for cell in cells})
    apart = Analysis(SourceTree(TREE), "sglang")
    apart.remembered.kept = Nothing()
    assert together == with_stack(lambda: {cell: judged(apart, cell) for cell in cells})
    for seed in range(3):
        mixed = Analysis(SourceTree(TREE), "sglang")
        order = random.Random(seed).sample(cells, len(cells))
        assert together == with_stack(lambda: {cell: judged(mixed, cell) for cell in order})  # noqa: B023

    runs = shared.remembered.runs.values()
    assert len({id(run) for run in runs}) < len(runs), "nothing was shared"
