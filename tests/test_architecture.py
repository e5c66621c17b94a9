"""Names of architectures and GPUs, and which compiler targets run where."""

from __future__ import annotations

import pytest

from memory.architecture import (
    Architecture,
    ArchitectureError,
    find_gpus,
    gpus,
    images,
    known_architectures,
    parse_architecture,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sm120", "sm120"),
        ("SM_120", "sm120"),
        ("sm_120a", "sm120a"),
        ("sm-120", "sm120"),
        ("SM12.0", "sm120"),
        ("12.0", "sm120"),
        ("12.0a", "sm120a"),
        ("compute_120", "sm120"),
        ("compute capability 9.0", "sm90"),
        ("100f", "sm100f"),
        ("90", "sm90"),
        ("sm_101", "sm110"),
        ("RTX PRO 6000", "sm120"),
        ("rtx pro 6000 blackwell", "sm120"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "sm120"),
        ("5090", "sm120"),
        ("rtx5090", "sm120"),
        ("NVIDIA GeForce RTX 5090", "sm120"),
        ("DGX Spark", "sm121"),
        ("GB10", "sm121"),
        ("B200", "sm100"),
        ("GB200", "sm100"),
        ("B300", "sm103"),
        ("GB300", "sm103"),
        ("Blackwell Ultra", "sm103"),
        ("H100", "sm90"),
        ("NVIDIA H100 80GB HBM3", "sm90"),
        ("H200", "sm90"),
        ("h20", "sm90"),
        ("hopper", "sm90"),
        ("L40S", "sm89"),
        ("4090", "sm89"),
        ("RTX 6000 Ada", "sm89"),
        ("NVIDIA RTX 6000 Ada Generation", "sm89"),
        ("NVIDIA A100-SXM4-80GB", "sm80"),
        ("3090", "sm86"),
        ("A10", "sm86"),
        ("L4", "sm89"),
        ("Tesla V100-SXM2-32GB", "sm70"),
        ("Tesla T4", "sm75"),
        ("Quadro RTX 6000", "sm75"),
        ("Jetson AGX Thor", "sm110"),
        ("Jetson Orin", "sm87"),
    ],
)
def test_names_are_understood(text: str, name: str) -> None:
    assert parse_architecture(text).name == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RTX 6000", {"sm75", "sm89", "sm120"}),
        ("blackwell", {"sm100", "sm103", "sm110", "sm120", "sm121"}),
        ("RTX 5000", {"sm89", "sm120"}),
        ("Grace Blackwell", {"sm100", "sm103", "sm121"}),
    ],
)
def test_a_name_that_fits_several_is_listed_not_guessed(text: str, expected: set[str]) -> None:
    with pytest.raises(ArchitectureError) as caught:
        parse_architecture(text)
    assert {gpu.architecture.name for gpu in caught.value.candidates} == expected
    assert all(name in str(caught.value) for name in expected)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "  ", "sm999", "sm121z", "MI300X", "13.7", "gtx", "120 sm", "nvidia"])
def test_unknown_names_say_what_is_accepted(text: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        parse_architecture(text)
    assert "sm120" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_properties() -> None:
    arch = Architecture(12, 0, "a")
    assert (arch.name, arch.number, arch.capability) == ("sm120a", 120, (12, 0))
    assert arch.base == Architecture(12, 0)
    assert Architecture(12, 0).platform == "x86_64"
    assert Architecture(12, 1).platform == "aarch64"
    assert Architecture(12, 1).family == Architecture(12, 0)
    assert Architecture(9, 0).family is None
    assert sorted([Architecture(12, 0), Architecture(8, 9)])[0].number == 89


def numbers(target: str) -> set[int]:
    return {arch.number for arch in images(target)}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("100a", {100}),
        ("100f", {100, 103}),
        ("103f", {103}),
        ("sm_120a", {120}),
        ("120f", {120, 121}),
        ("121f", {121}),
        ("80", {80, 86, 89}),
        ("86", {86, 89}),
        ("87", {87}),
        ("90", {90}),
        ("90a", {90}),
        ("90f", set()),
        ("10.0a", {100}),
        ("120", {120, 121}),
        ("compute_120f", {120, 121}),
        ("compute_100", {100, 103, 110, 120, 121}),
    ],
)
def test_which_targets_run_where(target: str, expected: set[int]) -> None:
    assert numbers(target) == expected


def test_suffixed_architecture_runs_what_its_base_runs() -> None:
    assert Architecture(12, 0, "a").runs("120f")
    assert not Architecture(12, 0).runs("100f")


def test_what_is_no_target_is_refused() -> None:
    with pytest.raises(ArchitectureError, match="no compiler target"):
        images("native")


def test_every_gpu_and_alias_of_the_table_leads_back_to_it() -> None:
    known = set(known_architectures())
    for gpu in gpus():
        assert gpu.architecture in known
        assert find_gpus(gpu.name) == (gpu,)
        for alias in gpu.aliases:
            assert gpu in find_gpus(alias), alias


def test_products_with_their_own_cpu_state_its_platform() -> None:
    assert {gpu.platform for gpu in find_gpus("GB200")} == {"aarch64"}
    assert {gpu.platform for gpu in find_gpus("B200")} == {"x86_64"}
