"""A run is done once for all scenarios that answer alike what it asked, and nothing comes out otherwise."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from viability_fixtures.support import BACKENDS, COMPONENT, TREE

from tools.source.tree import SourceTree
from tools.viability.analysis import Analysis, with_stack
from tools.viability.cell import Cell
from tools.viability.facts import DEVICE, VALUE, Facts
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
    return analysis._facts(option, backend, arch, analysis.scenario(COMPONENT, "nvfp4", {}))


def test_a_result_is_found_again_by_what_was_asked_and_by_nothing_else() -> None:
    analysis = Analysis(SourceTree(TREE), "sglang")
    kept: Kept[str] = Kept()
    done: list[str] = []

    def work(name: str, *questions: str) -> Callable[[Facts], str]:
        def run(given: Facts) -> str:
            given.asked.update({question: given.answers()[question] for question in questions})
            done.append(name)
            return name

        return run

    assert kept.of("x", facts(analysis, "elm", (9, 0)), work("for sm90", DEVICE)) == "for sm90"
    other = facts(analysis, "fern", (9, 0))
    assert kept.of("x", other, work("not done", DEVICE)) == "for sm90"
    assert other.asked == {DEVICE: (9, 0)}, "whoever builds on it asks the same"
    assert kept.of("x", facts(analysis, "elm", (12, 0)), work("for sm120", DEVICE)) == "for sm120"
    assert kept.of("y", facts(analysis, "elm", (9, 0)), work("for elm", VALUE, DEVICE)) == "for elm"
    assert kept.of("y", facts(analysis, "fern", (9, 0)), work("for fern", VALUE, DEVICE)) == "for fern"
    assert done == ["for sm90", "for sm120", "for elm", "for fern"]


def test_cells_judged_together_come_out_as_if_each_run_were_done() -> None:
    def judged(analysis: Analysis, cell: Cell) -> object:
        found = analysis.judge(cell, analysis.scenario(COMPONENT, "nvfp4", {}))
        return found.row, found.hops, found.notes, found.under

    cells = [Cell(COMPONENT, backend, arch) for arch in ARCHS for backend in BACKENDS]
    shared = Analysis(SourceTree(TREE), "sglang")
    together = with_stack(lambda: [judged(shared, cell) for cell in cells])
    apart = Analysis(SourceTree(TREE), "sglang")
    apart._kept = Nothing()
    assert together == with_stack(lambda: [judged(apart, cell) for cell in cells])

    assert len({id(run) for run in shared._runs.values()}) < len(shared._runs), "nothing was shared"
