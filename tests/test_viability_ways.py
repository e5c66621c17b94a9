"""Ways that lead through more than one object: what stands in front of a layer, and who is meant at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled import cubin, fat_binary, image, library
from viability_fixtures.seams import SEAMS, SERVER_ARGS, add_seams
from viability_fixtures.support import ELM, METHOD, WEAVE, Engine, before_elm

from memory.vocabulary import Because, Verdict
from tools.viability.trace import Trace, trace_many

LINEAR = "sglang/srt/layers/linear.py"
ROUTER = """\
from typing import NamedTuple, Protocol

import torch

from sglang.srt.weave import get_weave_backend


class Routed(Protocol):
    pass


class Plain(NamedTuple):
    ids: torch.Tensor


class Packed(NamedTuple):
    logits: torch.Tensor


class Router(torch.nn.Module):
    def __init__(self, top_k: int):
        super().__init__()
        self.top_k = top_k

    def forward(self, *args, **kwargs):
        return self.forward_cuda(*args, **kwargs)

    def forward_cuda(self, hidden_states: torch.Tensor) -> Routed:
        if get_weave_backend().is_elm():
            return Packed(hidden_states)
        return Plain(hidden_states)


def build():
    return Router(2)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


def test_a_layer_is_given_what_the_module_in_front_of_it_makes(engine: Engine) -> None:
    """One value packs what the layer's method reads unpacked: it breaks there, on every device."""
    engine.add("sglang/srt/layers/router.py", ROUTER)
    engine.edit(LINEAR, "import torch\n", "import torch\n\nfrom sglang.srt.layers.router import Routed\n")
    engine.edit(LINEAR, "def forward(self, x):", "def forward(self, x, routed: Routed):")
    engine.edit(
        LINEAR, "return self.quant_method.apply(self, x)", "return self.quant_method.apply(self, routed)"
    )
    engine.edit(
        METHOD,
        "        backend = get_weave_backend()\n",
        "        x = x.ids\n        backend = get_weave_backend()\n",
    )
    for arch in ("sm90", "sm100", "sm120"):
        row = engine.trace("elm", arch).row
        assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.OPTION), arch
        assert row.evidence[0].line == engine.line(METHOD, "x = x.ids")
        assert engine.trace("amber", arch).row.verdict is Verdict.NO_STATIC_OBSTACLE


FAST = """
FAST = None
SLOW = None


def initialize_weave_config(server_args):
    global WEAVE_BACKEND, FAST, SLOW
    backend = server_args.weave_backend
    if backend == "fern":
        from minilib import mm_small

        FAST = mm_small
    elif backend == "dune":
        import otherlib

        SLOW = otherlib.kernel
    WEAVE_BACKEND = WeaveBackend(backend)
"""
CHOSEN = """        if weave.FAST is not None:
            return weave.FAST(x, layer.weight, backend="b")
        elif weave.SLOW is not None:
            return weave.SLOW(x)
        elif get_weave_backend().is_amber() and layer.weight.requires_grad:
            return None
        return torch.matmul(x, layer.weight)
"""


def test_a_global_that_start_up_leaves_as_it_was_depends_on_the_option_too(engine: Engine) -> None:
    """One value fills it with a kernel; the others get past the test of it, and all run what follows."""
    text = (engine.root / WEAVE).read_text(encoding="utf-8")
    start, end = text.index("def initialize_weave_config"), text.index("def get_weave_backend")
    engine.add(WEAVE, text[:start] + FAST.lstrip() + "\n\n" + text[end:])
    engine.edit(METHOD, "        backend = get_weave_backend()\n", CHOSEN)
    engine.edit(METHOD, "import torch\n", "import torch\n\nfrom sglang.srt import weave\n")
    assert engine.verdicts("fern", "sm90", "sm100") == {"sm90": "blocked", "sm100": "no_static_obstacle"}
    assert engine.verdicts("flax", "sm90", "sm120") == dict.fromkeys(("sm90", "sm120"), "rerouted")
    assert engine.verdicts("auto", "sm90") == {"sm90": "no_static_obstacle"}
    assert engine.verdicts("dune", "sm100") == {"sm100": "unknown"}


# -- options whose values are names in a table ----------------------------------------------------


@pytest.fixture
def seams(engine: Engine) -> Engine:
    """The small engine with a second option, whose values are registered by decorators."""
    add_seams(engine)
    return engine


def seam(engine: Engine, backend: str, arch: str, **scenario: str) -> Trace:
    cell = engine.asking(backend, arch).model_copy(update={"component": "seam", "scenario": scenario})
    (trace,) = trace_many(engine.context, [cell])
    return trace


def test_a_backend_for_one_kind_of_model_is_judged_for_that_kind(seams: Engine) -> None:
    trace = seam(seams, "folded", "sm120")
    assert trace.row.verdict is Verdict.NO_STATIC_OBSTACLE, trace
    assert trace.scenario["weave_kind"] == "FOLDED"
    flat = seam(seams, "plain", "sm100")
    assert flat.row.verdict is Verdict.NO_STATIC_OBSTACLE
    assert flat.scenario["weave_kind"] == "FLAT"


def test_a_backend_for_another_kind_of_model_is_not_applicable(seams: Engine) -> None:
    row = seam(seams, "folded", "sm120", weave_kind="FLAT").row
    assert (row.verdict, row.because) == (Verdict.NOT_APPLICABLE, Because.MODEL)
    assert row.evidence[0].file == SEAMS


def test_what_an_autograd_function_refuses_is_refused(seams: Engine) -> None:
    row = seam(seams, "plain", "sm120").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)


def test_a_way_that_ends_for_no_reason_of_the_scenario_is_not_a_pass(seams: Engine) -> None:
    """An argument that the caller gives and that is not known here: its absence refuses nobody."""
    seams.edit(SEAMS, "rope: torch.Tensor | None = None):", "rope: torch.Tensor | None = None, tape=None):")
    seams.edit(SEAMS, 'assert rope is not None, "needs rope"', "assert tape is not None")
    assert seam(seams, "folded", "sm120").row.verdict is Verdict.UNKNOWN


def test_a_way_that_ends_so_behind_an_exit_is_no_pass_either(seams: Engine) -> None:
    """An exit that may have been taken, with a kernel on it, says nothing of the way that goes on."""
    seams.edit(SEAMS, "rope: torch.Tensor | None = None):", "rope: torch.Tensor | None = None, tape=None):")
    seams.edit(
        SEAMS,
        'assert rope is not None, "needs rope"',
        "if otherlib.rests():\n            return torch.matmul(q, q)\n        assert tape is not None",
    )
    seams.edit(SEAMS, "import torch\n", "import otherlib\nimport torch\n")
    assert seam(seams, "folded", "sm120").row.verdict is Verdict.UNKNOWN


def test_a_refusal_of_the_device_behind_an_exit_that_some_take_is_no_pass(seams: Engine) -> None:
    early = (
        "        if batch.is_first() or batch.is_last():\n            return torch.matmul(q, q)\n"
        "        if get_device_capability()[0] == 12:\n"
        '            raise ValueError("no other batches there")\n'
    )
    seams.edit(
        SEAMS, "        return torch.matmul(q, rope)\n", f"{early}        return torch.matmul(q, rope)\n"
    )
    assert seam(seams, "folded", "sm120").row.verdict is Verdict.UNKNOWN
    assert seam(seams, "folded", "sm90").row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_what_some_callers_leave_out_is_not_refused(seams: Engine) -> None:
    seams.edit(
        SEAMS,
        "        assert not self.folded\n",
        "        if get_device_capability()[0] == 9:\n            if k is not None:\n"
        '                raise ValueError("no keys there")\n',
    )
    signature = "    def forward_decode(self, q: torch.Tensor, k, v, batch):\n        if"
    for annotation, verdict in (
        ("torch.Tensor", Verdict.BLOCKED),
        ("torch.Tensor | None", Verdict.NO_STATIC_OBSTACLE),
    ):
        given = signature.replace("k, v", f"k: {annotation}, v")
        seams.edit(SEAMS, signature, given)
        assert seam(seams, "plain", "sm90").row.verdict is verdict, annotation
        seams.edit(SEAMS, given, signature)


@pytest.mark.parametrize("backend", ["far", "slow", "plain"])
def test_a_backend_that_needs_what_only_other_hardware_has(seams: Engine, backend: str) -> None:
    """A package for other hardware that its module imports, a kernel that is built for the CPU, or a name."""
    seams.edit(SEAMS, "class Flat(Seam)", "class FlatXPUSeam(Seam)")
    seams.edit(SEAMS, "return Flat(runner)", "return FlatXPUSeam(runner)")
    row = seam(seams, backend, "sm100").row
    assert (row.verdict, row.because) == (Verdict.NOT_APPLICABLE, Because.VENDOR)
    assert row.evidence


# -- the model ------------------------------------------------------------------------------------

MODELS = """\
import torch

from sglang.srt.layers.linear import ColumnLinear


class Block(torch.nn.Module):
    def __init__(self, config):
        self.part = ColumnLinear(config.hidden, config.hidden)


class FoldForCausalLM(torch.nn.Module):
    def __init__(self, config):
        self.blocks = [Block(config)]


class FlatForCausalLM(torch.nn.Module):
    def __init__(self, config):
        self.table = torch.nn.Embedding(config.words, config.hidden)


EntryClass = [FoldForCausalLM, FlatForCausalLM]
"""


def of_models(engine: Engine, component: str, backend: str, *models: str) -> Trace:
    changed = {"component": component, "model_classes": models}
    return next(trace_many(engine.context, [engine.asking(backend, "sm100").model_copy(update=changed)]))


def test_what_the_models_classes_do_not_build_is_not_applicable(engine: Engine) -> None:
    engine.add("sglang/srt/models/fold.py", MODELS)
    trace = of_models(engine, "weave", "amber", "FlatForCausalLM")
    assert (trace.row.verdict, trace.row.because) == (Verdict.NOT_APPLICABLE, Because.MODEL)
    assert trace.row.evidence[0].file == "sglang/srt/models/fold.py"
    assert "LinearBase" in trace.notes[0]
    # One class that builds it is enough, and a class that is not there says nothing.
    for models in (("FoldForCausalLM",), ("FlatForCausalLM", "FoldForCausalLM"), ("NoSuchModel",)):
        found = of_models(engine, "weave", "amber", *models)
        assert found.row.verdict is Verdict.NO_STATIC_OBSTACLE, models


def test_the_kind_of_a_models_class_is_what_the_engine_makes_of_it(seams: Engine) -> None:
    seams.add("sglang/srt/models/fold.py", MODELS)
    folded = of_models(seams, "seam", "folded", "FoldForCausalLM")
    assert folded.row.verdict is Verdict.NO_STATIC_OBSTACLE
    assert folded.scenario["weave_kind"] == "FOLDED"
    flat = of_models(seams, "seam", "folded", "FlatForCausalLM").row
    assert (flat.verdict, flat.because) == (Verdict.NOT_APPLICABLE, Because.MODEL)


# -- what is fetched when the engine runs -----------------------------------------------------------


def test_what_is_fetched_for_one_generation_alone_is_taken_to_be_there(engine: Engine) -> None:
    engine.edit(
        "minilib/gemm.py",
        "    return gen_cedar_module().build_and_load()\n",
        "    spec = gen_cedar_module()\n    requests.get(spec.name)\n    return spec.build_and_load()\n",
    )
    engine.edit("minilib/gemm.py", "import functools\n", "import functools\n\nimport requests\n")
    trace = engine.trace("cedar", "sm100")
    assert trace.row.verdict is Verdict.NO_STATIC_OBSTACLE
    assert any("fetches" in note for note in trace.notes)
    assert engine.trace("cedar", "sm120").row.verdict is Verdict.BLOCKED
    # Where two generations come by there, for which of them it was made is not in the sources.
    engine.edit("minilib/jit.py", "supported_major_versions=[10]", "supported_major_versions=[10, 12]")
    for arch in ("sm100", "sm120"):
        assert engine.trace("cedar", arch).row.verdict is Verdict.UNKNOWN


def test_what_one_of_several_ways_fetches_stands_in_no_other_ways_way(engine: Engine) -> None:
    engine.edit("minilib/gemm.py", "import functools\n", "import functools\n\nimport requests\n")
    engine.add(
        "minilib/more.py", "import requests\n\n\ndef mm_far(a, b):\n    requests.get(a)\n    return a\n"
    )
    engine.edit(METHOD, "import torch\n", "import otherlib\nimport torch\nfrom minilib.more import mm_far\n")
    call = f"{ELM}            return mm_small("
    for test, verdict in (("otherlib.far()", "no_static_obstacle"), ("x.numel() == 1", "unknown")):
        far = f"{ELM}            if {test}:\n                return mm_far(x, layer.weight)\n"
        engine.edit(METHOD, call, far + "            else:\n                return mm_small(")
        assert engine.verdicts("elm", "sm100") == {"sm100": verdict}, test
        engine.edit(METHOD, far + "            else:\n                return mm_small(", call)


def test_what_is_fetched_on_a_way_that_refuses_the_device_is_not_waited_for(engine: Engine) -> None:
    body = "import requests\nimport torch\n\n\ndef mm_far(a):\n    requests.get(a)\n"
    refuse = "    if torch.cuda.get_device_capability()[0] == 12:\n        raise RuntimeError\n"
    engine.add("minilib/more.py", f"{body}{refuse}    return a\n")
    before_elm(engine, "from minilib.more import mm_far\nif otherlib.far():\n    mm_far(x)")
    assert engine.verdicts("elm", "sm100", "sm120") == {"sm100": "unknown", "sm120": "no_static_obstacle"}


FETCHING = """\
import os
from urllib.parse import urljoin

import requests

STORE = os.environ.get("MINILIB_STORE", "https://example.org/kernels/")


def fetch(name):
    if os.path.exists(name):
        return
    get(urljoin(STORE, name))


def get(source):
    requests.Session().get(source)
"""


@pytest.mark.parametrize("sure", [True, False])
def test_what_is_fetched_is_looked_for_in_the_packages_of_the_environment(engine: Engine, sure: bool) -> None:
    """Kernels beside the file that is fetched, or around its folder, tell which devices they are for."""
    engine.add("minilib/fetching.py", FETCHING)
    ask = "from minilib.fetching import fetch\n"
    before_elm(
        engine, ask + ("" if sure else "if otherlib.wanted():\n    ") + 'fetch("ab12/weave/include/weave.h")'
    )
    assert engine.verdicts("elm", "sm100", "sm120") == dict.fromkeys(("sm100", "sm120"), "unknown")
    engine.add("minikernels/store/ab12/weave/include/weave.h", "#pragma once\n")
    (engine.root / "minikernels/store/ab12/weave/one.cubin").write_bytes(cubin("sm_100f", {"one": [0x94D]}))
    engine.add("minikernels/store/ab12/other/include/weave.h", "#pragma once\n")
    (engine.root / "minikernels/store/ab12/other/one.cubin").write_bytes(cubin("sm_120f", {"one": [0x94D]}))
    engine.add("minilib/store.py", "")
    verdicts = engine.verdicts("elm", "sm100", "sm103", "sm120")
    refused = "blocked" if sure else "unknown"
    assert verdicts == {"sm100": "no_static_obstacle", "sm103": "no_static_obstacle", "sm120": refused}
    if sure:
        row = engine.trace("elm", "sm120").row
        assert row.because is Because.ARCHITECTURE
        assert row.evidence[0].file == "minikernels/store/ab12/weave/include/weave.h"
        assert row.evidence[1].file == "minilib/fetching.py"


SIFTING = """\
import requests

KEPT = ("Sm100a", "Sm100f")


def sift(text, kept):
    return [line for line in text.splitlines() if line in kept]


def near():
    return sift(requests.get("https://example.org/near"), KEPT)


def far():
    return sift(requests.get("https://example.org/far"), kept=KEPT)
"""


@pytest.mark.parametrize(
    ("ask", "refused"),
    [
        ("near()", "blocked"),
        ("if otherlib.wanted():\n    near()\nelse:\n    far()", "blocked"),
        ("if otherlib.wanted():\n    near()", "unknown"),
    ],
)
def test_of_what_is_fetched_only_the_kept_targets_count(engine: Engine, ask: str, refused: str) -> None:
    engine.add("minilib/sifting.py", SIFTING)
    before_elm(engine, f"from minilib.sifting import far, near\n{ask}")
    verdicts = engine.verdicts("elm", "sm100", "sm103", "sm120")
    assert verdicts == {"sm100": "no_static_obstacle", "sm103": "no_static_obstacle", "sm120": refused}
    if refused == "blocked":
        row = engine.trace("elm", "sm120").row
        assert row.because is Because.ARCHITECTURE
        assert row.evidence[0].line == engine.line("minilib/sifting.py", "KEPT = (")


DERIVED = """\
import otherlib


class Derived:
    def __init__(self, fn):
        self.fn = fn


def is_split_of(settings):
    return settings.weave_block > 64


class Context:
    def __getattr__(self, name):
        return otherlib.read(name)


context = Context()
"""


def test_a_setting_that_is_derived_from_options_is_computed(engine: Engine) -> None:
    engine.add("sglang/srt/derived.py", DERIVED)
    engine.edit(
        SERVER_ARGS,
        "    weave_block: int = 64\n",
        '    weave_block: int = 64\n    is_split = Derived(fn="sglang.srt.derived.is_split_of")\n',
    )
    engine.edit(
        SERVER_ARGS, "import dataclasses\n", "import dataclasses\n\nfrom sglang.srt.derived import Derived\n"
    )
    before_elm(
        engine,
        "from sglang.srt.derived import context\nif context.is_split:\n    return x\n"
        "if get_device_capability()[0] == 12:\n    raise ValueError('not in one piece')",
    )
    assert engine.verdicts("elm", "sm120") == {"sm120": "blocked"}
    engine.edit(SERVER_ARGS, "weave_block: int = 64", "weave_block: int = 128")
    assert engine.verdicts("elm", "sm120") == {"sm120": "unknown"}


PARTS = """\
PARTS = {}


def register_part(name):
    def decorator(function):
        PARTS[name] = function
        return function

    return decorator


@register_part("tiles")
def tiles():
    return [9, 10]
"""


def test_a_modules_table_is_full_where_another_looks_into_it(engine: Engine) -> None:
    engine.add("sglang/srt/parts.py", PARTS)
    engine.add(
        "sglang/srt/whole.py",
        "from sglang.srt.parts import PARTS\n\n\ndef need(part):\n    if part not in PARTS:\n"
        "        raise ValueError(part)\n    return PARTS[part]()\n",
    )
    before_elm(
        engine,
        "from sglang.srt.whole import need\nif get_device_capability()[0] not in need('tiles'):\n"
        "    raise ValueError('no tiles there')",
    )
    assert engine.verdicts("elm", "sm100", "sm120") == {"sm100": "no_static_obstacle", "sm120": "blocked"}


def test_a_backend_of_an_older_generation_is_refused_on_later_ones(engine: Engine) -> None:
    """Two layers read the option; the backend works for both, but on devices of long ago alone."""
    engine.edit(METHOD, "return 90", "return 75")
    before_elm(engine, "if get_device_capability()[0] > 8:\n    raise ValueError('too new')")
    engine.edit(METHOD, "if isinstance(layer, LinearBase):", "if layer is not None:")
    layer = (engine.root / LINEAR).read_text(encoding="utf-8")
    engine.add("sglang/srt/layers/wide.py", layer.replace("Linear", "Wide"))
    assert engine.verdicts("elm", "sm80", "sm120") == {"sm80": "no_static_obstacle", "sm120": "blocked"}


def test_what_a_devices_own_way_refuses_if_given_is_no_pass(engine: Engine) -> None:
    for bound, verdict in (
        ("", "unknown"),
        ("    table = table or otherlib.table()\n", "no_static_obstacle"),
    ):
        text = (engine.root / METHOD).read_text(encoding="utf-8")
        before_elm(
            engine,
            f"def run(table=None):\n{bound}    if get_device_capability()[0] == 9:\n"
            "        assert table is None, 'no tables there'\nrun(table=otherlib.table())",
        )
        assert engine.verdicts("elm", "sm90", "sm100") == {"sm90": verdict, "sm100": "no_static_obstacle"}
        engine.add(METHOD, text)


def test_a_name_that_nothing_binds_is_no_pass(engine: Engine) -> None:
    """It is bound on some devices only; whether this way comes by there is not known."""
    engine.edit(
        METHOD,
        "\n\nclass SmallConfig:",
        "\n\nif get_device_capability()[0] == 10:\n    from minilib import mm_plain as fast\n"
        "\n\nclass SmallConfig:",
    )
    before_elm(engine, "if otherlib.ready():\n    return fast(x, layer.weight)")
    trace = engine.trace("elm", "sm120")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert any("fast" in note for note in trace.notes)
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE


OWN = """\
from tvm_ffi.cpp import load_inline

PARTS = {}


def register_part(name):
    def decorator(function):
        PARTS[name] = function
        return function

    return decorator


@register_part("tiles")
def tiles():
    return ["tiles.h"]


def build(*parts):
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"{part} is not registered")
    return load_inline("fast", cuda_sources=["fast.cu"])
"""


def test_kernels_that_the_engine_compiles_itself_are_kernels(engine: Engine) -> None:
    engine.add("sglang/srt/own.py", OWN)
    before_elm(engine, "from sglang.srt.own import build\nreturn build('tiles').fast(x, layer.weight)")
    trace = engine.trace("elm", "sm120")
    assert trace.row.verdict is Verdict.NO_STATIC_OBSTACLE
    assert trace.row.evidence[0].line == engine.line(METHOD, "build('tiles').fast(")
    engine.edit("sglang/srt/own.py", 'part("tiles")', 'part("rows")')
    assert engine.trace("elm", "sm120").row.verdict is not Verdict.NO_STATIC_OBSTACLE


# -- what start-up puts into options that nobody set ------------------------------------------------

GRIPS = """\
    knob: int = 0
    seam_grip: str | None = None

    def __post_init__(self):
        self.settle_grips()

    def settle_grips(self):
        if self.seam_backend == "grip" and is_folded(self.model_path):
            self.set_grip(get_device_capability()[0])

    def set_grip(self, major):
        if self.seam_grip is None:
            self.seam_grip = "firm" if major >= 10 else "loose"
"""
GRIP = """

class Grip(Seam):
    def __init__(self, runner):
        self.how = runner.server_args.seam_grip

    def forward_decode(self, q: torch.Tensor, k, v, batch):
        if self.how == "firm":
            return torch.ops.minilib.weave_mm.default(q, q)
        if self.how == "loose":
            return torch.matmul(q, q)
        assert False, "unknown grip"

    forward_extend = forward_decode


@register_seam("grip")
def create_grip(runner):
    return Grip(runner)
"""


def test_what_start_up_puts_into_an_option_chooses_the_way(seams: Engine) -> None:
    """For one kind of model, which nobody named: but without it the backend has no way at all."""
    seams.edit(SERVER_ARGS, '"slow"]', '"slow", "grip"]')
    fields = "".join(f"    knob_{number}: int = 0\n" for number in range(20))
    seams.edit(
        SERVER_ARGS,
        "    seam_backend: str | None = None\n",
        f"    seam_backend: str = 'plain'\n{fields}{GRIPS}",
    )
    seams.edit(
        SERVER_ARGS,
        "import dataclasses\n",
        "import dataclasses\n\nfrom otherlib import is_folded\n"
        "from sglang.srt.platform import get_device_capability\n",
    )
    seams.edit(
        SERVER_ARGS,
        '        parser.add_argument("--weave-block"',
        '        parser.add_argument("--seam-grip", type=str, choices=["firm", "loose"])\n'
        '        parser.add_argument("--weave-block"',
    )
    seams.edit(SEAMS, '\n\n@register_seam("plain")', GRIP + '\n\n@register_seam("plain")')
    code = fat_binary(image("sm_100a"), image("sm_90"))
    data = library(code, strings=["weave_mm(Tensor a)"], functions={"_Z8weave_mmv": ["cudaLaunchKernel"]})
    (seams.root / "minilib/ops.abi3.so").write_bytes(data)
    seams.add("minilib/compiled.py", "")
    blocked = seam(seams, "grip", "sm120")
    assert (blocked.row.verdict, blocked.row.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
    assert blocked.scenario["seam_grip"] == "firm"
    passes = seam(seams, "grip", "sm89")
    assert (passes.row.verdict, passes.scenario["seam_grip"]) == (Verdict.NO_STATIC_OBSTACLE, "loose")
    assert "seam_grip" not in seam(seams, "plain", "sm100").scenario
    # What was given is no affair of start-up's.
    assert seam(seams, "grip", "sm120", seam_grip="loose").row.verdict is Verdict.NO_STATIC_OBSTACLE


STEPS = """\
def settle(server_args):
    from sglang.srt.start.checks import check_weave, dress_weave

    run(check_weave, server_args)
    if server_args.dressed:
        run(dress_weave, server_args)


def run(step, server_args):
    step(server_args)
"""
CHECKS = """\
from sglang.srt.platform import get_device_capability


def check_weave(server_args):
    if server_args.weave_backend == "elm" and get_device_capability()[0] == 12:
        raise ValueError("no elm there")


def dress_weave(server_args):
    if server_args.weave_backend == "amber" and get_device_capability()[0] == 12:
        raise ValueError("no amber there")
"""


def test_the_steps_of_start_up_check_options(engine: Engine) -> None:
    """Functions beside the options that another one runs, whatever else holds; not where it may not."""
    declared = (engine.root / SERVER_ARGS).read_text(encoding="utf-8")
    (engine.root / SERVER_ARGS).unlink()
    engine.add("sglang/srt/start/server_args.py", declared)
    engine.add("sglang/srt/start/steps.py", STEPS)
    engine.add("sglang/srt/start/checks.py", CHECKS)
    row = engine.trace("elm", "sm120").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
    assert row.evidence[-1].file == "sglang/srt/start/checks.py"
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE
    assert engine.trace("amber", "sm120").row.verdict is Verdict.NO_STATIC_OBSTACLE


SETTLED = """\

    def settle_once(self):
        from sglang.srt.start.steps import settle

        try:
            settle(self)
        except ValueError:
            raise
"""
LONG = """\
from sglang.srt.start.checks import dress_weave


def settle(options):
    from sglang.srt.start import checks

{idle}
    look(options)
    if options.dressed:
        dress_weave(options)


def look(options):
    from sglang.srt.start.checks import check_weave as check

    run(options, check)


def run(options, step):
    step(options)
"""


def test_the_steps_of_start_up_are_followed_from_the_class_of_the_options_on(engine: Engine) -> None:
    """By way of a function elsewhere that has many; not what a method hands to some other function."""
    fields = "".join(f"    knob_{number}: int = 0\n" for number in range(20))
    block = "    weave_block: int = 64\n"
    engine.edit(SERVER_ARGS, block, f"{block}{fields}{SETTLED}")
    idle = [f"idle_{number}" for number in range(7)]
    steps = LONG.format(idle="\n".join(f"    {name}(options)" for name in idle))
    steps += "".join(f"\n\ndef {name}(options):\n    return options.knob_1\n" for name in idle)
    engine.add("sglang/srt/start/steps.py", steps)
    engine.add("sglang/srt/start/checks.py", CHECKS)
    row = engine.trace("elm", "sm120").row
    assert (row.verdict, row.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
    assert row.evidence[-1].file == "sglang/srt/start/checks.py"
    assert engine.trace("elm", "sm100").row.verdict is Verdict.NO_STATIC_OBSTACLE
    assert engine.trace("amber", "sm120").row.verdict is Verdict.NO_STATIC_OBSTACLE
    engine.edit("sglang/srt/start/steps.py", "    idle_0(options)\n", "")
    assert engine.trace("elm", "sm120").row.verdict is Verdict.NO_STATIC_OBSTACLE


@pytest.mark.parametrize("made", ["tvm_ffi.load_module(path).run(x)", "cutlass.cute.compile(run, x)"])
def test_what_was_compiled_for_the_device_at_hand_is_a_kernel(engine: Engine, made: str) -> None:
    own = f"import cutlass.cute\nimport tvm_ffi\n\n\ndef run(x, path=None):\n    return {made}\n"
    engine.add("sglang/srt/own.py", own)
    before_elm(engine, "from sglang.srt.own import run\nreturn run(x)")
    assert engine.trace("elm", "sm120").row.verdict is Verdict.NO_STATIC_OBSTACLE
    engine.edit("sglang/srt/own.py", made, "otherlib.look(x)")
    assert engine.trace("elm", "sm120").row.verdict is Verdict.UNKNOWN


ALIASES = """\
    def __post_init__(self):
        self.settle_names()

    def settle_names(self):
        names = {"fern": "amber", "elm": "birch"}
        if self.weave_backend in names:
            self.weave_backend = names[self.weave_backend]
        if self.weave_backend == "cedar" and otherlib.ready():
            self.weave_backend = "amber"
        if get_device_capability()[0] == 12:
            self.weave_backend = "dune"
"""


def test_what_start_up_puts_in_the_place_of_a_value_is_judged_instead(engine: Engine) -> None:
    """Only where it certainly does, and because of the value: what it does for others says nothing of it."""
    fields = "".join(f"    knob_{number}: int = 0\n" for number in range(20))
    engine.edit(SERVER_ARGS, "    weave_block: int = 64\n", f"    weave_block: int = 64\n{fields}\n{ALIASES}")
    imports = "import otherlib\nfrom sglang.srt.platform import get_device_capability\n"
    engine.edit(SERVER_ARGS, "import dataclasses\n", f"import dataclasses\n\n{imports}")
    fern = engine.trace("fern", "sm100").row
    assert (fern.backend, fern.verdict, fern.runs_instead) == ("fern", Verdict.REROUTED, "amber")
    elm = engine.trace("elm", "sm90").row
    assert (elm.backend, elm.verdict, elm.because) == ("elm", Verdict.BLOCKED, Because.ARCHITECTURE)
    assert elm.runs_instead == "birch"
    for backend, arch in (("cedar", "sm100"), ("amber", "sm120")):
        assert "in its place" not in " ".join(engine.trace(backend, arch).notes)
