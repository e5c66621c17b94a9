"""A model's own config and a number of ranks: limits on sizes, activations and formats become verdicts.

The kinds of limits are those of public reports: a block that does not divide an expert's share, rows that a
kernel does not take, an activation that it does not know, a group size that it was not made for.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Wheels
from viability_fixtures.support import COMPONENT, METHOD, Context, Engine

from agent.cli.main import cli, run
from agent.rungs import Static
from agent.session import board_of
from memory.artifacts import Artifacts
from memory.home import Home
from memory.vocabulary import HypothesisState
from tools.viability.checkpoint import read_checkpoint
from tools.viability.trace import ExplainInput, Trace, TraceInput, trace_many
from transcripts.events import HypothesisChanged

SECOND = Path(__file__).parent / "viability_fixtures" / "second"
LINEAR = "sglang/srt/layers/linear.py"
MODEL = """\
import torch

from sglang.srt.layers.linear import RowLinear, cuts


class KettleBlock(torch.nn.Module):
    def __init__(self, config, layer_id, quant_config=None, prefix=""):
        super().__init__()
        width = config.intermediate_size if layer_id < config.first_dense else config.expert_size
        self.down = RowLinear(
            width,
            config.hidden_size,
            activation=config.hidden_act,
            quant_config=quant_config,
            prefix=f"{prefix}.down",
        )


class KettleForCausalLM(torch.nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.layers = cuts(
            config.num_hidden_layers,
            lambda idx, prefix: KettleBlock(config, idx, quant_config, prefix),
            prefix=prefix,
        )


EntryClass = KettleForCausalLM
"""
LAYERS = """\


def get_tensor_model_parallel_world_size():
    return torch.distributed.get_group().size()


def cuts(count, make, prefix=""):
    return torch.nn.ModuleList(somewhere(make, count))


class RowLinear(LinearBase):
    def __init__(self, input_size, output_size, activation="silu", quant_config=None, prefix=""):
        self.tp_size = get_tensor_model_parallel_world_size()
        self.input_size_per_partition = input_size // self.tp_size
        self.activation = activation
        super().__init__(self.input_size_per_partition, output_size, quant_config, prefix)
"""
CONFIG = {
    "architectures": ["KettleForCausalLM"],
    "hidden_size": 768,
    "intermediate_size": 1024,
    "expert_size": 192,
    "first_dense": 1,
    "hidden_act": "silu",
    "num_hidden_layers": 12,
    "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16},
}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    made = Engine.copy(tmp_path)
    made.add(LINEAR, (made.root / LINEAR).read_text(encoding="utf-8") + LAYERS)
    made.add("sglang/srt/models/kettle.py", MODEL)
    return made


def gate(engine: Engine, text: str) -> None:
    """Put a refusal where the layer's weights are made."""
    head = "    def create_weights(self, layer, input_size, output_size):\n"
    engine.edit(METHOD, head, head + "".join(f"        {line}\n" for line in text.split("\n")))


def asked(engine: Engine, backend: str = "amber", tp: int | None = None, **changes: Any) -> Trace:
    one = ExplainInput.model_validate(
        {
            **engine.asking(backend, "sm100").model_dump(),
            "checkpoint": json.dumps({**CONFIG, **changes}),
            "tp": tp,
            "quantisation": None,
        }
    )
    (trace,) = trace_many(engine.context, [one])
    return trace


def said(trace: Trace) -> tuple[str, str | None]:
    return trace.row.verdict.value, trace.row.because.value if trace.row.because else None


def test_a_share_that_a_block_does_not_divide_is_the_number_of_ranks(engine: Engine) -> None:
    gate(engine, "if input_size % 32 != 0:\n    raise ValueError(f'{input_size} rows for blocks of 32')")
    assert said(asked(engine, tp=2)) == ("no_static_obstacle", None)
    trace = asked(engine, tp=4)
    assert said(trace) == ("blocked", "parallelism")
    assert trace.notes[0] == "ValueError: 48 rows for blocks of 32"
    assert [(one.fact, one.op, one.value) for one in trace.row.conditions] == [("input_size % 32", "==", 0)]
    assert trace.row.evidence[0].text == "if input_size % 32 != 0:"
    # The dense layer comes first and passes: the place that is refused is an expert of the second.
    assert trace.scenario["layer"] == "model.layers.1.down"
    assert trace.hops[0].file == "sglang/srt/models/kettle.py"
    ranks = {one.value: one.verdict for one in trace.openings if one.kind == "parallelism"}
    assert ranks == {"1": "no_static_obstacle", "2": "no_static_obstacle"}


def test_a_size_that_no_number_of_ranks_mends_is_the_models(engine: Engine) -> None:
    gate(engine, "if input_size % 32 != 0:\n    raise ValueError('blocks of 32')")
    assert said(asked(engine, expert_size=200)) == ("blocked", "model")
    assert said(asked(engine, expert_size=200, tp=2)) == ("blocked", "model")
    assert said(asked(engine, expert_size=200, first_dense=12)) == ("no_static_obstacle", None)


def test_an_activation_that_is_not_supported_is_the_models(engine: Engine) -> None:
    gate(engine, "known = ['silu', 'relu2']\nif layer.activation not in known:\n    raise ValueError('no')")
    assert said(asked(engine)) == ("no_static_obstacle", None)
    trace = asked(engine, hidden_act="gelu_tanh")
    assert said(trace) == ("blocked", "model")
    assert trace.row.evidence[0].text == "known = ['silu', 'relu2']"


def test_a_limit_in_the_library_sees_the_width_that_the_layer_has(engine: Engine) -> None:
    """The kernel's own check, of a tensor's shape: ``rows longer than 1024``."""
    assert said(asked(engine)) == ("no_static_obstacle", None)
    trace = asked(engine, intermediate_size=2048)
    assert said(trace) == ("blocked", "model")
    assert trace.row.evidence[0].file == "minilib/gemm.py"
    assert said(asked(engine, intermediate_size=2048, tp=2)) == ("no_static_obstacle", None)


def test_what_the_config_says_of_the_format_counts(engine: Engine) -> None:
    gate(engine, "if self.quant_config.group_size not in (16, 32):\n    raise ValueError('group size')")
    assert said(asked(engine)) == ("no_static_obstacle", None)
    other = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 64}
    assert said(asked(engine, quantization_config=other)) == ("blocked", "quantisation")


def test_other_code_for_small_sizes_is_what_runs(engine: Engine) -> None:
    engine.edit(
        METHOD,
        "        if backend.is_birch():\n",
        "        if layer.input_size_per_partition < 256:\n"
        "            return plain(layer, x)\n"
        "        if backend.is_birch():\n",
    )
    trace = asked(engine, "birch", expert_size=1024)
    assert said(trace) == ("no_static_obstacle", None)
    assert said(asked(engine, "birch", first_dense=0))[0] != "no_static_obstacle"


def test_a_layer_that_the_model_builds_in_full_precision_is_no_reason(engine: Engine) -> None:
    """Its sizes are not what the format's kernels meet."""
    gate(engine, "if input_size % 32 != 0:\n    raise ValueError('blocks of 32')")
    odd = """        self.gate = RowLinear(5, config.hidden_size, quant_config=None, prefix=f"{prefix}.gate")
"""
    start = "        super().__init__()\n        width"
    engine.edit("sglang/srt/models/kettle.py", start, start.replace("        width", f"{odd}        width"))
    engine.edit(
        LINEAR,
        "        self.quant_method = quant_config",
        "        if quant_config is None:\n            return\n        self.quant_method = quant_config",
    )
    assert said(asked(engine)) == ("no_static_obstacle", None)


def test_a_layer_whose_number_the_engines_own_config_class_computes_is_found(engine: Engine) -> None:
    """What ``config.json`` leaves out is what the engine's class for it says; a function makes the layers."""
    gate(engine, "if input_size % 32 != 0:\n    raise ValueError('blocks of 32')")
    engine.add(
        "sglang/srt/configs/kettle.py",
        """class KettleConfig:
    def __init__(self, spout=40, **others):
        self.spout = spout

    @property
    def kinds(self):
        return ["wide" if number % 2 else "narrow" for number in range(self.num_hidden_layers)]
""",
    )
    engine.edit(
        "sglang/srt/models/kettle.py",
        '    def __init__(self, config, quant_config=None, prefix=""):\n',
        '    def __init__(self, config: KettleConfig, quant_config=None, prefix=""):\n',
    )
    engine.edit(
        "sglang/srt/models/kettle.py",
        "import torch\n",
        "import torch\n\nfrom sglang.srt.configs.kettle import KettleConfig\n",
    )
    engine.edit(
        "sglang/srt/models/kettle.py",
        "        self.layers = cuts(\n"
        "            config.num_hidden_layers,\n"
        "            lambda idx, prefix: KettleBlock(config, idx, quant_config, prefix),\n"
        "            prefix=prefix,\n"
        "        )\n",
        "        def layer(idx, prefix):\n"
        "            if config.kinds[idx] == 'wide':\n"
        "                return RowLinear(config.spout, 64, quant_config=quant_config, prefix=prefix)\n"
        "            return KettleBlock(config, idx, quant_config, prefix)\n\n"
        "        self.layers = cuts(config.num_hidden_layers, layer, prefix='model.layers')\n",
    )
    trace = asked(engine)
    assert said(trace) == ("blocked", "model")
    assert trace.scenario["layer"] == "model.layers.1"


def test_without_a_config_every_size_is_nominal(engine: Engine) -> None:
    gate(engine, "if input_size % 33 != 0:\n    raise ValueError('blocks of 33')")
    (trace,) = trace_many(engine.context, [engine.asking("amber", "sm100")])
    assert said(trace) == ("no_static_obstacle", None)
    assert {"config", "tp", "layer"}.isdisjoint(trace.scenario)


def test_a_gate_of_the_architecture_stays_one(engine: Engine) -> None:
    (plain,) = trace_many(engine.context, [engine.asking("birch", "sm120")])
    one = ExplainInput.model_validate(
        {**engine.asking("birch", "sm120").model_dump(), "checkpoint": json.dumps(CONFIG), "tp": 8}
    )
    (sized,) = trace_many(engine.context, [one])
    assert said(sized) == said(plain) == ("blocked", "architecture")
    assert sized.row.evidence == plain.row.evidence


def test_the_commands_take_a_config_and_a_number_of_ranks(engine: Engine, tmp_path: Path) -> None:
    gate(engine, "if input_size % 32 != 0:\n    raise ValueError('blocks of 32')")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    given = ["-e", str(engine.root), "--arch", "sm100", "--model-config", str(file), "--tp", "4"]
    shown = CliRunner().invoke(cli, ["explain", COMPONENT, "amber", *given], standalone_mode=False).stdout
    assert "weave amber on sm100: blocked, parallelism: if input_size % 32 != 0:" in shown
    assert "needs: input_size % 32 == 0" in shown
    assert "  the number of ranks tp: 1 (no static obstacle), 2 (no static obstacle)" in shown
    rows = CliRunner().invoke(
        cli, ["backends", "--component", COMPONENT, *given, "--json"], standalone_mode=False
    )
    found = {row["backend"]: row["because"] for row in json.loads(rows.stdout)["backends"]}
    assert found["amber"] == "parallelism"


def test_an_investigation_judges_for_a_models_config_and_the_gpus_that_were_named(
    engine: Engine, home: Home, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    given = ["-e", str(engine.root), "--model-config", str(file), "--driver", "planner", "--json"]
    shown = CliRunner().invoke(cli, ["investigate", "on 4x sm100", *given], standalone_mode=False)
    answer = json.loads(shown.stdout)
    assert (answer["target"]["model"], answer["target"]["gpu_count"]) == (CONFIG["architectures"][0], 4)
    assert answer["target"]["model_classes"] == CONFIG["architectures"]
    assert any("sizes as in the model's config" in one for one in answer["target"]["assumed"])

    board = board_of(home.transcripts / f"{answer['transcript']}.jsonl", Artifacts(home.artifacts))
    asked = HypothesisChanged(
        id="h", component=COMPONENT, backend="amber", arch="sm100", state=HypothesisState.OPEN, because=""
    )
    (call,) = Static().calls(board, [asked])
    gate(engine, "if input_size % 32 != 0:\n    raise ValueError('blocks of 32')")
    (trace,) = trace_many(Context(home), [TraceInput.model_validate(call.input)])
    assert said(trace) == ("blocked", "parallelism")
    assert trace.scenario["tp"] == "4"
    as_then = ["explain", COMPONENT, "amber", "--transcript", answer["transcript"], "--json"]
    row = json.loads(CliRunner().invoke(cli, as_then, standalone_mode=False).stdout)["row"]
    assert (row["verdict"], row["because"]) == ("blocked", "parallelism")


def nonsense(**said: object) -> str:
    return json.dumps({"architectures": ["TeapotForCausalLM"], **said})


@pytest.mark.parametrize(
    "said",
    [
        {"num_key_value_heads": None},
        {"num_experts": 0},
        {"intermediate_size": [64, 0, None]},
        {"num_key_value_heads": [8, 0, None]},
        {"hidden_act": -1},
    ],
)
def test_what_some_models_have_none_of_is_no_nonsense(said: dict[str, object]) -> None:
    assert read_checkpoint(nonsense(**said), "it").classes == ("TeapotForCausalLM",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("[]", "expected a model's config.json"),
        ("{", "expected a model's config.json"),
        ("{}", "no list 'architectures'"),
        ('{"architectures": ["NobodysForCausalLM"]}', "registers no model called 'NobodysForCausalLM'"),
        (nonsense(num_attention_heads=0), "num_attention_heads is 0, expected a whole number above 0"),
        (nonsense(hidden_size=-1), "hidden_size is -1, expected a whole number above 0"),
        (nonsense(num_experts=True), "num_experts is true, expected a whole number"),
        (nonsense(intermediate_size="4096"), 'intermediate_size is "4096", expected'),
        (nonsense(intermediate_size=[64, None, -1]), "intermediate_size is [64, null, -1], expected"),
        (nonsense(vocab_size=1 << 50), "vocab_size is 1125899906842624, expected"),
        (nonsense(head_dim=float("nan")), "head_dim is NaN, expected"),
        (nonsense(text_config={"hidden_size": 0.5}), "text_config.hidden_size is 0.5, expected"),
    ],
)
def test_what_is_no_config_is_refused_in_one_line(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    file = tmp_path / "config.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    given = ["-e", str(engine.root), "--arch", "sm100", "--model-config", str(file)]
    assert run(["backends", *given, "--component", COMPONENT]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_a_model_that_calls_a_function_for_its_layer_uses_it_with_its_sizes(tmp_path: Path) -> None:
    """The second engine's models call a function that makes the layer with all that it needs."""
    root = Path(shutil.copytree(SECOND, tmp_path / "tree"))
    made = Engine(root, Context(Home(tmp_path / "traces").prepare()))
    for folder in ("vllm/model_executor", "vllm/model_executor/models"):
        made.add(f"{folder}/__init__.py", "")
    made.add(
        "vllm/model_executor/models/registry.py",
        '_MODELS = {\n    "KettleForCausalLM": ("kettle", "KettleForCausalLM"),\n}\n',
    )
    made.add(
        "vllm/model_executor/models/kettle.py",
        """from vllm.layers.moe import MakeExperts


class KettleForCausalLM:
    def __init__(self, *, top_config, prefix=""):
        config = top_config.model_config.hf_text_config
        quant_config = top_config.quant_config
        self.experts = MakeExperts(config.hidden_size, quant_config=quant_config, prefix="model.experts")
""",
    )

    def verdict(size: int) -> tuple[str, str | None]:
        config = {"architectures": ["KettleForCausalLM"], "text_config": {"hidden_size": size}}
        one = TraceInput(
            environment=str(root),
            component="weave",
            backend="amber",
            arch="sm100",
            engine="vllm",
            checkpoint=json.dumps(config),
            quantisation="nvfp4",
        )
        (trace,) = trace_many(made.context, [one])
        return said(trace)

    # A class that says what it supports takes no width of 64 or more.
    assert verdict(48) == ("no_static_obstacle", None)
    assert verdict(64) == ("blocked", "model")


@pytest.mark.network
def test_a_public_refusal_of_eight_ranks_is_read_off_the_real_source(wheels: Wheels, tmp_path: Path) -> None:
    """192 columns of an expert for each of eight ranks, and blocks of 128: known of this model's FP8 weights.

    One backend pads the columns and is not refused.
    """
    environment = wheels("sglang==0.5.9", "flashinfer-python==0.6.5")
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "hidden_size": 4096,
        "head_dim": 128,
        "hidden_act": "silu",
        "intermediate_size": 12288,
        "moe_intermediate_size": 1536,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 94,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "vocab_size": 151936,
        "quantization_config": {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
        },
    }

    def rows(tp: int, *backends: str) -> list[Trace]:
        cells = [
            ExplainInput(
                environment=environment.path,
                component="moe_runner",
                backend=backend,
                arch="sm100",
                checkpoint=json.dumps(config),
                tp=tp,
                openings=False,
            )
            for backend in backends
        ]
        return list(trace_many(Context(Home(tmp_path / "home").prepare()), cells))

    refused, padded = rows(8, "triton", "flashinfer_trtllm")
    assert said(refused) == ("blocked", "parallelism")
    assert refused.notes[0].startswith(
        "ValueError: The output_size of gate's and up's weight = 192 is not div"
    )
    assert refused.row.evidence[0].file == "sglang/srt/layers/quantization/fp8.py"
    assert said(padded) == ("no_static_obstacle", None)
    assert said(rows(4, "triton")[0])[0] != "blocked"
