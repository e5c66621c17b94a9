"""Verdicts follow the gates in the sources: a gate's number changed moves them, any other number does not.

The full measurement over real packages is ``benchmarks/gates.py``; here a few of its cells are looked at.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Wheels
from gates import Edit, admitting, controls, judged_again, linked_copy, moved, refusing, same
from program import ROOT, variables
from viability_fixtures.support import BACKENDS, COMPONENT, METHOD, Engine

from memory.vocabulary import Verdict
from tools.source.tree import SourceTree
from tools.viability.analysis import Analysis, with_stack
from tools.viability.cell import Cell

STRESS = int(os.environ.get("ASSAY_STRESS", "1"))
PAIRS = (
    ("sglang==0.5.9", "flashinfer-python==0.6.5"),
    ("sglang==0.5.10", "flashinfer-python==0.6.7.post2"),
)


def assert_follows(root: Path, cells: list[Cell], packages: tuple[str, ...], wanted: int) -> None:
    """Every cell's verdict moves with its gate and stays with numbers off its way."""
    rng = random.Random(0)
    analysis = Analysis(SourceTree(root), "sglang")
    mutations = 0
    for cell in cells:
        scenario = analysis.scenario(cell.component, "nvfp4", {})
        before = analysis.judge(cell, scenario)
        under = {**scenario, **before.under}
        edit = admitting(analysis, cell, before) or refusing(analysis, cell, under, rng)
        if edit is not None:
            mutations += 1
            after = judged_again(analysis, edit, scenario)
            assert moved(edit, before, after), f"{edit}\n{after.row.verdict} {after.notes}"
        assert same(before, analysis.judge(cell, scenario))
        places = [place for package in packages for place in controls(analysis, package)]
        for file, line, old, new in rng.sample(places, min(2, len(places))):
            after = judged_again(analysis, Edit(cell, file, line, old, new, None), scenario)
            assert same(before, after), f"{file}:{line} moved {cell}"
    assert mutations >= wanted


def test_the_small_engines_verdicts_follow_its_gates(tmp_path: Path) -> None:
    engine = Engine.copy(tmp_path)
    engine.edit(
        METHOD, "def plain(layer, x):", "def unused(layer):\n    return 90 + 12\n\n\ndef plain(layer, x):"
    )
    cells = [
        Cell(COMPONENT, backend, arch)
        for backend in BACKENDS
        if backend not in ("fern", "flax")  # rerouted: what runs instead is another matter
        for arch in ((9, 0), (10, 0), (12, 0))
    ]
    with_stack(lambda: assert_follows(engine.root, cells, ("sglang", "minilib"), 15))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda edit: edit, True),
        (lambda edit: Edit(edit.cell, edit.file, edit.line, edit.old, edit.old, edit.admits), False),
    ],
)
def test_an_edit_that_changes_nothing_is_told_from_one_that_does(
    tmp_path: Path, change: Callable[[Edit], Edit], expected: bool
) -> None:
    def check() -> bool:
        engine = Engine.copy(tmp_path)
        analysis = Analysis(SourceTree(engine.root), "sglang")
        cell = Cell(COMPONENT, "birch", (12, 0))
        scenario = analysis.scenario(COMPONENT, "nvfp4", {})
        before = analysis.judge(cell, scenario)
        assert before.row.verdict is Verdict.BLOCKED
        edit = admitting(analysis, cell, before)
        assert edit is not None
        assert edit.new == "@supported_compute_capability([120, 103])"
        return moved(edit, before, judged_again(analysis, change(edit), scenario))

    assert with_stack(check) is expected


@pytest.mark.network
def test_real_verdicts_follow_real_gates(wheels: Wheels, tmp_path: Path) -> None:
    pair = wheels("sglang==0.5.9", "flashinfer-python==0.6.5")
    cells = [
        Cell(component, "flashinfer_trtllm", arch)
        for component in ("fp4_gemm", "moe_runner", "fp8_gemm")
        for arch in ((12, 0), (12, 1))
    ]
    copy = linked_copy(Path(pair.path), tmp_path / "copy")
    with_stack(lambda: assert_follows(copy, cells, ("sglang", "flashinfer"), 6))


@pytest.mark.network
@pytest.mark.skipif(STRESS == 1, reason="ASSAY_STRESS=8 changes 200 gates and 200 others: half an hour")
@pytest.mark.parametrize("pair", PAIRS)
def test_many_real_verdicts_follow_real_gates(wheels: Wheels, pair: tuple[str, str]) -> None:
    count = str(25 * STRESS)
    command = [sys.executable, str(ROOT / "benchmarks" / "gates.py"), wheels(*pair).path]
    command += ["--mutations", count, "--controls", count]
    finished = subprocess.run(command, capture_output=True, text=True, env=variables(), check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
