"""What must not be believed: a refusal that hangs on something unknown or on a size, or refuses everybody.

A wrong ``blocked`` is the worst that an analyser can say: it ends the search for what would have worked.
The forms are in ``viability_fixtures/forms``, each put in front of the call that one value of the option
leads to.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import METHOD, WEAVE, Engine, before_elm, forms

from memory.vocabulary import Verdict

GEMM = "minilib/gemm.py"
BLOCKED = Verdict.BLOCKED
PASSES = Verdict.NO_STATIC_OBSTACLE
UNSURE, ALLOWED, SIZES = forms("unsure"), forms("allowed"), forms("sizes")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


@pytest.mark.parametrize("form", UNSURE)
def test_what_is_not_known_never_blocks(engine: Engine, form: str) -> None:
    engine.add(
        "sglang/srt/state.py", "MODE = 'soft'\n\n\ndef harden():\n    global MODE\n    MODE = 'hard'\n"
    )
    engine.add("shared_names/one.py", "")
    before_elm(engine, UNSURE[form])
    for arch in ("sm120", "sm100"):
        trace = engine.trace("elm", arch)
        assert trace.row.verdict in {PASSES, Verdict.UNKNOWN}, trace.model_dump_json(indent=1)


def test_a_global_changed_by_something_unknown_never_blocks(engine: Engine) -> None:
    engine.edit(
        WEAVE,
        "WEAVE_BACKEND: WeaveBackend | None = None\n",
        "WEAVE_BACKEND: WeaveBackend | None = None\nGOOD = [9, 10]\nGOOD.extend(otherlib.more())\n",
    )
    engine.edit(WEAVE, "from enum import Enum\n", "from enum import Enum\n\nimport otherlib\n")
    before_elm(
        engine,
        "from sglang.srt.weave import GOOD\nif get_device_capability()[0] not in GOOD:\n    raise ValueError",
    )
    assert engine.trace("elm", "sm120").row.verdict is not BLOCKED


def test_an_environment_variable_is_taken_as_unset(engine: Engine) -> None:
    before_elm(engine, "if os.environ.get('WEAVE_STRICT') == '1':\n    raise ValueError")
    assert engine.trace("elm", "sm120").row.verdict is PASSES


@pytest.mark.parametrize("form", ALLOWED)
def test_what_python_allows_never_blocks(engine: Engine, form: str) -> None:
    engine.add(
        "minilib/made.py",
        "for letter in 'abc':\n    globals()[f'fast_{letter}'] = letter\nif (LATE := 3) > 2:\n    pass\n\n\n"
        "def twice():\n    raise ValueError\n\n\ndef twice():\n    return 2\n",
    )
    engine.add("minilib/_kernels.cpython-312-x86_64-linux-gnu.so", "not read")
    before_elm(engine, ALLOWED[form])
    trace = engine.trace("elm", "sm120")
    assert trace.row.verdict in {PASSES, Verdict.UNKNOWN}, trace.model_dump_json(indent=1)


# -- nominal sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SIZES)
def test_a_nominal_size_never_blocks(engine: Engine, form: str) -> None:
    before_elm(engine, SIZES[form])
    trace = engine.trace("elm", "sm120")
    assert trace.row.verdict is not BLOCKED, trace.model_dump_json(indent=1)
    assert engine.trace("amber", "sm120").row.verdict is PASSES


def test_a_librarys_shape_check_refuses_nobody(engine: Engine) -> None:
    """The library's own check refuses rows longer than 1024; no row of a real model is known here."""
    assert engine.line(GEMM, "if a.shape[-1] > 1024:")
    assert engine.trace("amber", "sm100").row.verdict is PASSES


# -- refusals of everybody --------------------------------------------------------------------------


EVERYBODY = {
    "in front of the kernels": (
        METHOD,
        "        backend = get_weave_backend()\n",
        "        raise ValueError\n",
    ),
    "by a test that all devices fail": (
        METHOD,
        "        backend = get_weave_backend()\n",
        "        if get_device_capability()[0] > 1:\n            raise ValueError\n"
        "        backend = get_weave_backend()\n",
    ),
    "in the layer's constructor": (
        "sglang/srt/layers/linear.py",
        "        self.input_size = input_size\n",
        "        if quant_config is not None:\n            raise ValueError\n"
        "        self.input_size = input_size\n",
    ),
    "at start-up": (
        WEAVE,
        "    backend = server_args.weave_backend\n",
        "    backend = server_args.weave_backend\n    if backend != 'other':\n        raise ValueError\n",
    ),
    "in the loader": (
        "sglang/srt/model_loader.py",
        "    if major is not None",
        "    if major > 1:\n        raise ValueError\n    if major is not None",
    ),
}


@pytest.mark.parametrize("place", EVERYBODY)
def test_a_refusal_of_everybody_says_nothing(engine: Engine, place: str) -> None:
    file, old, new = EVERYBODY[place]
    engine.edit(file, old, new)
    for backend in ("amber", "birch"):
        for arch in ("sm90", "sm100", "sm120"):
            trace = engine.trace(backend, arch)
            assert trace.row.verdict is Verdict.UNKNOWN, trace.model_dump_json(indent=1)
            assert trace.row.because is None
            assert trace.notes
