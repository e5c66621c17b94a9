"""How verdicts come about, on a small engine and library. No network.

The engine lies in ``viability_fixtures/tree``: an option that chooses a backend, an enum with predicates, a
module's global that an initialiser sets from the option, layers that ask a quantisation for their method,
and a library with decorators that bind capability lists and with kernels compiled for some major versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from viability_fixtures.support import METHOD, WEAVE, Engine, before_elm, forms, same_lines

from memory.vocabulary import Because, HypothesisState, Verdict

GEMM = "minilib/gemm.py"
JIT = "minilib/jit.py"
BLOCKED = Verdict.BLOCKED
PASSES = Verdict.NO_STATIC_OBSTACLE
DIRECT = forms("direct")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.copy(tmp_path)


# -- each idiom alone -----------------------------------------------------------------------------


IDIOMS = {
    "a quantisation's minimum capability": ("amber", "sm80", "sm90", METHOD, "return 90"),
    "a validator in a start-up initialiser": ("dune", "sm90", "sm100", WEAVE, 'if backend == "dune"'),
    "a capability list in a requirement decorator": ("birch", "sm120", "sm103", GEMM, "([100, 103])"),
    "major versions that a kernel is compiled for": (
        "cedar",
        "sm90",
        "sm100",
        JIT,
        "supported_major_versions=[10]",
    ),
}


@pytest.mark.parametrize("idiom", IDIOMS)
def test_each_idiom_alone_blocks_with_the_deciding_line(engine: Engine, idiom: str) -> None:
    backend, refused, accepted, file, text = IDIOMS[idiom]
    trace = engine.trace(backend, refused)
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.ARCHITECTURE)
    assert trace.row.state is HypothesisState.PREDICTED
    first = trace.row.evidence[0]
    assert first.file == file
    assert first.line <= engine.line(file, text) <= first.end_line
    assert trace.hops
    same_lines(trace.row, engine.root)
    passed = engine.trace(backend, accepted)
    assert (passed.row.verdict, passed.row.because) == (PASSES, None)
    same_lines(passed.row, engine.root)


@pytest.mark.parametrize("form", DIRECT)
def test_a_refusal_on_the_way_blocks_where_the_device_is_tested(engine: Engine, form: str) -> None:
    before_elm(engine, DIRECT[form])
    trace = engine.trace("elm", "sm120")
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.ARCHITECTURE)
    assert trace.row.evidence[0].file == METHOD
    same_lines(trace.row, engine.root)
    assert engine.trace("elm", "sm100").row.verdict is PASSES
    # The other values do not come by there.
    assert engine.trace("amber", "sm120").row.verdict is PASSES


def test_a_refusal_of_one_value_on_every_device_is_the_options(engine: Engine) -> None:
    before_elm(engine, "raise NotImplementedError('elm is not built')")
    for arch in ("sm90", "sm100", "sm120"):
        row = engine.trace("elm", arch).row
        assert (row.verdict, row.because) == (BLOCKED, Because.OPTION)
    assert engine.trace("amber", "sm120").row.verdict is PASSES


def test_a_value_that_the_enum_does_not_know_is_the_options(engine: Engine) -> None:
    engine.edit(WEAVE, '    ELM = "elm"\n', "")
    engine.edit(WEAVE, "return self == WeaveBackend.ELM", "return False")
    row = engine.trace("elm", "sm100").row
    assert row.verdict in {BLOCKED, Verdict.UNKNOWN}
    if row.verdict is BLOCKED:
        assert row.because is Because.OPTION
    assert engine.trace("amber", "sm100").row.verdict is PASSES


def test_the_first_gate_says_yes_where_the_library_says_no(engine: Engine) -> None:
    row = engine.trace("birch", "sm120").row
    assert row.verdict is BLOCKED
    assert row.first_gate is not None
    assert row.first_gate.verdict is PASSES
    assert row.first_gate.file == "sglang/srt/model_loader.py"
    assert row.first_gate.line == engine.line(row.first_gate.file, "if capability < ")
    early = engine.trace("birch", "sm80").row
    assert early.first_gate is not None
    assert early.first_gate.verdict is BLOCKED


# -- a literal swapped ------------------------------------------------------------------------------


def test_other_literals_other_verdicts(engine: Engine) -> None:
    before = engine.verdicts("birch", "sm90", "sm100", "sm103", "sm120")
    assert [arch for arch, verdict in before.items() if verdict == "blocked"] == ["sm90", "sm120"]
    engine.edit(GEMM, "@supported_compute_capability([100, 103])", "@supported_compute_capability([90, 120])")
    after = engine.verdicts("birch", "sm90", "sm100", "sm103", "sm120")
    assert [arch for arch, verdict in after.items() if verdict == "blocked"] == ["sm100", "sm103"]


def test_other_major_versions_other_verdicts(engine: Engine) -> None:
    engine.edit(JIT, "supported_major_versions=[10]", "supported_major_versions=[9, 12]")
    found = engine.verdicts("cedar", "sm90", "sm100", "sm103", "sm120", "sm121")
    assert [arch for arch, verdict in found.items() if verdict == "blocked"] == ["sm100", "sm103"]


def test_another_minimum_another_verdict(engine: Engine) -> None:
    engine.edit(METHOD, "return 90", "return 103")
    found = engine.verdicts("amber", "sm80", "sm100", "sm103", "sm120")
    assert [arch for arch, verdict in found.items() if verdict == "blocked"] == ["sm80", "sm100"]


def test_an_edited_file_is_not_answered_from_memory(engine: Engine) -> None:
    """A checkout is edited in place; its fingerprint is over sizes and times, so it is traced anew."""
    for info in engine.root.glob("*.dist-info"):
        for file in info.iterdir():
            file.unlink()
        info.rmdir()
    assert engine.trace("birch", "sm120").row.verdict is BLOCKED
    engine.edit(GEMM, "([100, 103])", "([100, 103, 120])")
    assert engine.trace("birch", "sm120").row.verdict is PASSES


# -- imports ----------------------------------------------------------------------------------------


def test_what_a_failing_import_falls_back_to_is_what_runs(engine: Engine) -> None:
    """The name is bound by the handler, since the library does not have it."""
    engine.edit(
        METHOD, "    from minilib import mm_small\n", "    from minilib import mm_small, mm_missing\n"
    )
    engine.edit(METHOD, "    mm_small = None\n", "    from minilib import mm_plain as mm_small\n")
    engine.edit(GEMM, "def mm_plain(a, b):", "def mm_plain(a, b, backend=None):")
    row = engine.trace("birch", "sm120").row
    assert row.verdict is not BLOCKED
    assert [item.line for item in row.evidence] == [engine.line(METHOD, 'backend="b"')]


def test_a_try_that_succeeds_does_not_run_its_handler(engine: Engine) -> None:
    engine.edit(METHOD, "    mm_small = None\n", "    from minilib import mm_plain as mm_small\n")
    assert engine.trace("birch", "sm120").row.verdict is BLOCKED


def test_an_import_that_the_device_decides(engine: Engine) -> None:
    engine.edit(
        METHOD,
        "\n\nclass SmallConfig:",
        "\n\nif get_device_capability()[0] >= 12:\n    from minilib import mm_plain as chosen\n"
        "else:\n    chosen = mm_small\n\n\nclass SmallConfig:",
    )
    engine.edit(
        METHOD, 'return mm_small(x, layer.weight, backend="b")', 'return chosen(x, layer.weight, "b")'
    )
    assert engine.trace("birch", "sm120").row.verdict is not BLOCKED
    assert engine.trace("birch", "sm90").row.verdict is BLOCKED
    assert engine.trace("birch", "sm100").row.verdict is PASSES


def test_a_package_for_other_hardware_is_another_vendors(engine: Engine) -> None:
    before_elm(engine, "import torch_npu\nreturn torch_npu.work(x)")
    row = engine.trace("elm", "sm100").row
    assert (row.verdict, row.because) == (Verdict.NOT_APPLICABLE, Because.VENDOR)


def test_a_name_that_the_library_at_hand_lacks_is_a_dependency(engine: Engine) -> None:
    """The package is there in another version than the engine was written for."""
    before_elm(engine, "from minilib import mm_missing\nreturn mm_missing(x)")
    row = engine.trace("elm", "sm100").row
    assert (row.verdict, row.because) == (BLOCKED, Because.DEPENDENCY)


def test_a_package_that_may_be_installed_refuses_nobody(engine: Engine) -> None:
    before_elm(engine, "import extra_kernels\nreturn extra_kernels.work(x)")
    trace = engine.trace("elm", "sm100")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert any("extra_kernels.work" in note for note in trace.notes)


# -- values that are not consulted ------------------------------------------------------------------


def test_a_value_never_consulted_is_rerouted_to_what_runs(engine: Engine) -> None:
    for backend, twin in (("fern", "flax"), ("flax", "fern")):
        trace = engine.trace(backend, "sm120")
        assert (trace.row.verdict, trace.row.because) == (Verdict.REROUTED, Because.OPTION)
        assert trace.row.runs_instead == "minilib.gemm.mm_plain"
        assert any(twin in note for note in trace.notes)
        same_lines(trace.row, engine.root)


def test_a_value_consulted_again_is_not_rerouted(engine: Engine) -> None:
    engine.edit(
        WEAVE,
        "    def is_elm(self):",
        "    def is_fern(self):\n        return self.value == 'fern'\n\n    def is_elm(self):",
    )
    engine.edit(
        METHOD,
        "        return plain(layer, x)\n",
        "        if backend.is_fern():\n            return mm_small(x, layer.weight, backend='a')\n"
        "        return plain(layer, x)\n",
    )
    assert engine.trace("fern", "sm120").row.verdict is PASSES
    assert engine.trace("fern", "sm120").row.runs_instead is None


FALLING_BACK = """\
        chosen = {fallback}
        if chosen.value == WeaveBackend.FLAX.value:
            return plain(layer, x)
        return mm_small(x, layer.weight, backend="a")
"""


def test_what_the_engine_falls_back_to_is_not_rerouted_itself(engine: Engine) -> None:
    """Of several values for which one way runs, the engine means the one that it puts in their place."""
    engine.edit(METHOD, "import get_weave_backend\n", "import WeaveBackend, get_weave_backend\n")
    engine.edit(METHOD, "        return plain(layer, x)\n", FALLING_BACK.format(fallback="WeaveBackend.FLAX"))
    row = engine.trace("fern", "sm120").row
    assert (row.verdict, row.runs_instead) == (Verdict.REROUTED, "flax")
    flax = engine.trace("flax", "sm120").row
    assert (flax.verdict, flax.runs_instead) == (PASSES, None)


def test_names_that_are_listed_for_one_way_are_all_meant(engine: Engine) -> None:
    asked = "        if backend.value in (WeaveBackend.FERN.value, WeaveBackend.FLAX.value):\n"
    engine.edit(METHOD, "import get_weave_backend\n", "import WeaveBackend, get_weave_backend\n")
    engine.edit(METHOD, "        return plain(layer, x)\n", f"{asked}            return plain(layer, x)\n")
    for backend in ("fern", "flax"):
        assert engine.trace(backend, "sm120").row.verdict is PASSES


def test_what_runs_instead_is_doubted_as_if_it_were_asked_for(engine: Engine) -> None:
    """That other code runs makes no yes of what that code fetches."""
    engine.edit("minilib/gemm.py", "import functools\n", "import functools\n\nimport requests\n")
    engine.edit("minilib/gemm.py", "def mm_plain(a, b):\n", "def mm_plain(a, b):\n    requests.get(a)\n")
    trace = engine.trace("fern", "sm120")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert "fetches" in trace.notes[0]


LOOKED_FOR = """\
from sglang.srt.platform import get_device_capability


class Base:
    def forward(self):
        return (self.of_own("on_device") or self.plain)()

    def of_own(self, name):
        for kind in type(self).__mro__:
            if kind is Base:
                return None
            if name in kind.__dict__:
                return getattr(self, name)

    def plain(self):
        return None

    def on_device(self):
        raise RuntimeError("nothing of its own")


class Middle(Base):
    def on_device(self):
        assert get_device_capability()[0] != 12, "not there"


class Last(Middle):
    pass
"""


def test_the_method_that_a_class_looks_for_among_its_own_is_what_runs(engine: Engine) -> None:
    engine.add("sglang/srt/own.py", LOOKED_FOR)
    before_elm(engine, "from sglang.srt.own import Last\nLast().forward()")
    row = engine.trace("elm", "sm120").row
    assert (row.verdict, row.because) == (BLOCKED, Because.ARCHITECTURE)
    assert engine.trace("elm", "sm100").row.verdict is PASSES
    engine.edit("sglang/srt/own.py", "class Last(Middle)", "class Last(Base)")
    assert engine.trace("elm", "sm120").row.verdict is PASSES


GIVEN = """\
import torch

from sglang.srt.platform import get_device_capability


class Runner:
    def ready(self, held):
        if held != torch.float8_e4m3fn and get_device_capability()[0] == 12:
            raise ValueError(f"no such format: {held}")
"""


@pytest.mark.parametrize(("word", "same"), [("fp8_e4m3", True), ("fp8_e5m2", False), ("auto", False)])
def test_an_options_word_is_the_dtype_that_it_names(engine: Engine, word: str, same: bool) -> None:
    """What an object of the running engine holds under the option's name is told by the option itself."""
    engine.add("sglang/srt/own.py", GIVEN)
    before_elm(engine, f"from sglang.srt.own import Runner\nRunner().ready({word!r})")
    assert (engine.trace("elm", "sm120").row.verdict is BLOCKED) is not same


SEARCH = """\
def best(rows, columns):
    found = {}
    for row in rows:
        for column in columns:
            if row * column % 7 == 3:
                found[row] = column
    return found[rows[-1]]
"""


def test_a_search_among_many_is_left_and_the_way_goes_on(engine: Engine) -> None:
    """What it comes to is not known; what comes after it is."""
    engine.add("sglang/srt/own.py", SEARCH)
    before_elm(
        engine, "from sglang.srt.own import best\nbest(range(500), range(500))\nbest(range(9), range(9))"
    )
    assert engine.trace("elm", "sm100").row.verdict is PASSES
    text = "best(range(500), range(500))"
    engine.edit(METHOD, text, f'assert {text} and get_device_capability()[0] != 12, "not there"')
    assert engine.trace("elm", "sm100").row.verdict is not BLOCKED
    engine.edit(METHOD, f"assert {text} and", f"{text}\n            assert")
    assert engine.trace("elm", "sm120").row.verdict is BLOCKED


def test_an_option_that_nobody_reads_is_unknown(engine: Engine) -> None:
    engine.edit(WEAVE, "    backend = server_args.weave_backend\n", '    backend = "amber"\n')
    trace = engine.trace("birch", "sm120")
    assert trace.row.verdict is Verdict.UNKNOWN
    assert any("--weave-backend" in note or "option" in note for note in trace.notes)


def test_a_way_that_does_not_ask_for_the_value_is_no_pass(engine: Engine) -> None:
    """On one device other code runs before anybody reads the option."""
    engine.edit(
        METHOD,
        "        backend = get_weave_backend()\n",
        "        if get_device_capability()[0] == 9:\n            return plain(layer, x)\n"
        "        backend = get_weave_backend()\n",
    )
    for backend in ("amber", "birch", "cedar"):
        assert engine.trace(backend, "sm90").row.verdict in {Verdict.REROUTED, Verdict.UNKNOWN}
    assert engine.trace("amber", "sm100").row.verdict is PASSES
    assert engine.trace("birch", "sm120").row.verdict is BLOCKED


def test_what_a_kernel_gives_is_a_tensor_on_its_device(engine: Engine) -> None:
    """Which of the arguments tells the device makes no difference: it is one and the same."""
    before_elm(
        engine,
        "first = None\nfor one in (otherlib.packed(x), x):\n    if isinstance(one, torch.Tensor):\n"
        "        first = one\n        break\n"
        "if first is not None and torch.cuda.get_device_capability(first.device.index)[0] == 12:\n"
        "    raise ValueError",
    )
    trace = engine.trace("elm", "sm120")
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.ARCHITECTURE)
