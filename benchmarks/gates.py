"""How verdicts follow the gates of real packages: numbers on deciding lines changed, and numbers elsewhere.

    python benchmarks/gates.py FOLDER [--engine sglang] [--mutations 200] [--controls 200] [--seed 0]
                               [--minutes N]

``FOLDER`` holds unpacked packages. Exit 1 if fewer than 95 % of the mutations move the verdict as they imply,
or if a control moves anything. After ``--minutes`` each of the two counts what it has done by then.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from gates import Edit, admitting, controls, judged_again, linked_copy, moved, refusing, same

from tools.engines.options import backend_options
from tools.source.tree import SourceTree
from tools.viability.analysis import CONTRASTS, Analysis, with_stack
from tools.viability.cell import Cell

COMPONENTS = ("fp4_gemm", "moe_runner", "fp8_gemm", "attention")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", default="sglang")
    parser.add_argument("--mutations", type=int, default=200)
    parser.add_argument("--controls", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder.resolve().parent) as name:
        return with_stack(lambda: _measure(args, linked_copy(args.folder, Path(name) / "copy")))


def _measure(args: argparse.Namespace, root: Path) -> int:
    rng = random.Random(args.seed)  # noqa: S311 - a choice that can be made again
    analysis = Analysis(SourceTree(root), args.engine)
    analysis.prepare()
    scenarios = {name: analysis.scenario(name, "nvfp4", {}) for name in COMPONENTS}
    cells = [
        Cell(option.component, value.value, arch)
        for option in backend_options(analysis.options)
        if option.component in COMPONENTS
        for value in option.values
        for arch in CONTRASTS
    ]
    rng.shuffle(cells)
    right = done = 0
    end = time.monotonic() + args.minutes * 60
    for cell in cells * 4:
        if done == args.mutations or time.monotonic() > end:
            break
        scenario = scenarios[cell.component]
        before = analysis.judge(cell, scenario)
        under = {**scenario, **before.under}
        edit = admitting(analysis, cell, before) or refusing(analysis, cell, under, rng)
        if edit is None:
            continue
        after = judged_again(analysis, edit, scenario)
        done += 1
        right += moved(edit, before, after)
        if not moved(edit, before, after):
            print(f"did not move: {edit}\n  {before.row.verdict} -> {after.row.verdict} {after.notes[:1]}")
    print(f"mutations: {right} of {done} moved as implied", flush=True)
    still = tried = 0
    end = time.monotonic() + args.minutes * 60
    while tried < args.controls and time.monotonic() < end:
        cell = rng.choice(cells)
        scenario = scenarios[cell.component]
        before = analysis.judge(cell, scenario)
        places = [place for package in (args.engine, "flashinfer") for place in controls(analysis, package)]
        for file, line, old, new in rng.sample(places, min(5, len(places), args.controls - tried)):
            after = judged_again(analysis, Edit(cell, file, line, old, new, None), scenario)
            tried += 1
            still += same(before, after)
            if not same(before, after):
                print(f"moved: {cell} by {file}:{line} {new.strip()}")
    print(f"controls: {still} of {tried} moved nothing")
    return 0 if right >= 0.95 * done and still == tried else 1


if __name__ == "__main__":
    sys.exit(main())
