"""Settings become flags or a reason; what really runs is told from what was asked. All servers are fakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_generator import add_generator
from fake_server import fake_engine, fake_model
from program import START, agent, variables
from test_hardware import program

from agent.best import Best, answers, best
from agent.cli.common import Context
from agent.cli.main import run as main
from agent.trials import Ran, blamed, doubted, grid, spared
from memory.artifacts import Artifacts
from memory.home import Home
from memory.terms import Level, Outcome
from tools.environment.adopt import adopt
from tools.errors import ToolError
from tools.hardware.gpu import Gpu
from tools.server import Plan, ServerSettings, launched, plan_launch
from tools.server.experiment import _fits, try_server
from tools.server.fit import estimate, longest, will_it_fit
from tools.server.shrink import shrunk
from tools.server.trial import Launched, TryServer
from tools.server.used import Used, used_backends


class Trying(Context):
    """A person's context, who has named the interpreter."""

    interpreter: tuple[Path, Path]


@pytest.fixture
def planned(tmp_path: Path, home: Home) -> Callable[..., Plan]:
    site = fake_engine(tmp_path / "site")

    def plan(settings: dict[str, Any], **more: Any) -> Plan:
        asked = ServerSettings.model_validate({"model": "m", "device": "cpu", **settings})
        return plan_launch(home, adopt(site), asked, python=Path(sys.executable), site=site, **more)

    return plan


@pytest.fixture
def tried(tmp_path: Path, home: Home) -> Callable[..., Launched]:
    """The result of the tool on a fake that behaves so."""

    def run(
        settings: dict[str, Any] | None = None,
        asked: dict[str, Any] | None = None,
        python: Path = Path(sys.executable),
        **behaviour: Any,
    ) -> Launched:
        site = fake_engine(tmp_path / "site")
        model = fake_model(tmp_path / "model", **behaviour)
        (model / "tokenizer.json").write_text("{}", encoding="utf-8")
        context = Trying(home)
        object.__setattr__(context, "interpreter", (python, site))
        given = {"model": str(model), "device": "cpu", **(settings or {})}
        result = try_server.run(
            TryServer.model_validate(
                {"environment": str(site), "settings": given, "rounds": 1, **(asked or {})}
            ),
            context,
        )
        assert isinstance(result, Launched)
        return result

    return run


def test_settings_become_flags_of_the_version_that_is_there(planned: Callable[..., Plan]) -> None:
    plan = planned(
        {
            "backends": {"attention": "fa3"},
            "tensor_parallel": 2,
            "dtype": "bfloat16",
            "options": {"max_running_requests": 8, "disable-cuda-graph": True, "enable_metrics": False},
        }
    )
    command = " ".join(plan.command(1234, "secret"))
    assert "--attention-backend fa3" in command
    assert "--tp-size 2" in command
    assert "--max-running-requests 8 --disable-cuda-graph" in command
    assert "--enable-metrics" not in command
    assert command.endswith("--host 127.0.0.1 --port 1234 --api-key secret")
    assert "secret" not in plan.script()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backends": {"attention": "fa9"}}, "does not accept 'fa9' here; nearest: fa3"),
        ({"backends": {"mamba": "x"}}, "has no option for 'mamba' here"),
        ({"options": {"max-runing-requests": 8}}, "nearest: --max-running-requests"),
        ({"options": {"trust_remote_code": True}}, "is for a person"),
        ({"options": {"host": "0.0.0.0"}}, "set by the launch itself"),  # noqa: S104 - refused
        ({"options": {"max_running_requests": "8;reboot"}}, "neither a number nor one word"),
        ({"options": {"max_running_requests": "/etc/passwd"}}, "neither a number nor one word"),
    ],
)
def test_what_the_version_does_not_take_or_a_driver_may_not_set_is_refused(
    settings: dict[str, Any], words: str, planned: Callable[..., Plan]
) -> None:
    with pytest.raises(ToolError, match=words):
        planned(settings)


def test_a_person_may_type_what_a_driver_may_not(planned: Callable[..., Plan]) -> None:
    plan = planned({}, extra=["--trust-remote-code"], driver=False)
    assert "--trust-remote-code" in plan.arguments
    with pytest.raises(ToolError, match="set by the launch itself"):
        planned({}, extra=["--port=80"], driver=False)
    with pytest.raises(ToolError, match="does not know --no-such"):
        planned({}, extra=["--no-such", "1"], driver=False)


def test_a_server_sees_what_engines_heed_and_no_secrets(planned: Callable[..., Plan]) -> None:
    source = {
        "PATH": "/bin", "HF_TOKEN": "a", "OPENAI_API_KEY": "b", "VLLM_API_KEY": "c", "NCCL_DEBUG": "INFO",
        "CUDA_HOME": "/cuda", "OTHER": "d",
    }  # fmt: skip
    variables = planned({}, source=source).variables
    assert variables["NCCL_DEBUG"] == "INFO"
    assert variables["CUDA_HOME"] == "/cuda"
    assert not {"HF_TOKEN", "OPENAI_API_KEY", "VLLM_API_KEY", "OTHER"} & set(variables)
    passed = planned({}, source=source, pass_env=["HF_TOKEN"]).variables
    assert passed["HF_TOKEN"] == source["HF_TOKEN"]


def test_nothing_is_launched_that_hides_what_is_no_number(planned: Callable[..., Plan]) -> None:
    with pytest.raises(ToolError, match="turns not-a-number into an answer"):
        planned({}, source={"PATH": "/bin", "SGLANG_SANITIZE_NAN_LOGITS": "1"})


def test_an_option_that_is_named_in_a_hostile_way_is_one_line(planned: Callable[..., Plan]) -> None:
    with pytest.raises(ToolError, match="does not know"):
        planned({"options": {"--x\n\x1b[2J": True}})


def test_a_healthy_server_is_ok_and_its_log_is_kept_without_the_key(
    tried: Callable[..., Launched], home: Home
) -> None:
    result = tried({"backends": {"moe_runner": "triton", "attention": "flashinfer"}})
    assert result.outcome is Outcome.OK, result.because
    assert {one.component: one.backend for one in result.used} == {
        "attention": "flashinfer",
        "moe_runner": "triton",
    }
    assert result.phases["weights"] >= 0
    assert result.left == ()
    assert result.log is not None
    text = Artifacts(home.artifacts).get(result.log).decode()
    assert "A FAKE server" in text
    assert "api_key='***'" in text
    assert not list((home.root / "servers").glob("*/server.log"))


def test_what_cannot_fit_is_not_launched(
    tried: Callable[..., Launched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "nvidia-smi", "#!/bin/sh\necho '0, GPU-tiny, Teapot, 9.0, 1, 0, 1.0'\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(
        ToolError, match=r"it does not fit: weights of 0\.0. GiB for each GPU, which has 0\.00"
    ):
        tried({"device": "gpu"})
    tiny = Gpu(index=0, uuid="GPU-tiny", name="Teapot", compute_capability="9.0", memory_total_mib=1,
               memory_used_mib=0, driver="1")  # fmt: skip
    _fits(ServerSettings(model=str(fake_model(tmp_path / "m")), options={"cpu-offload-gb": 9}), [tiny])


def test_weights_that_lie_there_in_two_forms_count_once(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN), encoding="utf-8")
    for name in ("model-1.safetensors", "consolidated.safetensors"):
        (tmp_path / name).write_bytes(bytes(1000))
    settings = ServerSettings(model=str(tmp_path))
    both = will_it_fit(settings, None)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 990}}), encoding="utf-8")
    told = will_it_fit(settings, None)
    index.write_text("[" * 5000, encoding="utf-8")
    damaged = will_it_fit(settings, None)
    assert [one and one.weights for one in (both, told, damaged)] == [2000, 990, 2000]


@pytest.mark.parametrize(("asked", "given"), [(8192, 1888), (1200, 1200), (None, None)])
def test_a_long_context_is_no_longer_than_the_model_takes(
    asked: int | None, given: int | None, tried: Callable[..., Launched], tmp_path: Path
) -> None:
    add_generator(tmp_path / "site", "sglang")
    loads = {"concurrency": [1], "input": 64, "output": 96, "least": 4, "long": asked}
    result = tried(asked={"loads": loads, "concurrency": 4})
    assert result.outcome is Outcome.OK, result.because
    assert result.benchmark is not None
    kept = [cell.input for cell in result.benchmark.cells if not cell.warmup]
    assert kept == [64, *([given] if given else [])]


def test_no_model_is_loaded_for_requests_that_it_does_not_take(tried: Callable[..., Launched]) -> None:
    with pytest.raises(
        ToolError, match=r"requests of 2000\+96 tokens are longer than the 2048 that the server"
    ):
        tried(asked={"loads": {"input": 2000, "output": 96}})


def test_a_substitution_is_named_and_nothing_more_is_asked(tried: Callable[..., Launched]) -> None:
    result = tried({"backends": {"moe_runner": "marlin"}}, used="triton")
    assert result.outcome is Outcome.SUBSTITUTED
    assert result.because == "moe_runner: marlin was asked for, triton runs (by its log)"
    assert result.checked is None


def test_numbers_that_are_none_only_in_a_crowd_are_found(tried: Callable[..., Launched]) -> None:
    result = tried(nan_in_crowd=True)
    assert result.outcome in (Outcome.NAN, Outcome.STRESS_FAILED)
    assert result.checked is not None


def test_a_crash_in_a_crowd_is_told_with_its_traceback(tried: Callable[..., Launched]) -> None:
    result = tried(crash_in_crowd=True)
    assert result.outcome is Outcome.CRASHED
    assert "illegal memory access" in result.because
    assert result.failure is not None
    assert result.failure.ready


LOADS = {"concurrency": [1], "input": 64, "output": 16, "least": 4}


@pytest.mark.parametrize(
    ("fault", "why"),
    [("crash", "no load can be believed"), ("removes", "cannot run sglang.bench_serving with")],
)
def test_a_check_that_was_passed_outlives_loads_that_cannot_be_made(
    fault: str, why: str, tried: Callable[..., Launched], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    faults = {"crash": {"fault": "crash"}, "removes": {"removes": str(python)}}
    add_generator(tmp_path / "site", "sglang", **faults[fault])
    result = tried(asked={"loads": LOADS, "concurrency": 4, "questions": 0}, python=python)
    assert (result.outcome, result.level) == (Outcome.OK, Level.STRESS)
    assert result.because.startswith(f"not measured: {why}")
    assert result.checked is not None
    assert result.checked.because in result.because
    assert result.failure is None


def test_a_server_that_cannot_be_checked_is_told_with_what_was_seen_of_it(
    tried: Callable[..., Launched],
) -> None:
    result = tried({"backends": {"attention": "triton"}}, refuse_after=1)
    assert result.outcome is Outcome.NOT_RUN
    assert "not checked: " in result.because
    assert "refuses every prompt (HTTP 400)" in result.because
    assert [one.backend for one in result.used if one.component == "attention"] == ["triton"]
    assert result.log is not None
    with pytest.raises(ToolError, match="no artifact 0000"):
        tried(asked={"reference_run": "0" * 64})


def test_a_start_that_fails_is_a_result(tried: Callable[..., Launched]) -> None:
    result = tried(crash="import")
    assert result.outcome is Outcome.IMPORT_FAILED
    assert result.failure is not None
    assert result.failure.diagnosis.first is not None
    assert result.log is not None


def test_a_shrunk_model_is_tried_with_made_up_weights(tried: Callable[..., Launched]) -> None:
    result = tried(asked={"layers": 1, "concurrency": 0})
    assert result.outcome is Outcome.OK
    assert result.layers == 1
    assert "--load-format dummy" in " ".join(result.command)


@pytest.mark.parametrize(
    ("asked", "backend", "other"),
    [
        ("marlin", "triton", True),
        ("flashinfer_cutlass", "FlashInfer CUTLASS", False),
        ("TRITON_ATTN", "triton_attn", False),
        ("auto", "triton", False),
        (None, "triton", False),
        ("triton", None, False),
        ("triton", "flashinfer and triton", False),
    ],
)
def test_what_counts_as_something_else(asked: str | None, backend: str | None, other: bool) -> None:
    used = Used(component="moe_runner", asked=asked, backend=backend, witness="log")
    assert used.substituted is other


def test_kernels_that_ran_count_more_than_what_was_said(
    planned: Callable[..., Plan], tmp_path: Path, home: Home
) -> None:
    model = str(fake_model(tmp_path / "model"))
    plan = planned({"model": model, "backends": {"moe_runner": "marlin"}})
    with launched(plan, home, lambda _: None) as server:
        (said,) = used_backends(server)
        (ran,) = used_backends(server, ["fused_moe_kernel", "void at::native::vectorized_elementwise_kernel"])
    assert (said.backend, said.witness, said.substituted) == ("marlin", "log", False)
    assert (ran.backend, ran.witness, ran.substituted) == ("triton", "kernels", True)


def test_a_shrunk_model_keeps_each_kind_of_layer(tmp_path: Path, home: Home) -> None:
    model = fake_model(tmp_path / "model")
    config = json.loads((model / "config.json").read_text("utf-8"))
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 6
    config |= {"num_hidden_layers": 24, "layer_types": kinds, "hidden_size": 4096}
    (model / "config.json").write_text(json.dumps({"text_config": config, "architectures": ["A"]}), "utf-8")
    with pytest.raises(ToolError, match="no tokenizer"):
        shrunk(model, 2, home)
    (model / "tokenizer.json").write_text("{}", encoding="utf-8")
    made = shrunk(model, 2, home)
    small = json.loads((made.folder / "config.json").read_text("utf-8"))
    assert small["text_config"]["layer_types"] == ["linear_attention", "full_attention"]
    assert small["text_config"]["hidden_size"] == 4096
    assert small["assay_shrunk"].startswith("2 of 24 layers")
    assert shrunk(model, 2, home).folder == made.folder


QWEN = {
    "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4,
    "head_dim": 128, "num_experts": 128, "moe_intermediate_size": 1536, "intermediate_size": 12288,
    "vocab_size": 151936, "max_position_embeddings": 40960,
}  # fmt: skip
"""The published config of Qwen3-235B-A22B, of which 235 thousand million parameters are told."""


def test_weights_and_cache_are_counted_from_the_config() -> None:
    plain = estimate(QWEN, ServerSettings(model="m"), 96 << 30)
    assert plain.weights / 2 / 1e9 == pytest.approx(235.1, abs=0.1)
    assert plain.cache_per_token == 94 * 2 * 4 * 128 * 2
    assert plain.fits is False
    four = estimate(QWEN, ServerSettings(model="m", tensor_parallel=4, quantisation="nvfp4"), 96 << 30)
    assert four.fits is True
    assert four.cache_per_token == 94 * 2 * 1 * 128 * 2
    assert estimate(QWEN, ServerSettings(model="m"), None).fits is None
    long = ServerSettings(model="m", tensor_parallel=4, quantisation="nvfp4", context_length=4_000_000)
    assert "ask for a shorter context" in estimate(QWEN, long, 96 << 30).why
    with pytest.raises(ToolError, match="nothing can be counted"):
        estimate({"hidden_size": "x"}, ServerSettings(model="m"), None)
    with pytest.raises(ToolError, match="nothing can be counted"):
        estimate({**QWEN, "hidden_size": 10**400}, ServerSettings(model="m"), None)


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [
        ({"quant_method": "mxfp8"}, 8.25),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8.1),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, 4.5),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": None}
                },
            },
            4.25,
        ),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}}, 8.25),
        ({"quant_method": "of tomorrow"}, 16.0),
    ],
)
def test_the_bits_of_a_weight_come_from_the_scheme_that_the_config_tells(
    scheme: dict[str, object], bits: float
) -> None:
    plain = estimate(QWEN, ServerSettings(model="m"), None).weights
    unquantised = estimate({**QWEN, "vocab_size": 0}, ServerSettings(model="m"), None).weights
    found = estimate({**QWEN, "quantization_config": scheme}, ServerSettings(model="m"), None).weights
    assert found == pytest.approx(plain - unquantised + unquantised * bits / 16, rel=0.003)


@pytest.mark.parametrize(
    ("more", "tokens"),
    [
        ({}, 40960),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 163840),
        ({"rope_scaling": {"factor": 1e308}}, None),
        ({"rope_scaling": [4]}, 40960),
        ({"max_position_embeddings": "many"}, None),
    ],
)
def test_the_longest_request_is_told_by_the_config(
    more: dict[str, Any], tokens: int | None, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**QWEN, **more}), encoding="utf-8")
    assert longest(ServerSettings(model=str(tmp_path))) == tokens
    assert longest(ServerSettings(model=str(tmp_path), context_length=99)) == 99
    assert longest(ServerSettings(model="a/name")) is None
    replaced = {"larch-overrides": '{"rope_scaling": {"factor": 4.0}}'}
    assert longest(ServerSettings(model=str(tmp_path), options=replaced)) is None


def test_a_plan_can_be_had_again(planned: Callable[..., Plan]) -> None:
    one, other = planned({}), planned({})
    assert replace(one) == other


def ran(number: int, outcome: str, pairs: dict[str, str], **more: Any) -> Ran:
    return Ran(f"c{number}", number, pairs, {"outcome": outcome, "because": "so", "used": [], **more})


def failure(kind: str, component: str | None = None) -> dict[str, Any]:
    return {"diagnosis": {"component": component, "cause": {"kind": kind, "certain": True}}}


def test_what_shares_the_cause_of_a_failure_is_not_launched() -> None:
    good = ran(0, "ok", {"attention": "a", "moe": "x"})
    bad = ran(1, "import_failed", {"attention": "b", "moe": "x"}, failure=failure("dependency"))
    assert blamed(bad, [good, bad]) == {"attention": "b"}
    assert spared({"attention": "b", "moe": "y"}, [good, bad]) == "attention b: import failed, so"
    assert spared({"attention": "a", "moe": "y"}, [good, bad]) is None
    assert spared({"attention": "b", "moe": "y"}, [bad]) is None, "alone it does not tell which of the two"
    full = ran(1, "out_of_memory", {"attention": "b", "moe": "x"}, failure=failure("memory"))
    assert spared({"attention": "c", "moe": "x"}, [full]) == "whatever backend: out of memory, so"
    known = ran(1, "unsupported", {"attention": "b", "moe": "x"}, failure=failure("architecture", "moe"))
    assert blamed(known, [known]) == {"moe": "x"}
    late = ran(1, "start_timeout", {"attention": "b", "moe": "x"})
    assert spared({"attention": "b", "moe": "x"}, [good, late]) is None


def raised(line: int, message: str = "no 7", signature: str | None = None) -> dict[str, Any]:
    first = {"error": "ValueError", "message": message, "frames": [{"file": "a.py", "line": line}]}
    cause = {"kind": "dependency", "certain": True, "signature": signature}
    return {"diagnosis": {"component": None, "first": first, "cause": cause}}


def test_what_fails_in_the_same_way_without_a_backend_is_not_blamed_on_it() -> None:
    plain = ran(0, "start_failed", {}, failure=raised(3))
    alike = ran(1, "start_failed", {"moe": "x"}, failure=raised(3, "no 8"))
    other = ran(2, "start_failed", {"moe": "y"}, failure=raised(4))
    assert blamed(alike, [plain, alike]) is None
    assert blamed(other, [plain, alike, other]) == {"moe": "y"}
    silent = [ran(n, "start_failed", pairs) for n, pairs in enumerate([{}, {"moe": "x"}])]
    assert blamed(silent[1], silent) is None
    good = ran(3, "ok", {"attention": "b"})
    assert blamed(alike, [plain, alike, good]) is None, "two things are otherwise where it went well"
    near = ran(4, "ok", {"attention": "b", "moe": "z"})
    both = ran(5, "start_failed", {"attention": "b", "moe": "x"}, failure=raised(5))
    assert blamed(both, [plain, alike, near, both]) == {"moe": "x"}


def test_what_is_likely_to_share_a_cause_is_launched_last() -> None:
    plain = ran(0, "start_failed", {}, failure=raised(3))
    assert not doubted({"moe": "y"}, [plain])
    made = [plain, ran(1, "start_failed", {"moe": "x"}, failure=raised(3))]
    assert doubted({"moe": "y"}, made)
    assert spared({"moe": "y"}, made) is None, "it is likely, and not shown"
    assert not doubted({"attention": "b"}, made)
    assert not doubted({"attention": "b", "moe": "y"}, made)
    assert not doubted({"moe": "y"}, [plain, ran(1, "start_failed", {"moe": "x"}, failure=raised(4))])
    pair = ran(0, "crashed", {"attention": "a", "moe": "x"}, failure=raised(3))
    assert spared(pair.pairs, [pair]) == "once is enough: crashed, so"


def test_combinations_begin_with_those_that_differ_least() -> None:
    made = grid({"a": ["1", "2"], "b": ["x", "y"]})
    assert made == [{"a": "1", "b": "x"}, {"a": "1", "b": "y"}, {"a": "2", "b": "x"}, {"a": "2", "b": "y"}]
    assert grid({}) == [{}]


def measured(number: int, attention: str, output: float) -> Ran:
    """A launch that was right, and how many tokens a second it gave to 4 and to 8 at a time."""
    cells = [
        {"concurrency": level, "input": 64, "output": 16, "prompts": 20, "warmup": False, "outcome": "ok",
         "refused": [], "speculative": False,
         "figures": {"output_throughput": {"value": output * level, "unit": "tok/s"}}}
        for level in (4, 8)
    ]  # fmt: skip
    return ran(number, "ok", {"attention": attention}, benchmark={"itl": "token", "cells": cells})


def test_the_best_is_told_with_its_interval_over_launches() -> None:
    made = [measured(2 * turn + 1, "a", 100.0 + turn) for turn in range(3)]
    made += [measured(2 * turn + 2, "b", 120.0 + turn) for turn in range(3)]
    bad = ran(9, "wrong", {"attention": "c"})
    found = best([*made, bad])
    assert found is not None
    assert found.ran.pairs == {"attention": "b"}
    assert found.because.startswith(
        "measured, most output at c=8; against attention=a: 19.8 % more output (95 %: "
    )
    assert [one[:20] for one in found.loads] == ["c=4 64+16: attention", "c=8 64+16: attention"]
    (other,) = found.others
    assert other.startswith("attention=a: 16.5 % less output (95 %: -")
    assert "3 launches, paired t" in other
    again = ran(10, "stress_failed", {"attention": "b"})
    once = best([*made, again])
    assert once is not None
    assert once.ran.pairs == {"attention": "a"}, "what failed once is not recommended"
    assert best([bad]) is None


def test_of_answers_no_more_is_told_than_was_asked() -> None:
    def told(*stages: tuple[str, str]) -> Best:
        checked = {"stages": [{"name": name, "outcome": outcome} for name, outcome in stages]}
        found = best([ran(0, "ok", {"attention": "a"}, checked=checked if stages else None)])
        assert found is not None
        return found

    assert told().because == "it served, its answers were not checked"
    assert not told().checked
    alone = told(("alone", "ok"), ("paired", "ok"), ("oracle", "not_run"))
    assert alone.because.endswith("whether they are right was not asked")
    assert alone.checked
    assert told(("alone", "ok"), ("oracle", "ok")).because == "it served, and answered as its reference did"


def others(given: tuple[str, ...], options: dict[str, str]) -> list[str]:
    """Options with their values, but for those that are given."""
    return [word for option, value in options.items() if option not in given for word in (option, value)]


@pytest.fixture
def serves(tmp_path: Path) -> Callable[..., list[str]]:
    """``agent serve`` of a fake that behaves so, in words."""

    def words(*more: str, **behaviour: Any) -> list[str]:
        site, model = fake_engine(tmp_path / "site"), fake_model(tmp_path / "model", **behaviour)
        where = {"-e": str(site), "--python": sys.executable, "--site": str(site), "--model": str(model)}
        return ["serve", *others(more, where), "--cpu", *more]

    return words


@pytest.fixture
def checks(serves: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """``agent serve --check``, likewise."""
    few = {"--rounds": "1", "--questions": "0"}
    return lambda *more, **how: serves("--check", *others(more, few), *more, **how)


@pytest.fixture
def trying(checks: Callable[..., list[str]], home: Home) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same, run."""
    return lambda *more, **behaviour: agent(*checks(*more, **behaviour), home=home.root)


def test_of_several_launches_what_holds_for_each_is_told() -> None:
    def checked(number: int, right: float | None, **more: float) -> Ran:
        figures = {} if right is None else {"questions": 8.0, "right": right, **more}
        stages = [{"name": "paired", "outcome": "ok", "figures": figures}]
        return ran(number, "ok", {}, checked={"stages": stages})

    some, few, none = checked(0, 7.0), checked(1, 2.0), checked(2, None)
    assert answers([some, few]).endswith("; beside no reference 2 of 8 questions were right")
    assert answers([some, none, few]).endswith("; whether they are right was not asked")
    assert answers([some, ran(3, "wrong", {})]).endswith("7 of 8 questions were right")
    beside = checked(4, 7.0, reference_right=6.0)
    assert answers([beside]) == "it served, and answered questions as well as its reference did"


def test_settings_are_tried_on_record_and_can_be_gone_on_with(
    trying: Callable[..., subprocess.CompletedProcess[str]], home: Home
) -> None:
    done = trying(
        "--each", "attention=triton,fa3", "--each", "moe_runner=triton,marlin", "--questions", "8", "--json",
        used="triton",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    told = {tuple(one["asked"].values()): one["outcome"] for one in document["launches"]}
    assert told == {("triton", "triton"): "ok", ("triton", "marlin"): "substituted", ("fa3", "triton"): "ok"}
    assert document["launches"][2]["checked"]["stages"][2]["name"] == "paired"
    advised = document["recommendation"]
    assert advised["tested"]
    assert "--attention-backend triton --moe-runner-backend triton" in advised["command"]
    assert advised["alternatives"] == [
        "attention=fa3, moe_runner=triton: it served, and answered as its reference did"
    ]
    assert document["findings"] == [], "what did not run on a GPU is no finding"
    again = agent("replay", document["transcript"], "--verify", home=home.root)
    assert again.returncode == 0, again.stderr


def test_options_of_the_engine_are_tried_like_backends(
    trying: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    asked = [
        "--each", "attention=triton", "--option", "max-running-requests=4",
        "--vary", "disable-cuda-graph=off,true", "--concurrency", "0",
    ]  # fmt: skip
    done = trying(*asked, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [one["options"] for one in document["launches"]] == [
        {"max-running-requests": "4"}, {"max-running-requests": "4", "disable-cuda-graph": "True"},
    ]  # fmt: skip
    assert [" --disable-cuda-graph" in " ".join(one["command"]) for one in document["launches"]] == [
        False, True,
    ]  # fmt: skip
    assert document["recommendation"]["alternatives"] == [
        "attention=triton, disable-cuda-graph=true: it served, its answers were not checked"
    ]
    unmeasured = trying(*asked, "--loads", "1")
    assert unmeasured.returncode == 2
    assert "give --concurrency as well" in unmeasured.stderr
    wrong = trying(*asked, "--vary", "no-such=1,2")
    assert wrong.returncode == 2
    assert "does not know --no-such" in wrong.stderr
    assert "starts on port" not in wrong.stderr


def test_a_folder_is_named_from_where_the_person_is_and_no_model_is_loaded_for_loads_that_cannot_be_made(
    checks: Callable[..., list[str]], tmp_path: Path, home: Home
) -> None:
    command = [*START, *checks("--each", "attention=triton", "--site", "site", "--model", "model")]
    there = {"env": variables(home.root), "cwd": tmp_path, "capture_output": True, "text": True}
    done = subprocess.run([*command, "--concurrency", "0"], check=False, **there)
    assert done.returncode == 0, done.stdout
    lacking = subprocess.run([*command, "--loads", "1"], check=False, **there)
    assert "is not in site" in lacking.stdout
    assert "starts on port" not in lacking.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--option", "tp=2"], "--tp is a setting of its own; give --tp instead"),
        (["--vary", "tp-size=1,2"], "--tp-size is a setting of its own; give --tp instead"),
        (["--option", "mem-fraction-static=0.5"], "give --memory-fraction instead"),
        (["--", "--tp-size", "2"], "--tp-size is a setting of its own; give --tp before the --"),
        (
            ["--option", "max-running-requests=4", "--vary", "max_running_requests=1,2"],
            "--option and --vary both set max-running-requests; give all its values to --vary",
        ),
        (["-b", "attention=triton", "--each", "attention=fa3"], "--backend and --each both set attention"),
        (["--attention", "triton", "--each", "attention=fa3"], "--attention and --each both set attention"),
        (["--option", "a=1", "--option", "a=2"], "--option gives a twice, 1 and 2"),
        (["--long", "3"], "--long is for what is measured; give --loads too"),
        (["--keep"], "--keep is for a server that stays; leave --check out"),
        (["--gpu", "0"], "--gpu names a GPU, and with --cpu none is used"),
        (
            ["--layers", "2", "--load-format", "auto"],
            "--layers makes the weights up; leave --load-format out",
        ),
        (
            ["--model", "/no/such"],
            "--model /no/such: there is no such file or folder, nor is it a name on a hub",
        ),
        (["--dtype", "b f"], "--dtype, 'b f': expected one word"),
        (["--memory-fraction", "nan"], "nan is no number that ends"),
        (["--python", "/no/such"], "'/no/such' does not exist"),
        (["--script", "/no/such/x.sh"], "--script /no/such/x.sh cannot be written"),
    ],
)
def test_what_would_be_overridden_ignored_or_noticed_late_is_refused(
    more: list[str],
    says: str,
    checks: Callable[..., list[str]],
    home: Home,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(checks(*more)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert says in told.err.splitlines()[-1]
    assert "starts on port" not in told.err
    assert list(home.transcripts.glob("*")) == []


def test_options_of_a_check_are_not_ignored_without_one(
    serves: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(serves("--rounds", "2")) == 2
    assert "give --check too" in capsys.readouterr().err


def test_one_that_is_kept_runs_on_until_it_is_stopped(serves: Callable[..., list[str]], home: Home) -> None:
    failed = agent(*serves("--keep", crash="import"), home=home.root)
    assert failed.returncode == 1, failed.stderr
    assert "import_failed" in failed.stdout
    try:
        kept = agent(*serves("--keep", "--json"), home=home.root)
        assert kept.returncode == 0, kept.stderr
        server = json.loads(kept.stdout)
        listed = json.loads(agent("serve", "list", "--json", home=home.root).stdout)
        assert [one["name"] for one in listed["servers"]] == [server["name"]]
        stopped = agent("serve", "stop", server["name"][:6], home=home.root)
        assert (stopped.returncode, stopped.stdout) == (0, f"ended {server['name']}\n")
    finally:
        agent("serve", "stop", "--all", home=home.root)
    assert agent("serve", "list", home=home.root).stdout == "no server of ours runs\n"
    left = {path.name for path in (home.root / "servers").rglob("*") if path.is_file()}
    assert left == {"server.log"}


def test_what_made_no_difference_to_a_failure_waits_until_all_else_was_launched(
    trying: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = trying(
        "--each", "attention=triton,fa3", "--each", "moe_runner=triton,marlin,flashinfer_cutlass",
        "--concurrency", "0", "--json", needs="fa3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [tuple(one["asked"].values()) for one in document["launches"]] == [
        ("triton", "triton"), ("triton", "marlin"), ("fa3", "triton"), ("fa3", "marlin"),
        ("fa3", "flashinfer_cutlass"),
    ]  # fmt: skip
    assert document["summary"].startswith(
        "3 of 5 launches went well (it served, its answers were not checked): "
    )


def test_what_was_killed_while_a_server_started_is_gone_on_with(
    checks: Callable[..., list[str]], tmp_path: Path, home: Home
) -> None:
    command = checks("--each", "attention=triton,fa3")
    with subprocess.Popen([*START, *command], env=variables(home.root), stderr=subprocess.PIPE) as started:
        assert started.stderr is not None
        seen = next((line for line in iter(started.stderr.readline, b"") if b"starts on port" in line), None)
        started.kill()
    assert seen is not None
    lacking = agent("resume", "--last", home=home.root)
    assert lacking.returncode == 4, "without --run nothing is launched"
    done = agent(
        "resume",
        "--last",
        "--run",
        "servers",
        "--python",
        sys.executable,
        "--site",
        str(tmp_path / "site"),
        home=home.root,
    )
    assert done.returncode == 0, done.stderr
    assert (
        "attention=fa3: it served, and answered as its reference did"
        in agent("report", "--last", "--all", home=home.root).stdout
    )
    assert list((home.root / "servers").glob("*/record.json")) == [], "no server is left"
