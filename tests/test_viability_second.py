"""An engine of another make: configuration objects, a platform found on demand, self-judging classes.

The engine lies in ``viability_fixtures/second``. Its options go through a tree of configuration classes, one
under another name and as an enum of dotted paths; a function builds the layer; the forward pass goes
through an operator of torch and finds the layer by its name. No network.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from viability_fixtures.support import Context, Engine

from agent.cli.cells import options_of
from memory.home import Home
from memory.vocabulary import Because, Verdict
from tools.environment.store import open_environment
from tools.viability.trace import Trace, TraceInput, trace_many

SECOND = Path(__file__).parent / "viability_fixtures" / "second"
ARCHS = ("sm90", "sm100", "sm120")
PASSES, BLOCKED = Verdict.NO_STATIC_OBSTACLE, Verdict.BLOCKED
ORACLE, SPIN = "vllm/layers/oracle.py", "vllm/layers/spin.py"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    root = Path(shutil.copytree(SECOND, tmp_path / "tree"))
    return Engine(root, Context(Home(tmp_path / "traces").prepare()))


def traces(engine: Engine, component: str, backend: str) -> list[Trace]:
    cells = [
        TraceInput(
            environment=str(engine.root),
            component=component,
            backend=backend,
            arch=arch,
            engine="vllm",
            quantisation="nvfp4",
        )
        for arch in ARCHS
    ]
    return list(trace_many(engine.context, cells))


def verdicts(engine: Engine, component: str, backend: str) -> list[Verdict]:
    return [trace.row.verdict for trace in traces(engine, component, backend)]


def test_a_class_that_supports_every_device_passes(engine: Engine) -> None:
    assert verdicts(engine, "weave", "amber") == [PASSES, PASSES, PASSES]


def test_a_class_refuses_a_device_that_it_does_not_support(engine: Engine) -> None:
    found = traces(engine, "weave", "birch")
    assert [trace.row.verdict for trace in found] == [BLOCKED, PASSES, BLOCKED]
    assert found[0].row.because is Because.ARCHITECTURE
    assert any(item.file == ORACLE for item in found[0].row.evidence)


def test_a_class_made_for_another_format_and_a_value_without_a_class_are_refused(engine: Engine) -> None:
    for backend in ("cedar", "dune"):
        found = traces(engine, "weave", backend)
        assert [(t.row.verdict, t.row.because) for t in found] == [(BLOCKED, Because.OPTION)] * 3


def test_the_gate_moves_with_the_source(engine: Engine) -> None:
    engine.edit(ORACLE, "is_family(10)", "is_family(12)")
    assert verdicts(engine, "weave", "birch") == [BLOCKED, BLOCKED, PASSES]


def test_a_nominal_width_is_no_reason_against(engine: Engine) -> None:
    engine.edit(SPIN, "return width in (64, 128)", "return width in (1, 2)")
    engine.edit(ORACLE, "return width < 64", "return width < 2")
    assert verdicts(engine, "spin", "FLAT") == [PASSES, PASSES, PASSES]
    assert verdicts(engine, "weave", "amber") == [PASSES, PASSES, PASSES]


def test_reasons_in_a_list_block_by_the_one_that_is_sure(engine: Engine) -> None:
    engine.edit(SPIN, "capability.major >= 9", "capability.major >= 10")
    found = traces(engine, "spin", "FLAT")
    assert [trace.row.verdict for trace in found] == [BLOCKED, PASSES, PASSES]
    assert found[0].row.because is Because.ARCHITECTURE


def test_a_reason_that_is_not_known_never_blocks(engine: Engine) -> None:
    engine.edit(SPIN, "if not cls.supports_width(width):", "if torch.distributed.is_xccl_available():")
    assert BLOCKED not in verdicts(engine, "spin", "FLAT")


def test_a_backend_for_another_kind_of_layer_is_judged_there(engine: Engine) -> None:
    assert verdicts(engine, "spin", "DEEP") == [BLOCKED, PASSES, BLOCKED]
    assert verdicts(engine, "spin", "THIN") == [BLOCKED, BLOCKED, PASSES]


def test_a_backend_that_is_refused_whatever_the_kind_of_layer_is_blocked(engine: Engine) -> None:
    engine.edit(SPIN, "if deep != cls.is_deep():", "if cls.is_deep():")
    assert verdicts(engine, "spin", "DEEP") == [BLOCKED, BLOCKED, BLOCKED]


def test_one_option_for_all_linear_layers_is_meant_by_each_format(engine: Engine) -> None:
    environment = open_environment(engine.context.home, str(engine.root))
    option = options_of(environment, "vllm", ("fp4_gemm",), None)[0]
    assert (option.component, option.flag) == ("fp4_gemm", "--linear-backend")
    assert {value.value for value in option.values} == {"oak", "pine"}


KNOT = """\
from minilib import mm_small

from vllm.config.parts import WeaveConfig


class Square:
    def __call__(self, x):
        return mm_small(x, x, backend="a")


class Granny:
    def __call__(self, x):
        return mm_small(x, x, backend="b")


_TABLE = {"square": Square, "granny": Granny}
_knot = None


def initialize_knot(weave_config: WeaveConfig):
    global _knot
    _knot = _TABLE[weave_config.tie]()


def knot(x: "torch.Tensor"):
    assert _knot is not None
    return _knot(x)
"""


def test_start_up_fills_a_global_from_a_configuration_object(engine: Engine) -> None:
    """The option goes by another name there, which is no option's."""
    arguments, parts = "vllm/engine/arguments.py", "vllm/config/parts.py"
    engine.edit(
        arguments,
        "    weave_depth: int = 2\n",
        '    weave_depth: int = 2\n    knot_backend: Literal["square", "granny"] = "square"\n',
    )
    engine.edit(
        arguments,
        '        parser.add_argument("--weave-depth"',
        '        parser.add_argument("--knot-backend", choices=["square", "granny"], default="square")\n'
        '        parser.add_argument("--weave-depth"',
    )
    engine.edit(
        arguments, "weave_depth=self.weave_depth,", "weave_depth=self.weave_depth, tie=self.knot_backend,"
    )
    engine.edit(
        parts,
        "    weave_depth: int = 2\n",
        '    weave_depth: int = 2\n    tie: Literal["square", "granny"] = "square"\n',
    )
    engine.add("vllm/layers/knot.py", KNOT)
    assert verdicts(engine, "knot", "square") == [PASSES, PASSES, PASSES]
    assert verdicts(engine, "knot", "granny") == [BLOCKED, PASSES, BLOCKED]
    engine.edit(arguments, " tie=self.knot_backend,", "")
    assert verdicts(engine, "knot", "granny") == [Verdict.UNKNOWN] * 3
