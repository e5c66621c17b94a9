"""Rules in a table by the names of models' classes, what a class tells the layers that it builds, and what a
model's own config says: in the engine that has configuration objects. No network.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from viability_fixtures.support import Context, Engine, same_lines

from memory.home import Home
from memory.vocabulary import Because, Verdict
from tools.viability.trace import Trace, TraceInput, trace_many

SECOND = Path(__file__).parent / "viability_fixtures" / "second"
PASSES, BLOCKED = Verdict.NO_STATIC_OBSTACLE, Verdict.BLOCKED
PARTS, SPIN = "vllm/config/parts.py", "vllm/layers/spin.py"
RULES, MODELS = "vllm/config/rules.py", "vllm/model_executor/models/hems.py"

TABLE = """\
from vllm.layers.spin import Spin


class HemRules:
    @staticmethod
    def settle(top):
        if top.weave_config.spin == Spin.FLAT:
            raise ValueError("a hem is not flat")


class TuckRules:
    @staticmethod
    def settle(top):
        top.place_config.place_rows = 3


class GoreRules:
    @staticmethod
    def settle(top):
        if getattr(top.model_config.hf_config, "folds", 0) > 2 and top.weave_config.spin == Spin.FLAT:
            raise ValueError("so many folds are not flat")


RULES = {
    "HemForCausalLM": HemRules,
    "TuckForCausalLM": TuckRules,
    "GoreForCausalLM": GoreRules,
}
"""
TOP = """\
@settings
class ModelConfig:
    model_name: str = "hem"
    model_rows: int = 1

    def __post_init__(self):
        self.shape = self.get_shape()

    def get_shape(self):
        return {"pleated": self.hf_config.model_type in ("pleat", "crease")}

    @property
    def architecture(self):
        return self._architecture


@settings
class TopConfig:
    model_config: ModelConfig = None

    def __post_init__(self):
        self.settle_model()

    def settle_model(self):
        if self.model_config is None or getattr(self.model_config, "settled", False):
            return
        self.model_config.settled = True
        from vllm.config.rules import RULES

        rules = RULES.get(self.model_config.architecture, None)
        if rules is not None:
            rules.settle(self)

"""
REGISTRY = "MODELS = {\n" + "".join(
    f'    "{name}ForCausalLM": ("hems", "{name}ForCausalLM"),\n' for name in ("Hem", "Tuck", "Gore", "Dart")
)
BUILT = """\
import torch

from vllm.layers.spin import DeepLayer, FlatLayer


class Base(torch.nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.config = vllm_config.model_config.hf_config
        self.quant_config = vllm_config.quant_config
        self.part = self.made()

    def made(self):
        return FlatLayer(self.config.hidden_size, quant_config=self.quant_config)


class HemForCausalLM(Base):
    pass


class TuckForCausalLM(Base):
    pass


class GoreForCausalLM(Base):
    pass


class DartForCausalLM(Base):
    def made(self):
        marks = torch.nn.Parameter(torch.empty(self.config.num_heads))
        return FlatLayer(self.config.hidden_size, quant_config=self.quant_config, marks=marks)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """The engine with models, rules for their classes, and layers that some of them mark."""
    made = Engine(Path(shutil.copytree(SECOND, tmp_path / "tree")), Context(Home(tmp_path / "t").prepare()))
    made.edit(PARTS, "@settings\nclass TopConfig:\n", TOP)
    made.add(RULES, TABLE)
    made.add("vllm/model_executor/models/registry.py", REGISTRY + "}\n")
    made.add(MODELS, BUILT)
    flat = "class FlatLayer(torch.nn.Module):\n    def __init__(self, hidden_size: int, quant_config=None"
    made.edit(SPIN, f'{flat}, prefix=""):', f'{flat}, prefix="", marks=None):')
    made.edit(
        SPIN, "select(hidden_size, False, False)", "select(hidden_size, False, False, marks is not None)"
    )
    made.edit(SPIN, "def select(width, deep, thin):", "def select(width, deep, thin, marked=False):")
    made.edit(
        SPIN,
        "    if reasons:\n",
        '    if marked and not deep:\n        reasons.append("marks not supported")\n'
        '    if get_current_top_config().place_config.place_rows > 2:\n        reasons.append("rows")\n'
        "    if reasons:\n",
    )
    return made


def spin(engine: Engine, backend: str, model: str | None, config: dict[str, object] | None = None) -> Trace:
    asked = TraceInput(
        environment=str(engine.root),
        component="spin",
        backend=backend,
        arch="sm100",
        engine="vllm",
        quantisation="nvfp4",
        model_classes=(model,) if model is not None else (),
        checkpoint=json.dumps(config) if config is not None else None,
    )
    (trace,) = trace_many(engine.context, [asked])
    return trace


def test_a_rule_of_the_table_refuses_a_backend_for_its_class_alone(engine: Engine) -> None:
    trace = spin(engine, "FLAT", "HemForCausalLM")
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.MODEL)
    line = engine.line(RULES, "a hem is not flat")
    assert (RULES, line) in {(one.file, one.line) for one in trace.row.evidence}
    assert trace.scenario["model_class"] == "HemForCausalLM"
    same_lines(trace.row, engine.root)
    for model in (None, "GoreForCausalLM", "NoSuchModel"):
        assert spin(engine, "FLAT", model).row.verdict is PASSES, model


def test_the_table_is_known_by_its_keys_and_its_reader_by_what_it_is(engine: Engine) -> None:
    engine.edit(RULES, "RULES = {", "FOO = {")
    engine.edit(PARTS, "import RULES", "import FOO")
    engine.edit(PARTS, "rules = RULES.get(", "rules = FOO.get(")
    engine.edit(PARTS, "def settle_model(self):", "def bar(self):")
    engine.edit(PARTS, "self.settle_model()", "self.bar()")
    assert spin(engine, "FLAT", "HemForCausalLM").row.because is Because.MODEL


def test_what_a_rule_certainly_changes_is_what_the_layers_then_read(engine: Engine) -> None:
    trace = spin(engine, "FLAT", "TuckForCausalLM")
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.MODEL)
    engine.edit(RULES, "top.place_config.place_rows = 3", "top.place_config.place_rows = 2")
    assert spin(engine, "FLAT", "TuckForCausalLM").row.verdict is PASSES
    engine.edit(RULES, "place_rows = 2", "place_rows = 3 if top.model_config.hf_config.rough else 1")
    assert spin(engine, "FLAT", "TuckForCausalLM").row.verdict is PASSES, "not known, so as any model's"


def test_what_a_class_gives_every_layer_that_it_builds_counts_although_its_sizes_are_not_known(
    engine: Engine,
) -> None:
    trace = spin(engine, "FLAT", "DartForCausalLM")
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.MODEL)
    assert trace.row.evidence[-1].line == engine.line(MODELS, "marks=marks)")
    engine.edit(MODELS, "marks=marks)", "marks=marks if self.config.marked else None)")
    assert spin(engine, "FLAT", "DartForCausalLM").row.verdict is PASSES, "any model's are not marked"
    engine.edit(
        MODELS,
        "        marks = torch",
        "        if self.config.rough:\n            return None\n        marks = torch",
    )
    engine.edit(MODELS, "marks=marks if self.config.marked else None)", "marks=True)")
    assert spin(engine, "FLAT", "DartForCausalLM").row.verdict is PASSES, "whether it is built is not known"


def test_a_dictionary_of_few_classes_is_no_table_of_rules(engine: Engine) -> None:
    few = '    "TuckForCausalLM": TuckRules,\n    "GoreForCausalLM": GoreRules,\n'
    engine.edit(RULES, few, "")
    assert spin(engine, "FLAT", "HemForCausalLM").row.verdict is PASSES


def test_a_rule_that_is_not_followed_to_its_end_says_nothing_of_the_option(engine: Engine) -> None:
    settle = "            rules.settle(self)\n"
    engine.edit(PARTS, settle, f'{settle}        raise RuntimeError("for a reason of its own")\n')
    assert spin(engine, "FLAT", "GoreForCausalLM").row.verdict is PASSES


GORE = """\
from transformers import PretrainedConfig


class GoreConfig(PretrainedConfig):
    def __init__(self, folds=3):
        self.folds = folds
"""


def test_what_a_config_leaves_out_is_what_its_class_takes(engine: Engine) -> None:
    engine.add("vllm/gores.py", GORE)
    config: dict[str, object] = {"architectures": ["GoreForCausalLM"], "hidden_size": 128}
    assert spin(engine, "FLAT", None, config).row.verdict is BLOCKED
    assert spin(engine, "FLAT", None, {**config, "folds": 2}).row.verdict is PASSES


def test_a_rule_reads_what_the_model_s_own_config_says(engine: Engine) -> None:
    config = {"architectures": ["GoreForCausalLM"], "hidden_size": 128, "folds": 3}
    trace = spin(engine, "FLAT", None, config)
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.MODEL)
    assert (RULES, engine.line(RULES, "so many folds")) in {
        (one.file, one.line) for one in trace.row.evidence
    }
    for other in ({**config, "folds": 2}, {name: config[name] for name in ("architectures", "hidden_size")}):
        assert spin(engine, "FLAT", None, other).row.verdict is PASSES, other
    assert spin(engine, "FLAT", "GoreForCausalLM").row.verdict is PASSES, (
        "of the class alone that is not known"
    )


def test_what_a_configuration_computes_from_the_model_s_own_config_counts(engine: Engine) -> None:
    engine.edit(
        SPIN,
        "    if marked and not deep:\n",
        '    if get_current_top_config().model_config.shape["pleated"] and not deep:\n'
        '        reasons.append("pleats not supported")\n'
        "    if marked and not deep:\n",
    )
    config = {"architectures": ["GoreForCausalLM"], "hidden_size": 128, "model_type": "pleat"}
    trace = spin(engine, "FLAT", None, config)
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.MODEL)
    assert spin(engine, "FLAT", None, {**config, "model_type": "gore"}).row.verdict is PASSES
    assert spin(engine, "FLAT", "GoreForCausalLM").row.verdict is not BLOCKED, "it is not known"


def test_a_marked_layer_is_refused_with_the_sizes_of_a_model_as_well(engine: Engine) -> None:
    config: dict[str, object] = {"architectures": ["DartForCausalLM"], "hidden_size": 128, "num_heads": 4}
    trace = spin(engine, "FLAT", None, config)
    assert (trace.row.verdict, trace.row.because) == (BLOCKED, Because.MODEL)
    assert spin(engine, "FLAT", None, {**config, "architectures": ["GoreForCausalLM"]}).row.verdict is PASSES
