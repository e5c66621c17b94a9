"""Rules for the class of a model: in the checks of the options, and around the look-up of a backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from viability_fixtures.seams import SEAMS, SERVER_ARGS, add_seams
from viability_fixtures.support import Engine, same_lines

from memory.vocabulary import Because, Verdict
from tools.viability.trace import Trace, trace_many

CONFIGS = "sglang/srt/configs.py"
RUNNER = "sglang/srt/runner.py"
MODELS = """\
import torch

from sglang.srt.configs import HemConfig, PleatConfig
from sglang.srt.layers.linear import ColumnLinear


class Base(torch.nn.Module):
    def __init__(self, config: HemConfig):
        self.part = ColumnLinear(config.hidden, config.hidden)


class HemForCausalLM(Base):
    pass


class TuckForCausalLM(Base):
    def __init__(self, config: PleatConfig):
        self.part = ColumnLinear(config.hidden, config.hidden)


class DartForCausalLM(Base):
    def __init__(self, config):
        self.part = ColumnLinear(config.hidden, config.hidden)


EntryClass = [HemForCausalLM, TuckForCausalLM, DartForCausalLM]
"""
CLASSES = """\
from transformers import PretrainedConfig


class PleatTextConfig(PretrainedConfig):
    pass


class HemConfig(PretrainedConfig):
    model_type = "hem"


class PleatConfig(PretrainedConfig):
    sub_configs = {"text_config": PleatTextConfig}

    def __init__(self, text_config=None):
        self.text_config = self.sub_configs["text_config"](**text_config)


def load(path):
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(path)


class Settled:
    def __init__(self, path):
        self.hf_config = load(path)
"""
RUNS = """\
from sglang.srt.configs import HemConfig, PleatTextConfig
from sglang.srt.layers.seams import SEAMS
from sglang.srt.platform import get_device_capability
from sglang.srt.server_args import ServerArgs


def wrapped(runner, seam):
    if runner.pleated is not None and get_device_capability()[0] == 12:
        assert runner.server_args.seam_backend == "folded", "pleats are folded here"
    return seam


class ModelRunner:
    def __init__(self, model_config, server_args: ServerArgs, is_draft: bool = False):
        self.model_config = model_config
        self.server_args = server_args
        self.is_draft = is_draft

    @property
    def pleated(self):
        config = self.model_config.hf_config.get_text_config()
        return config if isinstance(config, PleatTextConfig | None) else None

    def start(self):
        self.seam = self._made(self.server_args.seam_backend)

    def _made(self, name):
        if self.is_draft:
            return None
        return wrapped(self, SEAMS[name](self))
"""
CHECKS = """\
    def __post_init__(self):
        self._for_models()

    def get_model_config(self):
        from sglang.srt.configs import Settled

        if hasattr(self, "model_config"):
            return self.model_config
        self.model_config = Settled(self.model_path)
        return self.model_config

    def _for_models(self):
        from sglang.srt.platform import get_device_capability

        arch = self.get_model_config().hf_config.architectures[0]
        if arch in ["HemForCausalLM"]:
            if self.weave_backend == "auto" and get_device_capability()[0] == 10:
                self.weave_backend = "birch"
            assert self.seam_backend in ["folded", "slow"], "a hem is folded"

"""

DECIDES = """\
RULES = {}


def rule_of(*classes):
    def decorator(function):
        for one in classes:
            enter(one)(function)
        return function

    return decorator


def enter(one):
    def decorator(function):
        RULES.setdefault(one, []).append(function)
        return function

    return decorator


class View:
    def __init__(self, options):
        self.options = options

    def __getattr__(self, name):
        for source, decided in reversed(self.options._decided):
            if name in decided:
                return decided[name]
        return getattr(self.options, name)


def decide(arch, options):
    from sglang.srt import hems

    found = []
    for function in RULES.get(arch, ()):
        decided = function(View(options))
        if decided:
            found.append((function.__name__, dict(decided)))
    return found
"""
DECIDED = """\
from sglang.srt.decides import rule_of
from sglang.srt.platform import get_device_capability


@rule_of("HemForCausalLM", "PleatForCausalLM")
def hems(view):
    if view.weave_backend == "auto" and get_device_capability()[0] == 10:
        return {"weave_backend": "birch", "width_1": 2}
    return {}
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """The small engine with rules for the classes of its models."""
    made = Engine.copy(tmp_path)
    add_seams(made)
    made.edit(SEAMS, "return SEAMS[runner.server_args.seam_backend](runner)", "return runner")
    made.edit(SEAMS, "if not runner.is_folded:", "if runner.is_rough:")
    more = "".join(f"    width_{number}: int = {number}\n" for number in range(20))
    made.edit(
        SERVER_ARGS,
        "    seam_backend: str | None = None\n",
        f"    seam_backend: str | None = None\n{more}\n{CHECKS}",
    )
    made.add(CONFIGS, CLASSES)
    made.add(RUNNER, RUNS)
    made.add("sglang/srt/models/hem.py", MODELS)
    return made


def seam(engine: Engine, backend: str, arch: str, models: Sequence[str], component: str = "seam") -> Trace:
    changed = {"component": component, "model_classes": tuple(models)}
    (trace,) = trace_many(engine.context, [engine.asking(backend, arch).model_copy(update=changed)])
    return trace


def test_a_list_of_backends_for_a_class_refuses_the_others_for_it_alone(engine: Engine) -> None:
    trace = seam(engine, "plain", "sm100", ["HemForCausalLM"])
    assert (trace.row.verdict, trace.row.because) == (Verdict.BLOCKED, Because.MODEL)
    line = engine.line(SERVER_ARGS, "assert self.seam_backend in")
    assert (SERVER_ARGS, line) in {(one.file, one.line) for one in trace.row.evidence}
    same_lines(trace.row, engine.root)
    assert trace.scenario["model_class"] == "HemForCausalLM"
    assert seam(engine, "folded", "sm100", ["HemForCausalLM"]).row.verdict is Verdict.NO_STATIC_OBSTACLE
    for models in ([], ["TuckForCausalLM"], ["NoSuchModel"]):
        assert seam(engine, "plain", "sm100", models).row.verdict is Verdict.NO_STATIC_OBSTACLE, models


def test_what_wraps_a_backend_may_refuse_it_for_models_of_a_class_of_configurations(engine: Engine) -> None:
    """On the device that the wrapper asks for, for the model whose part on text is of the class."""
    engine.edit(SEAMS, "return Fold.apply(q, 11)", "return Fold.apply(q, 13)")
    trace = seam(engine, "plain", "sm120", ["TuckForCausalLM"])
    assert (trace.row.verdict, trace.row.because) == (Verdict.BLOCKED, Because.MODEL)
    assert trace.row.evidence[-1].line == engine.line(RUNNER, "pleats are folded here")
    assert trace.scenario["model_class"] == "TuckForCausalLM"
    for backend, arch, models in (
        ("folded", "sm120", ["TuckForCausalLM"]),
        ("plain", "sm100", ["TuckForCausalLM"]),
        ("plain", "sm120", ["DartForCausalLM"]),
        ("plain", "sm120", []),
    ):
        found = seam(engine, backend, arch, models)
        assert found.row.verdict is Verdict.NO_STATIC_OBSTACLE, (backend, arch, models)


def test_the_configuration_that_has_the_models_name_is_its_own_whatever_is_annotated(engine: Engine) -> None:
    engine.edit(SEAMS, "return Fold.apply(q, 11)", "return Fold.apply(q, 13)")
    engine.edit(CONFIGS, "def load(path):", "class TuckConfig(HemConfig):\n    pass\n\n\ndef load(path):")
    assert seam(engine, "plain", "sm120", ["TuckForCausalLM"]).row.verdict is Verdict.NO_STATIC_OBSTACLE


def test_where_several_classes_may_serve_a_model_what_they_share_is_said(engine: Engine) -> None:
    both = seam(engine, "plain", "sm100", ["TuckForCausalLM", "HemForCausalLM"])
    assert both.row.verdict is Verdict.UNKNOWN
    assert "no_static_obstacle for TuckForCausalLM; blocked for HemForCausalLM" in both.notes[0]
    for backend in ("folded", "slow"):
        alone = seam(engine, backend, "sm100", ["HemForCausalLM"]).row
        found = seam(engine, backend, "sm100", ["HemForCausalLM", "DartForCausalLM"]).row
        assert (found.verdict, found.because) == (alone.verdict, alone.because)


def test_what_start_up_chooses_for_a_class_runs_in_place_of_auto(engine: Engine) -> None:
    engine.edit(
        SERVER_ARGS, '            assert self.seam_backend in ["folded", "slow"], "a hem is folded"\n', ""
    )
    on = seam(engine, "auto", "sm100", ["HemForCausalLM"], "weave")
    assert (on.row.verdict, on.row.runs_instead) == (Verdict.NO_STATIC_OBSTACLE, "birch")
    assert on.scenario["model_class"] == "HemForCausalLM"
    for arch, models in (("sm120", ["HemForCausalLM"]), ("sm100", ["TuckForCausalLM"]), ("sm100", [])):
        assert seam(engine, "auto", arch, models, "weave").row.runs_instead != "birch", (arch, models)


def test_a_refusal_that_has_nothing_to_do_with_the_class_names_none(engine: Engine) -> None:
    trace = seam(engine, "plain", "sm120", ["DartForCausalLM"])
    assert (trace.row.verdict, trace.row.because) == (Verdict.BLOCKED, Because.ARCHITECTURE)
    assert "model_class" not in trace.scenario


def test_what_the_engine_would_take_for_a_class_is_told_with_each_cell(engine: Engine) -> None:
    """Where nobody sets the option: the first check that puts something there, as start-up makes them."""
    choice = "            if self.seam_backend is None:\n                self.seam_backend = 'far'\n"
    check = '            assert self.seam_backend in ["folded", "slow"], "a hem is folded"\n'
    engine.edit(SERVER_ARGS, check, choice)
    assert seam(engine, "plain", "sm100", ["HemForCausalLM"]).left == "far"
    assert seam(engine, "plain", "sm100", ["TuckForCausalLM"]).left is None
    assert seam(engine, "plain", "sm100", ["TuckForCausalLM", "HemForCausalLM"]).left is None
    assert seam(engine, "plain", "sm100", []).left is None
    assert seam(engine, "auto", "sm100", ["HemForCausalLM"], "weave").left is None, "it has a default"


@pytest.fixture
def deciding(engine: Engine) -> Engine:
    """The same, where rules for a class are entered into a table by decorators, and what they decide is noted
    down beside the options instead of being put there."""
    rules = """\
            if self.weave_backend == "auto" and get_device_capability()[0] == 10:
                self.weave_backend = "birch"
            assert self.seam_backend in ["folded", "slow"], "a hem is folded"
"""
    engine.edit(SERVER_ARGS, rules, "            pass\n")
    engine.edit(
        SERVER_ARGS,
        '        if arch in ["HemForCausalLM"]:\n',
        """\
        from sglang.srt.decides import View, decide

        if self.get_model_config().hf_config.rough:
            self._decided.append(("rough", {"width_2": 3}))
        self._decided.extend(decide(arch, self))
        if View(self).weave_backend == "dune":
            raise ValueError("never")
        if arch in ["HemForCausalLM"]:
""",
    )
    engine.edit(
        SERVER_ARGS, "        self._for_models()", "        self._decided = []\n        self._for_models()"
    )
    engine.add("sglang/srt/decides.py", DECIDES)
    engine.add("sglang/srt/hems.py", DECIDED)
    return engine


def test_what_a_registered_rule_decides_for_a_class_is_noted_down_and_runs(deciding: Engine) -> None:
    """Whatever else may have been noted down before, as long as it says nothing of this option."""
    on = seam(deciding, "auto", "sm100", ["HemForCausalLM"], "weave")
    assert (on.row.verdict, on.row.runs_instead) == (Verdict.NO_STATIC_OBSTACLE, "birch")
    for arch, models in (("sm120", ["HemForCausalLM"]), ("sm100", ["TuckForCausalLM"]), ("sm100", [])):
        assert seam(deciding, "auto", arch, models, "weave").row.runs_instead != "birch", (arch, models)


def test_what_may_have_been_decided_otherwise_afterwards_is_not_said(deciding: Engine) -> None:
    after = """\
        if self.get_model_config().hf_config.loose:
            self._decided.append(("loose", {"weave_backend": "dune"}))
        if View(self)"""
    deciding.edit(SERVER_ARGS, "        if View(self)", after)
    row = seam(deciding, "auto", "sm100", ["HemForCausalLM"], "weave").row
    assert row.runs_instead not in ("birch", "dune")
    assert seam(deciding, "amber", "sm100", ["HemForCausalLM"], "weave").row.verdict is not Verdict.BLOCKED
