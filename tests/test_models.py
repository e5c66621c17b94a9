"""From a model's name to the classes that an engine registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.engines.adapter import engine, engines
from tools.engines.models import ModelClass, ModelMatch, find, plain
from tools.source.tree import SourceTree

FIXTURES = Path(__file__).parent / "source_fixtures"


def ask(model: str, style: str = "argparse_style", name: str = "sglang") -> ModelMatch:
    return find(SourceTree(FIXTURES / style, {name: "1.0"}), engine(name), model)


def names(classes: tuple[ModelClass, ...]) -> list[str]:
    return [item.architecture for item in classes]


def test_every_profile_says_how_an_engine_is_started() -> None:
    assert list(engines()) == ["sglang", "vllm"]
    for profile in engines().values():
        assert profile.launch.command
        assert profile.launch.quantisation.startswith("--")
        assert profile.options_under
        assert profile.models_under


@pytest.mark.parametrize(
    "asked",
    ["teapot3.5", "Teapot 3.5", "teapot-3.5", "org/Teapot3.5-397B-A17B-NVFP4", "/models/Teapot3.5-Instruct/"],
)
def test_a_name_finds_its_family_version_kept(asked: str) -> None:
    found = ask(asked)
    assert found.fit == "exact"
    assert sorted(names(found.classes)) == [
        "Teapot3_5ForConditionalGeneration",
        "Teapot3_5MoeForConditionalGeneration",
    ]
    assert names(found.drafts) == ["Teapot3_5ForCausalLMMTP"]
    assert found.drafts[0].draft


def test_active_parameters_in_the_name_put_the_sparse_class_first() -> None:
    assert names(ask("teapot3.5-397b-a17b").classes)[0] == "Teapot3_5MoeForConditionalGeneration"
    assert names(ask("teapot3.5-27b").classes)[0] == "Teapot3_5ForConditionalGeneration"
    assert ask("teapot3.5-397b-a17b-nvfp4").ignored_words == ("397b", "a17b", "nvfp4")


def test_another_version_is_another_model() -> None:
    assert names(ask("teapot3").classes) == ["Teapot3ForCausalLM"]
    assert ask("teapot3").candidates == ()
    assert ask("teapot4").fit == "none"
    # Not the family without a version either: a word that means something was not found.
    assert ask("teapot-whistle").fit == "none"
    assert "TeapotForCausalLM" in ask("teapot4").nearest


def test_a_name_without_version_that_fits_several_is_listed() -> None:
    found = ask("teapot")
    assert found.fit == "several"
    assert found.classes == ()
    assert {"TeapotForCausalLM", "Teapot3ForCausalLM", "Teapot3_5ForConditionalGeneration"} <= set(
        names(found.candidates)
    )
    kettles = ask("kettle")
    assert (kettles.fit, names(kettles.candidates)) == (
        "several",
        ["KettleV2ForCausalLM", "KettleVL2ForCausalLM"],
    )


def test_a_name_that_only_a_comment_says_is_a_mention() -> None:
    found = ask("whistler-7")
    assert found.fit == "mentioned"
    assert found.classes == ()
    assert "KettleV2ForCausalLM" in found.mentions[0].architectures
    assert (found.mentions[0].evidence.file, found.mentions[0].evidence.line) == (
        "sglang/srt/models/kettle.py",
        1,
    )
    assert ask("whistle").fit == "none"  # part of a word is not the word


def test_a_class_name_is_itself() -> None:
    found = ask("teapot3_5moeforconditionalgeneration")
    assert (found.fit, names(found.classes)) == ("exact", ["Teapot3_5MoeForConditionalGeneration"])


def test_evidence_is_the_very_line() -> None:
    for item in ask("teapot3.5-397b-a17b").classes:
        assert item.architecture in item.evidence.text
        assert item.definition is not None
        assert f"class {item.architecture}" in item.definition.text


def test_what_layers_a_class_leads_to() -> None:
    sparse, dense = ask("teapot3.5-397b-a17b").classes
    assert set(sparse.code_for) == {"linear_attention", "mla", "moe"}
    assert set(dense.code_for) == {"linear_attention", "mla"}
    assert sparse.code_for["moe"].text.strip() == "self.experts = FusedMoE()"
    assert ask("teapot3").classes[0].code_for == {}


def test_a_size_alone_is_that_of_a_dense_model() -> None:
    sparse, dense = (item.architecture for item in ask("teapot3.5-397b-a17b").classes)
    alone = ask("teapot3.5 32b nvfp4")
    assert names(alone.classes) == [dense]
    assert sparse in names(alone.candidates)
    assert names(ask("teapot3.5 nvfp4").classes) == [dense, sparse]


def test_a_dictionary_registers_too() -> None:
    found = ask("teapot3.5", "typed_style", "vllm")
    assert names(found.classes) == ["Teapot3_5ForCausalLM"]
    assert names(found.drafts) == ["Teapot3_5MTP"]
    assert (found.classes[0].evidence.file, found.classes[0].evidence.line) == (
        "vllm/model_executor/models/registry.py",
        3,
    )
    assert found.classes[0].definition is not None
    remote = ask("teapot-remote", "typed_style", "vllm")
    assert (remote.fit, remote.classes[0].definition) == ("exact", None)
    assert ask("oldpot", "typed_style", "vllm").fit == "none"  # a version, not a class


@pytest.mark.parametrize("asked", ["", " ", "/", "...", "7b", "-", "\u202e", "(", "a" * 300])
def test_odd_names_fit_nothing(asked: str) -> None:
    found = ask(asked)
    assert found.fit == "none"
    assert found.classes == ()


def test_an_engine_without_models_knows_none(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    assert find(SourceTree(tmp_path, {}), engine("sglang"), "teapot").fit == "none"


def test_plain() -> None:
    assert plain("Qwen3_5") == plain("qwen3.5") == plain("QWEN 3.5") == "qwen35"


@pytest.mark.network
@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_real_names(wheels: Any, version: str) -> None:
    tree = wheels(f"sglang=={version}").tree()

    def family(asked: str) -> list[str]:
        found = find(tree, engine("sglang"), asked)
        assert found.fit == "exact", asked
        for item in (*found.classes, *found.drafts):
            assert item.architecture in item.evidence.text
        return names(found.classes)

    assert {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"} <= set(family("qwen3.5"))
    assert "Moe" in family("Qwen3.5-397B-A17B-NVFP4")[0]
    assert family("kimi-k2.5") == ["KimiK25ForConditionalGeneration"]
    assert family("deepseek v3.2") == ["DeepseekV32ForCausalLM"]
    assert family("gpt-oss") == ["GptOssForCausalLM"]
    assert find(tree, engine("sglang"), "glm-5").fit != "exact"
    traits = {
        item.architecture: set(item.code_for)
        for asked in ("qwen3.5", "deepseek v3.2", "gpt-oss")
        for item in find(tree, engine("sglang"), asked).classes
    }
    assert traits["Qwen3_5MoeForConditionalGeneration"] >= {"moe", "linear_attention", "multimodal"}
    assert traits["DeepseekV32ForCausalLM"] >= {"moe", "mla"}
    assert traits["GptOssForCausalLM"] == {"moe"}
