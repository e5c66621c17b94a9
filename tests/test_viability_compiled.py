"""Operators whose code is compiled: refused only where no library has code for the device."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import fat_binary, image, launching, library
from viability_fixtures.support import ELM, METHOD, Engine, same_lines

from memory.vocabulary import Because

OPERATOR = "weave_mm(Tensor a, Tensor b) -> Tensor"
LAUNCHES = {"_Z8weave_mmv": ["cudaLaunchKernel"]}
CALL = "torch.ops.minilib.weave_mm.default(x, layer.weight)"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """The small engine; its value ``elm`` leads to an operator."""
    made = Engine.copy(tmp_path)
    made.edit(
        METHOD,
        f'{ELM}            return mm_small(x, layer.weight, backend="e")',
        f"{ELM}            return {CALL}",
    )
    return made


def compiled(*targets: str, calls: str = "cudaLaunchKernel") -> bytes:
    unit = fat_binary(*(image(target) for target in targets))
    return library(unit, strings=[OPERATOR], functions={"_Z8weave_mmv": [calls]})


def put(engine: Engine, data: bytes, file: str = "minilib/ops.abi3.so") -> None:
    (engine.root / file).write_bytes(data)
    engine.add(f"minilib/{len(list(engine.root.rglob('*.so')))}.py", "")


def test_an_operator_without_code_for_the_device_is_blocked_by_its_library(engine: Engine) -> None:
    put(engine, compiled("sm_90a", "sm_100a"))
    row = engine.trace("elm", "sm120").row

    assert (row.verdict.value, row.because) == ("blocked", Because.ARCHITECTURE)
    assert [(item.file, item.line) for item in row.evidence] == [
        ("minilib/ops.abi3.so", 1),
        (METHOD, engine.line(METHOD, CALL)),
    ]
    assert row.evidence[0].text.startswith("machine code for sm_90a, sm_100a; no PTX\n")
    same_lines(row, engine.root)
    assert engine.verdicts("elm", "sm90", "sm100", "sm103", "sm121") == {
        "sm90": "unknown",
        "sm100": "unknown",
        "sm103": "blocked",
        "sm121": "blocked",
    }


def test_the_neighbours_of_a_blocked_value_keep_their_verdicts(engine: Engine) -> None:
    before = engine.verdicts("amber", "sm100", "sm120")
    put(engine, compiled("sm_90a"))
    assert engine.verdicts("amber", "sm100", "sm120") == before


@pytest.mark.parametrize(
    ("why", "data"),
    [
        ("PTX is compiled when loaded", compiled("sm_90a", "compute_90")),
        ("the family has code", compiled("sm_120f")),
        ("it does not start device code of its own", compiled("sm_90a", calls="malloc")),
        ("another library does the work", compiled("sm_90a", calls="cublasLtMatmul")),
        ("it has no device code at all", library(strings=[OPERATOR], functions=LAUNCHES)),
        ("it holds something else", compiled("sm_90a").replace(b"weave_mm(", b"weave_up(")),
        ("it cannot be read", compiled("sm_90a")[:-900]),
    ],
)
def test_what_may_run_is_not_blocked(engine: Engine, why: str, data: bytes) -> None:
    put(engine, data)
    assert engine.verdicts("elm", "sm120") == {"sm120": "unknown"}, why


def test_a_second_library_with_code_keeps_the_answer_open(engine: Engine) -> None:
    put(engine, compiled("sm_90a"))
    put(engine, compiled("sm_120a"), "minilib/new.abi3.so")
    assert engine.verdicts("elm", "sm120", "sm121") == {"sm120": "unknown", "sm121": "blocked"}


def test_the_library_that_tells_torch_of_the_operator_is_the_one_that_counts(engine: Engine) -> None:
    work = {"main": {"sm_90a": [0x986] * 90}}
    put(engine, launching("weave_it", work, registered="weave_mm"))
    put(engine, compiled("sm_120a"), "minilib/other.abi3.so")
    assert engine.verdicts("elm", "sm90", "sm120") == {"sm90": "no_static_obstacle", "sm120": "blocked"}

    put(
        engine,
        launching("weave_it", {"main": {"sm_120a": [0x986] * 90}}, registered="weave_mm"),
        "minilib.so",
    )
    assert engine.verdicts("elm", "sm90", "sm120") == {"sm90": "blocked", "sm120": "no_static_obstacle"}


UP = "torch.ops.minilib.weave_up(x)"


ASK = "if otherlib.ask():"
NESTED = [ASK, "    if otherlib.more():", f"        y = {CALL}", "    else:"]


@pytest.mark.parametrize(
    ("body", "blocked"),
    [
        ([ASK, f"    return {CALL}", 'return mm_small(x, layer.weight, backend="e")'], False),
        (["try:", f"    return {CALL}", "except Exception:", "    return mm_small(x, layer.weight)"], False),
        (["try:", f"    return {CALL}", "except ImportError:", "    return mm_small(x, layer.weight)"], True),
        ([ASK, f"    y = {CALL}", "else:", f"    y = {UP}", "return y"], True),
        ([ASK, f"    y = {CALL}", "else:", "    y = x", "return y"], False),
        (["if x.numel() == 1:", f"    y = {CALL}", "else:", "    y = x", "return y"], False),
        ([ASK, "    y = x", f"y = {CALL}", "return y"], True),
        ([*NESTED, f"        y = {UP}", "else:", f"    y = {UP}", "return y"], True),
        ([*NESTED, "        y = x", "else:", f"    y = {UP}", "return y"], False),
    ],
)
def test_a_value_is_blocked_where_every_way_ends_without_code(
    engine: Engine, body: list[str], blocked: bool
) -> None:
    put(engine, library(fat_binary(image("sm_90a")), strings=[OPERATOR, "weave_up(Tensor a)"], functions={
        "_Z8weave_mmv": ["cudaLaunchKernel"], "_Z8weave_upv": ["cudaLaunchKernel"],
    }))  # fmt: skip
    lines = "\n".join(f"            {line}" for line in body)
    engine.edit(METHOD, f"            return {CALL}", lines)
    engine.edit(METHOD, "import torch\n", "import otherlib\nimport torch\n")
    row = engine.trace("elm", "sm120").row
    assert (row.verdict.value == "blocked") == blocked
    assert engine.trace("elm", "sm90").row.verdict.value != "blocked"


def test_kernels_that_only_trap_on_the_device_block_and_those_that_work_do_not(engine: Engine) -> None:
    work, traps = [0x986] * 90, [0x986, 0x95C] * 45
    put(engine, launching("weave_mm", {"main": {"sm_90a": work, "sm_120a": traps}}))
    row = engine.trace("elm", "sm120").row
    assert (row.verdict.value, row.because) == ("blocked", Because.ARCHITECTURE)
    assert row.evidence[0].file == "minilib/ops.abi3.so::weave_mm"
    assert row.evidence[0].text.startswith("weave_mm: kernels that work on sm_90a; hollow on sm_120a\n")
    same_lines(row, engine.root)

    assert [hop.file for hop in engine.trace("elm", "sm120").hops] == [
        METHOD,
        "minilib/ops.abi3.so::weave_mm",
    ]

    trace = engine.trace("elm", "sm90")
    assert trace.row.verdict.value == "no_static_obstacle"
    assert "compiled code for sm90 is there; checks within it were not read" in trace.notes[0]


def test_a_library_that_cannot_be_read_might_be_the_one(engine: Engine) -> None:
    put(engine, compiled("sm_90a"))
    put(engine, compiled("sm_120a")[:-900], "minilib/broken.abi3.so")
    assert engine.verdicts("elm", "sm120") == {"sm120": "unknown"}


WRAPPED = """\
import torch

from .parts import *


def _wrap(name):
    operator = getattr(torch.ops.minilib, name)

    def call(*args):
        return operator(*args)

    return call


weave = _wrap("weave_mm")
"""


def test_a_star_of_a_star_hides_no_name(engine: Engine) -> None:
    """What the stars bring can all be read: none of it is called ``getattr``."""
    engine.add("minilib/wrapped.py", WRAPPED)
    engine.add("minilib/parts/__init__.py", "from .first import *\n")
    engine.add("minilib/parts/first.py", "from . import *\n\nFIRST = 1\n")
    engine.edit(METHOD, CALL, "weave(x, layer.weight)")
    engine.edit(METHOD, "import torch\n", "import torch\n\nfrom minilib.wrapped import weave\n")
    put(engine, compiled("sm_90a", "sm_100a"))
    assert engine.trace("elm", "sm120").row.verdict.value == "blocked"


WEIGHT = """\
class Weight(torch.nn.Parameter):
    def __new__(cls, data, loader):
        return super().__new__(cls, data=data, requires_grad=False)

    def __init__(self, data, loader):
        self._loader = loader


class SmallLinearMethod:
"""


@pytest.mark.parametrize("multiple", [128, 100])
def test_a_usual_size_chooses_the_way(engine: Engine, multiple: int) -> None:
    """The weight is of a class of the engine's own, and no other device shares it."""
    engine.edit(METHOD, "class SmallLinearMethod:\n", WEIGHT)
    engine.edit(
        METHOD,
        "torch.nn.Parameter(torch.empty(output_size, input_size, dtype=torch.uint8))",
        "Weight(data=torch.empty(output_size, input_size // layer.tp_size), loader=None)",
    )
    linear = "sglang/srt/layers/linear.py"
    engine.edit(linear, "output_size: int, quant", "output_size: int, tp_size: int, quant")
    engine.edit(
        linear, "        self.input_size =", "        self.tp_size = tp_size\n        self.input_size ="
    )
    unusual = (
        f"            if layer.weight.data.shape[1] % {multiple}:\n                return plain(layer, x)\n"
    )
    engine.edit(METHOD, ELM, f"{ELM}{unusual}")
    put(engine, compiled("sm_90a", "sm_100a"))
    verdict = engine.trace("elm", "sm120").row.verdict.value
    assert verdict == ("blocked" if multiple == 128 else "no_static_obstacle")


def building(*headers: str, calls: str = "cuModuleLoad") -> bytes:
    """A library without device code, which has text compiled that begins with these headers."""
    texts = [f"\n#include <minilib/impls/{header}>\n\nint x = {{}};" for header in headers]
    return library(strings=[OPERATOR, *texts], functions={"_Z8weave_mmv": [calls, *texts]})


def test_a_library_that_has_its_kernels_compiled_runs_where_a_header_is_for_the_device(
    engine: Engine,
) -> None:
    for header in ("sm90_weave.cuh", "sm100_weave.cuh", "smxx_layout.cuh"):
        engine.add(f"minilib/include/minilib/impls/{header}", "#pragma once\n#if __CUDA_ARCH__ >= 900\n")
    put(engine, building("sm{}_weave.cuh", "smxx_layout.cuh"))
    row = engine.trace("elm", "sm120").row
    assert (row.verdict.value, row.because) == ("blocked", Because.ARCHITECTURE)
    assert [(item.file, item.line, item.text) for item in row.evidence[:2]] == [
        (f"minilib/include/minilib/impls/sm{number}_weave.cuh", 2, "#if __CUDA_ARCH__ >= 900")
        for number in (100, 90)
    ]
    same_lines(row, engine.root)
    assert engine.verdicts("elm", "sm89", "sm90", "sm100", "sm103", "sm121") == {
        "sm89": "blocked",
        "sm90": "no_static_obstacle",
        "sm100": "no_static_obstacle",
        "sm103": "no_static_obstacle",
        "sm121": "blocked",
    }


@pytest.mark.parametrize(
    ("headers", "calls"),
    [
        (["weave.cuh"], "cuModuleLoad"),
        (["sm100_missing.cuh"], "cuModuleLoad"),
        (["sm100_weave.cuh"], "cublasLtMatmul"),
    ],
)
def test_headers_that_say_nothing_or_not_all_block_nobody(
    engine: Engine, headers: list[str], calls: str
) -> None:
    for header in ("sm100_weave.cuh", "weave.cuh"):
        engine.add(f"minilib/include/minilib/impls/{header}", "#pragma once\n")
    put(engine, building(*headers, calls=calls))
    assert engine.trace("elm", "sm120").row.verdict.value == "unknown"


def test_a_header_for_all_devices_is_compiled_for_each(engine: Engine) -> None:
    engine.add("minilib/include/minilib/impls/smxx_weave.cuh", "#pragma once\n")
    put(engine, building("smxx_weave.cuh"))
    assert engine.verdicts("elm", "sm90", "sm120") == {
        "sm90": "no_static_obstacle",
        "sm120": "no_static_obstacle",
    }


def test_code_written_for_an_old_device_is_compiled_for_later_ones(engine: Engine) -> None:
    engine.add("minilib/include/minilib/impls/sm80_weave.cuh", "#pragma once\n")
    put(engine, building("sm80_weave.cuh"))
    assert engine.trace("elm", "sm120").row.verdict.value == "no_static_obstacle"


def test_set_up_that_starts_nothing_is_no_kernel(engine: Engine) -> None:
    """Before the kernel the library is told where it lies: no device code is missing for that."""
    engine.edit(METHOD, CALL, f"torch.ops.minilib.set_up(otherlib.home()) or {CALL}")
    engine.edit(METHOD, "import torch\n", "import torch\n\nimport otherlib\n")
    engine.add("minilib/include/minilib/impls/sm120_weave.cuh", "#pragma once\n")
    put(engine, building("sm120_weave.cuh"))
    before = engine.trace("elm", "sm120")
    assert (before.row.verdict.value, "set_up" in before.notes[0]) == ("unknown", True)
    put(engine, launching("set_it_up", {}, registered="minilib::set_up"), "minilib/home.abi3.so")
    assert engine.trace("elm", "sm120").row.verdict.value == "no_static_obstacle"
