"""What registers itself while it is imported is in the table only if somebody imports it."""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import Engine, before_elm

from memory.vocabulary import Because, Verdict

POOL = """\
POOL = {}


def register_work(name):
    def enter(function):
        POOL[name] = function
        return function

    return enter


def work_of(name):
    return POOL.get(name)
"""
EXTRA = """\
from minilib import mm_small
from sglang.srt.pool import register_work


@register_work("elm")
def run(x, weight):
    return mm_small(x, weight, backend="e")
"""
LOOKS = """\
from sglang.srt.pool import work_of
run = work_of(backend.value)
if run is None:
    raise NotImplementedError(backend)
return run(x, layer.weight)"""
LINEAR = "sglang/srt/layers/linear.py"
SWITCHED = """\
import os

import torch

if os.environ.get('WEAVE_EXTRA') == '1':
    from sglang.srt import extra
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    made = Engine.copy(tmp_path)
    made.add("sglang/srt/pool.py", POOL)
    made.add("sglang/srt/extra.py", EXTRA)
    before_elm(made, LOOKS)
    return made


def test_what_only_a_switch_imports_that_nobody_set_is_not_there(engine: Engine) -> None:
    engine.edit(LINEAR, "import torch\n", SWITCHED)
    row = engine.trace("elm", "sm100").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.OPTION)


@pytest.mark.parametrize(
    "imports",
    [
        f"{SWITCHED}\nimport sglang.srt.extra\n",
        "import torch\n\n\ndef start():\n    from sglang.srt.extra import run\n",
        "import torch\n\nPLUGINS = ['sglang.srt.extra']\n",
        "import torch\n",
    ],
    ids=["another", "a function", "a name", "nobody"],
)
def test_what_may_be_imported_is_there(engine: Engine, imports: str) -> None:
    engine.edit(LINEAR, "import torch\n", imports)
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE
