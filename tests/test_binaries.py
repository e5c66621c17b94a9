"""Compiled libraries: what they hold code for is read from their headers, whatever state they are in."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from compiled import cubin, elf, fat_binary, image, launching, library
from conftest import Wheels

from agent.cli.common import Context
from memory.architecture import parse_architecture
from memory.home import Home
from tools.binaries.cubin import kernels, target_of
from tools.binaries.elf import BinaryError, read_elf
from tools.binaries.emptied import kernels_for
from tools.binaries.fatbin import device_images, walk
from tools.binaries.host import host
from tools.binaries.launched import launched, operator_listing
from tools.binaries.library import mapped, read_compiled
from tools.binaries.listing import listing
from tools.binaries.packing import unpacked
from tools.binaries.work import does_work
from tools.registry import registry
from tools.source.tree import SourceError, SourceTree, is_compiled

EXIT, NOTHING, CONSTANT, STORE, TRAP = 0x94D, 0x918, 0xB82, 0x986, 0x95C


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kernels.so"


def runs(path: Path, *archs: str) -> dict[str, bool | None]:
    compiled = read_compiled(path)
    return {arch: compiled.runs_on(parse_architecture(arch)) for arch in archs}


def test_a_library_lists_each_target_with_its_number_of_images(file: Path) -> None:
    unit = fat_binary(image("sm_80"), image("sm_90a"), image("sm_100f"), image("compute_120"))
    file.write_bytes(library(unit, unit, fat_binary(image("sm_80"))))

    assert listing(file) == [
        "machine code for sm_80, sm_90a, sm_100f; PTX for compute_120",
        "9 images in 3 fat binaries",
        "machine code for sm_80: 3 images",
        "machine code for sm_90a: 2 images",
        "machine code for sm_100f: 2 images",
        "PTX for compute_120: 2 images",
    ]


def test_machine_code_runs_on_its_major_version_and_a_suffix_narrows_it(file: Path) -> None:
    file.write_bytes(library(fat_binary(image("sm_80"), image("sm_90a"), image("sm_120a"))))
    asked = runs(file, "sm80", "sm86", "sm89", "sm90", "sm100", "sm103", "sm120", "sm121")
    assert [arch for arch, answer in asked.items() if answer] == ["sm80", "sm86", "sm89", "sm90", "sm120"]

    file.write_bytes(library(fat_binary(image("sm_100f"), image("sm_120"))))
    asked = runs(file, "sm90", "sm100", "sm103", "sm120", "sm121")
    assert [arch for arch, answer in asked.items() if answer] == ["sm100", "sm103", "sm120", "sm121"]


def test_plain_ptx_is_compiled_for_what_comes_later_and_a_specific_one_is_not(file: Path) -> None:
    file.write_bytes(library(fat_binary(image("compute_90"))))
    assert runs(file, "sm89", "sm90", "sm121") == {"sm89": False, "sm90": True, "sm121": True}
    file.write_bytes(library(fat_binary(image("compute_90a"))))
    assert runs(file, "sm90", "sm121") == {"sm90": True, "sm121": False}


def test_what_is_neither_machine_code_nor_ptx_leaves_the_answer_open(file: Path) -> None:
    file.write_bytes(library(fat_binary(image("sm_80"), image("sm_120", kind=8))))
    assert runs(file, "sm80", "sm120") == {"sm80": True, "sm120": None}


def test_compressed_images_are_read_by_their_headers(file: Path) -> None:
    packed = [image("sm_80", b"x" * 21, flags=0x8000), image("sm_90", b"y" * 9, flags=0x2000)]
    file.write_bytes(library(fat_binary(*packed, image("sm_100a"))))
    with mapped(file) as data:
        found = list(device_images(read_elf(data)))
        assert [(one.target, one.packing.value, one.size, one.whole) for one in found] == [
            ("sm_80", "zstd", 21, 84),
            ("sm_90", "lz4", 9, 36),
            ("sm_100a", "none", 8, 8),
        ]
        assert data[found[0].offset : found[0].offset + 21] == b"x" * 21


def test_units_may_lie_apart_with_zeros_between_them(file: Path) -> None:
    one = fat_binary(image("sm_80"))
    file.write_bytes(library(one + bytes(4096 * 20), one + bytes(8)))
    assert listing(file)[1] == "2 images in 2 fat binaries"


def test_device_code_of_its_own_and_a_bare_fat_binary_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "a.cubin").write_bytes(cubin("sm_103a", {"work": [CONSTANT, STORE, EXIT]}))
    (tmp_path / "a.fatbin").write_bytes(fat_binary(image("sm_90a")))
    assert listing(tmp_path / "a.cubin")[0] == "machine code for sm_103a; no PTX"
    assert listing(tmp_path / "a.fatbin")[0] == "machine code for sm_90a; no PTX"


def test_a_cubin_without_a_note_tells_its_target_by_its_flags() -> None:
    for flags, target in ((0x6006402, "sm_100"), (0x600670A, "sm_103a"), (0x6005004, "sm_80")):
        assert target_of(read_elf(elf([], machine=190, version=8, flags=flags))) == target


def test_a_kernel_that_only_returns_is_a_stub() -> None:
    made = cubin("sm_120a", {"work": [CONSTANT, STORE, EXIT], "stub": [CONSTANT, EXIT, NOTHING, NOTHING]})
    assert [(one.name, one.stub) for one in kernels(read_elf(made))] == [("work", False), ("stub", True)]


def test_a_library_of_the_host_alone_says_so(file: Path) -> None:
    file.write_bytes(library())
    assert listing(file) == ["no device code"]
    assert runs(file, "sm120") == {"sm120": False}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cannot be read"),
        (b"text\n" * 99, "no 64-bit little-endian ELF file"),
        (b"\x7fELF\x01\x01" + bytes(99), "no 64-bit little-endian ELF file"),
        (library(fat_binary(image("sm_80")))[:250], "not within the 250 bytes"),
        (library(b"\x01" * 64), "no fat binary at"),
        (library(bytes(4) + b"\x01" * 60), "no fat binary at"),
        (library(fat_binary(image("sm_80"))[:-8] + bytes(8))[:-1], "do not fit"),
        (library(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 2**63)), "past its section's end"),
        (
            library(fat_binary(image("sm_80")[:8] + struct.pack("<Q", 2**62) + image("sm_80")[16:])),
            "are left",
        ),
        (library(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0) * 100_001), "more than 100000 fat binaries"),
    ],
)
def test_a_damaged_file_is_one_clear_line(file: Path, data: bytes, says: str) -> None:
    file.write_bytes(data)
    with pytest.raises(BinaryError, match=says) as error:
        listing(file)
    assert str(error.value).startswith("kernels.so")
    assert "\n" not in str(error.value)


def test_whatever_the_bytes_the_answer_is_lines_or_an_error(file: Path) -> None:
    chance = random.Random(7)
    whole = [
        library(fat_binary(image("sm_80"), image("sm_120f", b"z" * 40, flags=0x8000), image("compute_90"))),
        cubin("sm_100a", {"work": [STORE, EXIT], "stub": [EXIT]}),
        fat_binary(image("sm_80"), image("sm_90a")),
        launching("mix", {"main": {"sm_90a": [STORE, EXIT], "sm_120a": [TRAP]}, "more": {"sm_90a": [EXIT]}}),
    ]
    odd = (0, 1, 16, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
    for _ in range(600):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.choice((1, 1, 2, 8))):
            at = chance.randrange(len(data))
            data[at : at + 8] = chance.choice(
                (bytes([chance.randrange(256)]), struct.pack("<Q", chance.choice(odd)))
            )
        del data[chance.choice((len(data), len(data), chance.randrange(1, len(data)))) :]
        file.write_bytes(data)
        with contextlib.suppress(BinaryError):
            assert listing(file)
            assert len(list(kernels(read_elf(bytes(data))))) < 4
        with contextlib.suppress(BinaryError):
            operator_listing(file, "mix")


def test_a_pipe_and_a_folder_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nothing"):
        assert not is_compiled(path)
        with pytest.raises(BinaryError):
            read_compiled(path)


@pytest.mark.skipif(
    shutil.which("nvcc") is None, reason="no nvcc here: what it makes is in the test on a wheel"
)
def test_what_the_compiler_makes_is_read_as_it_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void work(float *a) { a[0] = 1; }\n__global__ void stub() {}\n"
    )
    machine, ptx = ("sm_80", "sm_90a", "sm_100f", "sm_120a"), ("compute_90", "compute_120a")
    codes = [f"-gencode=arch=compute_{code.split('_')[1]},code={code}" for code in (*machine, *ptx)]
    subprocess.run(["nvcc", "-fatbin", "-o", "k.fatbin", "k.cu", *codes], cwd=tmp_path, check=True)
    subprocess.run(["nvcc", "-cubin", "-arch=sm_120a", "-o", "k.cubin", "k.cu"], cwd=tmp_path, check=True)

    assert {target for _, target in read_compiled(tmp_path / "k.fatbin").targets} == {*machine, *ptx}
    found = read_elf((tmp_path / "k.cubin").read_bytes())
    assert target_of(found) == "sm_120a"
    assert {("stub" in one.name, one.stub) for one in kernels(found)} == {(True, True), (False, False)}


def test_what_a_host_function_leads_to_is_found_without_names_in_between() -> None:
    data = library(
        functions={
            "_Z8weave_mmv": ["_ZN4mini6launchEv", "malloc"],
            "_ZN4mini6launchEv": ["cudaLaunchKernel"],
            "_Z10weave_blasv": ["cublasLtMatmul"],
        }
    )
    found = host(read_elf(data))
    mm, (blas,) = found.functions("weave_mm"), found.functions("weave_blas")
    assert len(mm) == 1
    assert found.functions("mm") == mm
    assert found.functions("weave") == mm | {blas}
    led = found.leads_to(mm)
    assert led is not None
    assert led.names == {
        "_Z8weave_mmv", "_ZN4mini6launchEv", "malloc", "cudaLaunchKernel",
    }  # fmt: skip
    led = found.leads_to([blas])
    assert led is not None
    assert led.names == {"_Z10weave_blasv", "cublasLtMatmul"}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
def test_calls_in_what_a_compiler_makes_are_followed(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "int cudaLaunchKernel(int); int cublasLtMatmul(int);\n"
        "__attribute__((noinline)) static int inner(int a) { return cudaLaunchKernel(a) + 1; }\n"
        "int weave(int a) { return inner(a) * 3; }\nint blas(int a) { return cublasLtMatmul(a); }\n"
        '__attribute__((visibility("hidden"))) int kept(int a) { return inner(a) - 5; }\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", "k.so", "k.c"], cwd=tmp_path, check=True)
    with mapped(tmp_path / "k.so") as data:
        found = host(read_elf(data))
        led = [found.leads_to(found.functions(name)) for name in ("weave", "blas", "kept")]
        assert ["cudaLaunchKernel" in one.names for one in led if one is not None] == [True, False, True]


WORK, PRINTS = [STORE] * 90, [CONSTANT, 0x343, EXIT]
TRAPS = [STORE, TRAP] * 45


def works(code: dict[str, dict[str, list[int]]], file: Path, *archs: str) -> list[bool | None]:
    file.write_bytes(launching("mix", code))
    found = launched(file, "mix")
    assert found is not None
    assert set(found) == set(code)
    return [does_work(found, parse_architecture(arch)) for arch in archs]


@pytest.mark.parametrize("empty", [PRINTS, TRAPS, [CONSTANT, EXIT]])
def test_kernels_that_were_written_for_another_architecture_are_told(file: Path, empty: list[int]) -> None:
    code = {"main": {"sm_90a": empty, "sm_100a": WORK, "sm_120a": empty}}
    assert works(code, file, "sm90", "sm100", "sm120", "sm103") == [False, True, False, False]


def test_a_small_kernel_that_traps_less_is_not_taken_for_the_better_one(file: Path) -> None:
    code = {"new": {"sm_90a": [TRAP, EXIT], "sm_100a": [*WORK, *[TRAP] * 4]}}
    assert works(code, file, "sm90", "sm100") == [False, True]


@pytest.mark.parametrize(("traps", "answer"), [(2, True), (3, None), (8, None), (9, False)])
def test_a_few_traps_more_prove_nothing(file: Path, traps: int, answer: bool | None) -> None:
    code = {"main": {"sm_80": PRINTS, "sm_90a": WORK, "sm_120a": [*WORK, *[TRAP] * traps]}}
    assert works(code, file, "sm90", "sm120") == [True, answer]


def test_one_kernel_of_several_that_works_is_enough(file: Path) -> None:
    code = {"old": {"sm_90a": WORK, "sm_120a": PRINTS}, "new": {"sm_90a": PRINTS, "sm_120a": WORK}}
    assert works(code, file, "sm90", "sm120") == [True, True]


def test_a_kernel_beside_the_hollow_ones_may_do_the_work_unless_it_is_little(file: Path) -> None:
    main = {"sm_90a": WORK, "sm_120a": PRINTS}
    assert works({"main": main, "other": dict.fromkeys(main, [STORE] * 80)}, file, "sm120") == [None]
    assert works({"main": main, "other": dict.fromkeys(main, [STORE] * 9)}, file, "sm120") == [False]


def test_kernels_that_are_alike_everywhere_work_wherever_there_is_code(file: Path) -> None:
    assert works({"main": {"sm_80": WORK, "sm_90a": WORK}}, file, "sm86", "sm90", "sm120") == [
        True,
        True,
        False,
    ]


def test_an_operator_is_found_by_the_name_that_torch_was_told(file: Path) -> None:
    code = {"main": {"sm_90a": WORK}}
    file.write_bytes(launching("do_the_mixing", code))
    assert launched(file, "mix") is None
    file.write_bytes(launching("do_the_mixing", code, registered="mini::mix.out"))
    found = launched(file, "mix")
    assert found is not None
    assert list(found) == ["main"]
    assert launched(file, "mixing") is not None, "what torch was not told is found by the function's name"


def test_torch_may_be_told_by_a_function_of_the_library(file: Path) -> None:
    code = {"main": {"sm_90a": WORK}, "other": {"sm_90a": WORK}}
    file.write_bytes(launching("do_the_mixing", code, registered="mini::mix", apart="mini::stir"))
    for name, names in (("stir", {"main", "other"}), ("mix", {"main"})):
        found = launched(file, name)
        assert found is not None, name
        assert set(found) == names


def test_one_instance_of_a_template_that_works_is_enough(file: Path) -> None:
    wide, narrow = "_Z6weave_ILi256EEvPf", "_Z6weave_ILi128EEvPf"
    code = {wide: {"sm_90": PRINTS, "sm_100": WORK}, narrow: {"sm_90": WORK[:80], "sm_100": WORK[:80]}}
    assert works(code, file, "sm90", "sm100") == [True, True]
    assert works({wide: code[wide], "_Z3addPf": code[narrow]}, file, "sm90", "sm100") == [None, True]


def test_what_a_template_only_runs_tells_its_instances_apart(file: Path) -> None:
    """One template starts whatever it is made of: that a helper works says nothing about the main kernel."""
    run = "_ZN4mini6kernelINS_5{}INS_3OneEEEEvNT_6ParamsE"
    code = {
        run.format("Weave"): {"sm_90": PRINTS, "sm_100": WORK},
        run.format("Untie"): {"sm_90": WORK[:9], "sm_100": WORK[:9]},
    }
    assert works(code, file, "sm90", "sm100") == [False, True]


def test_kernels_for_other_formats_do_not_hide_a_larger_one_that_works(file: Path) -> None:
    code = {"plain": {"sm_90": WORK, "sm_100": WORK}, "packed": {"sm_100": WORK[:60]}}
    assert works(code, file, "sm90", "sm100") == [True, True]
    assert works({**code, "packed": {"sm_100": WORK * 2}}, file, "sm90", "sm100") == [None, True]


PTX = b".version 8.0\n.target sm_80\n\n.visible .entry main(\n)\n{\n%s}\n"


def test_ptx_is_measured_by_its_instructions(file: Path) -> None:
    work, traps = b"{\nadd.s32 %r1, %r1, 1;\n}\n" * 90, b"trap;\nadd.s32 %r1, %r1, 1;\n" * 45
    for body, answer in ((work, True), (traps, False), (b"ret;\n", False)):
        file.write_bytes(launching("mix", {"main": {"sm_90a": WORK}}, ptx=PTX % body))
        found = launched(file, "mix")
        assert found is not None
        assert does_work(found, parse_architecture("sm90")) is True
        assert does_work(found, parse_architecture("sm120")) is answer


def test_an_operator_is_cited_by_the_kernels_behind_it(file: Path) -> None:
    file.write_bytes(launching("mix", {"main": {"sm_90a": WORK, "sm_120a": TRAPS}}))
    tree = SourceTree(file.parent, {})
    cited = tree.evidence("kernels.so::mix", 1, 2, idiom="")
    assert cited.file == "kernels.so::mix"
    assert cited.text.splitlines() == [
        "mix: kernels that work on sm_90a; hollow on sm_120a",
        "sm_90a 90 instructions, 0 traps; sm_120a 90 instructions, 45 traps, hollow: main",
    ]
    with pytest.raises(SourceError, match="no device code was found behind other"):
        tree.lines("kernels.so::other")


def lz4(data: bytes) -> bytes:
    """The block that holds ``data`` as literals, but for a run of zeros at its end."""
    body = data.rstrip(b"\0")
    run = len(data) - len(body) - 1
    more = [255] * ((len(body) + 1 - 15) // 255) + [(len(body) + 1 - 15) % 255]
    again = [255] * ((run - 4 - 15) // 255) + [(run - 4 - 15) % 255]
    return bytes([0xFF, *more]) + body + b"\0\1\0" + bytes(again)


@pytest.mark.parametrize(
    ("pack", "flags"), [(lz4, 0x2000), (zstandard.ZstdCompressor().compress, 0x8000)], ids=["lz4", "zstd"]
)
def test_compressed_images_are_unpacked_for_their_kernels(pack: Callable[[bytes], bytes], flags: int) -> None:
    whole = cubin("sm_90a", {"main": [STORE, EXIT]}) + bytes(64)
    data = fat_binary(image("sm_90a", pack(whole), flags=flags, whole=len(whole)))
    (found,) = walk(data, 0, len(data))
    assert unpacked(data, found) == whole
    for cut in (1, 9, 40):
        broken = fat_binary(image("sm_90a", pack(whole)[cut:], flags=flags, whole=len(whole)))
        with contextlib.suppress(BinaryError):
            assert unpacked(broken, next(walk(broken, 0, len(broken)))) != whole
    with pytest.raises(BinaryError, match="at most"):
        unpacked(data, replace(found, whole=1 << 40))


def test_kernels_in_compressed_images_are_told(file: Path) -> None:
    file.write_bytes(launching("mix", {"main": {"sm_90a": WORK, "sm_120a": PRINTS}}, pack=lz4))
    found = launched(file, "mix")
    assert found is not None
    assert does_work(found, parse_architecture("sm120")) is False


def test_a_library_is_cited_by_the_lines_of_its_listing(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    path = tmp_path / "kernels" / "ops.abi3.so"
    path.write_bytes(library(fat_binary(image("sm_80"), image("sm_100a"))))
    tree = SourceTree(tmp_path, {"kernels": "1.0"})
    cited = tree.evidence("kernels/ops.abi3.so", 1, 2, idiom="no code")
    assert cited.text == "machine code for sm_80, sm_100a; no PTX\n2 images in 1 fat binaries"
    assert (cited.package, cited.version) == ("kernels", "1.0")

    path.write_bytes(library(fat_binary(image("sm_80"), image("sm_120a"))))
    assert SourceTree(tmp_path).evidence("kernels/ops.abi3.so", 1, 2, idiom="").sha256 != cited.sha256
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(SourceError, match=r"ops\.abi3\.so.*not within the 200 bytes"):
        SourceTree(tmp_path).lines("kernels/ops.abi3.so")


def test_reading_a_library_gives_its_listing(tmp_path: Path, home: Home) -> None:
    (tmp_path / "ops.so").write_bytes(library(fat_binary(image("sm_90a"))))
    (tmp_path / "kernels-1.0.dist-info").mkdir()
    (tmp_path / "kernels-1.0.dist-info" / "METADATA").write_text("Name: kernels\nVersion: 1.0\n")
    read = registry()["read_source"]
    result = read.run(read.input(environment=str(tmp_path), file="ops.so"), Context(home))
    assert "machine code for sm_90a: 1 images" in result.text


@pytest.mark.network
def test_a_real_wheel_tells_what_its_library_holds(wheels: Wheels) -> None:
    root = wheels("sgl-flash-mla==1.0.0").root
    found = {path.name: read_compiled(path) for path in sorted(root.rglob("*.so"))}
    assert {name: sorted(target for _, target in one.targets) for name, one in found.items()} == {
        "_C_legacy.abi3.so": ["sm_100a", "sm_103a", "sm_107a", "sm_90a"],
        "cuda.abi3.so": ["sm_100a", "sm_103a", "sm_107a"],
    }
    assert [found["cuda.abi3.so"].runs_on(parse_architecture(arch)) for arch in ("sm103", "sm120")] == [
        True,
        False,
    ]


def test_a_cubin_alone_has_kernels_as_one_in_a_library_has(tmp_path: Path) -> None:
    (tmp_path / "weave.cubin").write_bytes(cubin("sm_120a", {"full": [0x7, 0x94D], "hollow": [0x94D]}))
    found = kernels_for(tmp_path / "weave.cubin", parse_architecture("sm120"))
    assert {one.name: one.stub for one in found} == {"full": False, "hollow": True}
    assert kernels_for(tmp_path / "weave.cubin", parse_architecture("sm90")) == []
