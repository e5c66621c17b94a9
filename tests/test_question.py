"""The question's parser: understood, listed or refused, never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from agent.question import NoArchitectureError, QuestionError, parse_question
from agent.words import known_quantisation, words_data


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("qwen3.5 nvfp4 on sm120", {"model": "qwen3.5", "quantisation": "nvfp4", "arch": "sm120"}),
        (
            "What works for nvidia/Qwen3.5-397B-A17B-NVFP4 on 8x RTX PRO 6000?",
            {
                "model": "nvidia/Qwen3.5-397B-A17B-NVFP4",
                "quantisation": "nvfp4",
                "arch": "sm120",
                "gpu": "RTX PRO 6000",
                "gpu_count": 8,
            },
        ),
        (
            "Qwen3.5 397B A17B NVFP4 on two h200 with vllm 0.20.1",
            {
                "model": "Qwen3.5 397B A17B",
                "quantisation": "nvfp4",
                "arch": "sm90",
                "gpu_count": 2,
                "engine": "vllm",
                "packages": {"vllm": "0.20.1"},
            },
        ),
        (
            "deepseek v3.2 fp8 on 8xB200, sglang 0.5.9 flashinfer 0.6.5",
            {
                "model": "deepseek v3.2",
                "quantisation": "fp8",
                "arch": "sm100",
                "gpu_count": 8,
                "packages": {"sglang": "0.5.9", "flashinfer-python": "0.6.5"},
            },
        ),
        (
            "gpt-oss-120b mxfp4 12.0 sglang==0.5.9",
            {
                "model": "gpt-oss-120b",
                "quantisation": "mxfp4",
                "arch": "sm120",
                "packages": {"sglang": "0.5.9"},
            },
        ),
        ("glm 4.6 fp8 on two DGX Sparks", {"arch": "sm121", "gpu": "DGX Spark", "gpu_count": 2}),
        ("glm 4.6 fp8 on L40S x 4, ep 2", {"model": "glm 4.6", "gpu": "L40S", "gpu_count": 4}),
        ("gemma-2-2b-it on 5090s", {"model": "gemma-2-2b-it", "gpu": "5090", "quantisation": None}),
        ("acme/Tern-R1-W4AFP8 on h200", {"quantisation": "w4afp8"}),
        # awq is a kind of w4a16: both may be said.
        (
            "Mixtral-8x7B awq w4a16 on 4 a100 gpus",
            {"model": "Mixtral-8x7B", "quantisation": "awq", "gpu_count": 4},
        ),
        (
            "qwen nvfp4 with fp8 kv cache on RTX 5090",
            {"model": "qwen", "quantisation": "nvfp4", "arch": "sm120"},
        ),
        ("qwen3.5 fp4 modelopt_fp4 on sm120", {"quantisation": "nvfp4"}),
        (
            "nvfp4 for qwen3.5 on 8 × RTX PRO 6000 Blackwell (sm120) cuda 12.8",
            {"arch": "sm120", "gpu_count": 8},
        ),
        ("qwen3.5 bf16 on 12.0", {"quantisation": "bf16", "arch": "sm120"}),
        ("qwen3.5 nvfp4 on DGX Spark", {"arch": "sm121"}),
        ("qwen3.5 nvfp4 on blackwell sm103", {"arch": "sm103"}),
        ("fastest backend for Qwen3.5 NVFP4 at 100 tokens on sm100", {"model": "Qwen3.5", "arch": "sm100"}),
        ("on sm120", {"model": None, "quantisation": None, "arch": "sm120"}),
        # People call a consumer's card by its number.
        ("gpt-oss-120b mxfp4 on 2x5090", {"arch": "sm120", "gpu": "5090", "gpu_count": 2}),
        ("llama 3.3 70b bf16 4090", {"model": "llama 3.3 70b", "arch": "sm89"}),
        (
            "Qwen3.5-397B-A17B NVFP4 on RTX PRO 6000 Blackwell Server Edition x8",
            {"model": "Qwen3.5-397B-A17B", "arch": "sm120", "gpu_count": 8},
        ),
        ("minimax-m2 awq on a100 tp 8", {"model": "minimax-m2", "gpu_count": 8}),
        ("qwen3.5 nvfp4 on sm120 --tp=4", {"model": "qwen3.5", "gpu_count": 4}),
        ("qwen3.5 nvfp4 on 8x h200 tp4", {"model": "qwen3.5", "gpu_count": 8}),
        # What is written like an option's value is no model where something else is.
        ("why does birch_fast fail for qwen3.5 nvfp4 on sm120", {"model": "qwen3.5"}),
    ],
)
def test_understood(question: str, expected: dict[str, Any]) -> None:
    target = parse_question(question).model_dump()
    assert {key: target[key] for key in expected} == expected
    assert target["question"] == question


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("", ["empty", "agent investigate"]),
        ("   \n", ["empty"]),
        ("qwen3.5 nvfp4", ["no GPU architecture", "--arch"]),
        ("qwen3.5 fp4 on sm120", ["nvfp4, mxfp4", "name one"]),
        ("qwen3.5 nvpf4 on sm120", ["'nvpf4'", "did you mean nvfp4?"]),
        ("qwen3.5 bitsandbytes on 5090", ["'bitsandbytes' is no quantisation known here", "nvfp4"]),
        ("acme/Tern-20b-GGUF on 5090", ["'gguf'"]),
        ("tern 8-bit on 5090", ["'8bit'"]),
        ("nvfp4 and fp8 qwen on sm90", ["fp8 and nvfp4", "cannot both"]),
        ("Qwen3.5-NVFP4 fp8 on sm90", ["fp8 and nvfp4"]),
        ("qwen3.5 nvfp4 on blackwell", ["sm100", "sm103", "sm120"]),
        ("qwen nvfp4 on blackwell sm90", ["blackwell", "not sm90"]),
        ("h200 llama on sm120", ["sm90 (h200)", "sm120"]),
        ("llama on sm90 and sm120", ["sm90 and sm120"]),
        ("foo on rtx 9999", ["rtx 9999", "sm120"]),
        ("foo on sm999", ["sm999"]),
        ("qwen3.5 nvfp4 on mi300x", ["'mi300x'", "no architecture or GPU", "sm120"]),
        ("qwen3.5 nvfp4 on 5090 and 4090", ["sm120 (5090)", "sm89 (4090)"]),
        ("qwen3.5 nvfp4 on my machine", ["no GPU architecture", "--arch"]),
        ("qwen3.5 nvfp4 on sm120 " + "word " * 2000, ["10023 characters", "at most 2000"]),
        ("sglang vs vllm qwen3 on sm90", ["sglang, vllm"]),
        ("qwen3 on sm90 sglang 0.5.9 sglang 0.5.10", ["0.5.9 and 0.5.10"]),
        ("qwen3 deepseek-v3 on sm90", []),
        ("2x h200 qwen3 on 4 gpus", ["2 and 4"]),
        ("qwen3 on 0 gpus sm90", ["at least 1"]),
    ],
)
def test_refused_in_one_line(question: str, words: list[str]) -> None:
    if not words:
        # Two names side by side read as one name; apart they are two models.
        assert parse_question(question).model == "qwen3 deepseek-v3"
        question, words = "qwen3 or deepseek-v3 on sm90", ["several words could be the model"]
    with pytest.raises(QuestionError) as caught:
        parse_question(question)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_every_default_is_said() -> None:
    assumed = parse_question("something on sm120").assumed
    assert any(text.startswith("engine sglang") for text in assumed)
    assert any("no quantisation" in text for text in assumed)
    assert any("no model" in text for text in parse_question("nvfp4 on sm120").assumed)
    assert any("KV cache" in text for text in parse_question("qwen nvfp4 fp8 kv-cache sm120").assumed)
    assert any("cuda 12.8" in text for text in parse_question("qwen nvfp4 sm120 cuda 12.8").assumed)
    assert any('"tp 8"' in text for text in parse_question("qwen3.5 nvfp4 tp 8 on sm120").assumed)
    assert any("'birch_fast'" in text for text in parse_question("birch_fast or qwen3.5 on sm120").assumed)
    assert any("'hello'" in text for text in parse_question("hello and qwen3.5 nvfp4 sm120").assumed)
    assert parse_question("qwen3.5 nvfp4 sm120 with sglang").assumed == ()


def test_options_fill_in_and_must_agree() -> None:
    assert parse_question("qwen3.5 nvfp4", arch="RTX 5090").arch == "sm120"
    assert parse_question("qwen3.5 nvfp4 on blackwell", arch="sm120").arch == "sm120"
    assert parse_question("qwen3.5 nvfp4 sm120", engine="vllm").engine == "vllm"
    with pytest.raises(QuestionError, match="sm120 and sm90"):
        parse_question("qwen3.5 nvfp4 on sm120", arch="sm90")
    with pytest.raises(QuestionError, match="several engines"):
        parse_question("qwen3.5 sglang sm120", engine="vllm")
    with pytest.raises(QuestionError, match="unknown engine"):
        parse_question("qwen3.5 sm120", engine="nothing")
    with pytest.raises(QuestionError, match="no architecture or GPU"):
        parse_question("qwen3.5", arch="potato")


def test_packages_of_options_must_agree_and_name_the_engine() -> None:
    question = "qwen3.5 nvfp4 on sm120"
    assert parse_question(question, requirements=["vllm==0.20.1"]).engine == "vllm"
    assert parse_question(question, requirements=["vllm"]).engine == "vllm"
    assert parse_question(question, requirements=["flashinfer_python==0.6.5"]).engine == "sglang"
    # What the question did not say is not put into its mouth.
    assert parse_question(question, requirements=["sglang==0.5.9"]).packages == {}
    with pytest.raises(QuestionError, match=r"sglang is named in two versions, 0\.5\.9 and 0\.5\.10"):
        parse_question(f"{question} sglang 0.5.9", requirements=["sglang==0.5.10"])
    with pytest.raises(QuestionError, match=r"flashinfer-python is named in two versions"):
        parse_question(f"{question} flashinfer 0.6.5", requirements=["FlashInfer_Python==0.6.4"])
    with pytest.raises(QuestionError, match="several engines"):
        parse_question(f"{question} sglang", requirements=["vllm==0.20.1"])


def test_the_only_engine_of_an_environment_is_meant() -> None:
    question = "qwen3.5 nvfp4 on sm120"
    target = parse_question(question, installed={"torch": "2.9.1", "vllm": "0.20.1"})
    assert target.engine == "vllm"
    assert any("vllm" in text and "this environment" in text for text in target.assumed)
    assert parse_question(question, installed={"sglang": "0.5.9", "vllm": "0.20.1"}).engine == "sglang"
    assert parse_question(f"{question} sglang", installed={"vllm": "0.20.1"}).engine == "sglang"


def test_a_version_in_the_question_is_the_one_of_the_environment() -> None:
    question = "qwen3.5 nvfp4 on sm120, sglang 0.5.10, torch 2.9.1"
    parse_question(question, installed={"sglang": "0.5.10", "torch": "2.9.1+cu130"})
    with pytest.raises(QuestionError, match=r"sglang 0\.5\.10 is named, but the environment has 0\.5\.9"):
        parse_question(question, installed={"sglang": "0.5.9"})


def test_a_quantisation_as_an_option_is_known_or_refused() -> None:
    assert known_quantisation("NV-FP4") == "nvfp4"
    with pytest.raises(QuestionError, match="unknown quantisation 'nonsense'; expected one of nvfp4"):
        known_quantisation("nonsense")
    with pytest.raises(QuestionError, match="nvfp4, mxfp4"):
        known_quantisation("fp4")


def test_the_gpu_of_this_machine_is_an_assumption_only_where_it_is_one() -> None:
    target = parse_question("qwen3.5 nvfp4", local_archs=["sm90", "sm90"])
    assert target.arch == "sm90"
    assert any("this machine" in text for text in target.assumed)
    with pytest.raises(NoArchitectureError, match="sm90, sm120"):
        parse_question("qwen3.5 nvfp4", local_archs=["sm90", "sm120"])
    assert parse_question("qwen3.5 nvfp4 sm120", local_archs=["sm90"]).arch == "sm120"


def test_every_quantisation_is_found_by_each_of_its_words() -> None:
    for name, entry in words_data()["quantisation"].items():
        for word in entry["words"]:
            for spelled in (word, word.upper(), word.replace(" ", "-"), word.replace(" ", "_")):
                target = parse_question(f"somemodel {spelled} on sm100")
                assert (target.quantisation, target.model) == (name, "somemodel"), spelled


def test_strange_text_is_taken_literally() -> None:
    target = parse_question("[bold]x[/bold] \x1b[31m \u202eevil sm120")
    assert target.arch == "sm120"
    assert all(text.isprintable() for text in target.assumed)
    with pytest.raises(QuestionError) as caught:
        parse_question("a-\x1b[31m or b-\u202e on sm120")
    assert str(caught.value).isprintable()
