"""Discovering an engine's options: each idiom on small packages, then the real engines."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.base import ToolError
from tools.engines.components import chooses_implementation, component_of
from tools.engines.options import Option, backend_options, discover_options
from tools.source.tree import SourceTree, span_sha256

FIXTURES = Path(__file__).parent / "source_fixtures"
STYLES = {"argparse_style": "sglang", "annotated_style": "sglang", "typed_style": "vllm"}


def options(root: Path, engine: str) -> dict[str, Option]:
    return {option.field: option for option in discover_options(tree(root, engine), engine)}


def tree(root: Path, engine: str) -> SourceTree:
    return SourceTree(root, {engine: "1.0"})


def values(option: Option) -> list[str]:
    return [value.value for value in option.values]


def sites(option: Option) -> list[tuple[str, int]]:
    return [(value.evidence.file, value.evidence.line) for value in option.values]


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a fixture package that a test may change."""

    def copy(style: str) -> Path:
        return Path(shutil.copytree(FIXTURES / style, tmp_path / style))

    return copy


def test_parser_calls_give_flag_field_values_and_default() -> None:
    found = options(FIXTURES / "argparse_style", "sglang")
    weave = found["weave_runner_backend"]
    assert (weave.component, weave.flag, weave.default) == ("weave", "--weave-backend", "tightweave")
    assert values(weave) == ["plainweave", "tightweave", "looseweave"]
    # Each on its own line of a list that goes over several.
    assert sites(weave) == [("sglang/srt/knobs.py", line) for line in (11, 12, 14)]
    assert {value.evidence.idiom for value in weave.values} == {"choices-list"}
    assert weave.evidence.idiom == "add-argument"
    assert "--weave-backend" in weave.evidence.text


def test_folding_of_what_choices_are_made_of() -> None:
    found = options(FIXTURES / "argparse_style", "sglang")
    assert values(found["stitch_backend"]) == ["crossstitch", "backstitch", "chainstitch", "hemstitch"]
    assert values(found["thread_count"]) == ["2", "3", "4"]
    assert found["thread_count"].default == 3
    assert values(found["phase_backend"]) == ["coldphase", "warmphase"]
    assert values(found["solver_algorithm"]) == ["auto", "newtonsolver", "bisectsolver"]
    assert values(found["texture_backend"]) == ["smoothtexture", "roughtexture"]
    assert {v.evidence.idiom for v in found["phase_backend"].values} == {"enum"}
    assert not found["phase_backend"].open_set
    # What stands in for a failed import is not what the name means.
    assert values(found["spare_backend"]) == ["firstspare", "secondspare"]


def test_a_list_that_can_grow_is_an_open_set() -> None:
    found = options(FIXTURES / "argparse_style", "sglang")
    assert found["weave_runner_backend"].open_set  # an adder function extends it
    assert found["colour_backend"].open_set  # a local set that a branch adds to
    assert values(found["colour_backend"]) == ["redcolour", "bluecolour"]
    assert not found["stitch_backend"].open_set
    assert not found["texture_backend"].open_set


def test_an_empty_table_is_filled_by_what_registers_into_it() -> None:
    found = options(FIXTURES / "argparse_style", "sglang")["filter_backend"]
    assert values(found) == ["lowfilter", "highfilter"]
    assert {value.evidence.idiom for value in found.values} == {"registry"}
    assert found.open_set
    assert sites(found) == [("sglang/srt/layers/tables.py", line) for line in (15, 21)]


def test_an_enum_that_mirrors_a_list_is_a_second_site() -> None:
    found = options(FIXTURES / "argparse_style", "sglang")
    also = [[(e.file, e.line, e.idiom) for e in v.also] for v in found["weave_runner_backend"].values]
    assert also == [[("sglang/srt/layers/loom.py", line, "enum")] for line in (5, 6, 7)]
    assert all(not v.also for v in found["stitch_backend"].values)


def test_typed_fields_count_only_with_a_flag() -> None:
    found = options(FIXTURES / "argparse_style", "sglang")
    assert values(found["dye_kernel"]) == ["indigo", "madder"]
    assert found["dye_kernel"].default == "madder"
    assert values(found["tension"]) == ["slack", "taut"]
    assert "hidden" not in found


def test_other_programs_deprecated_flags_and_computed_choices_are_no_options() -> None:
    found = options(FIXTURES / "argparse_style", "sglang")
    assert not any("oldweave" in values(option) for option in found.values())
    assert "old_loom_backend" not in found
    assert "simulator_backend" not in found
    assert "mystery_backend" not in found


def test_a_parser_filled_in_plain_functions_is_read_where_no_class_holds_options(tmp_path: Path) -> None:
    folder = tmp_path / "sglang" / "srt"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text('def run(p):\n    p.add_argument("--x-backend", choices=["a1", "a2"])\n')
    assert values(options(tmp_path, "sglang")["x_backend"]) == ["a1", "a2"]


def test_annotated_fields() -> None:
    found = options(FIXTURES / "annotated_style", "sglang")
    weave = found["weave_runner_backend"]
    assert (weave.component, weave.flag, weave.default) == ("weave", "--weave-backend", "tightweave")
    assert values(weave) == ["plainweave", "tightweave", "looseweave"]
    assert sites(weave) == [("sglang/srt/words.py", line) for line in (2, 3, 4)]
    assert weave.open_set
    assert weave.evidence.idiom == "annotated-field"
    assert values(found["fix_backend"]) == ["ironfix", "steelfix", "tinfix"]
    assert not found["fix_backend"].open_set
    # choices stand before the type; both say the same here, the lines tell which was read
    assert sites(found["stage"]) == [("sglang/srt/words.py", line) for line in (13, 14)]
    assert values(found["dye_kernel"]) == ["indigo", "madder"]
    assert (found["dye_kernel"].flag, found["dye_kernel"].default) == ("--dye-kernel", "madder")
    assert values(found["tension"]) == ["slack", "taut"]
    assert found["inner"].flag is None
    assert values(found["finish_backend"]) == ["mattefinish", "glossfinish"]
    assert "unmarked" not in found
    assert "plain" not in found


def test_closed_types() -> None:
    found = options(FIXTURES / "typed_style", "vllm")
    weave = found["weave_backend"]
    assert values(weave) == ["auto", "plainweave", "tightweave"]
    assert sites(weave) == [("vllm/config/loom.py", line) for line in (4, 5, 6)]
    assert {value.evidence.idiom for value in weave.values} == {"literal-alias"}
    assert (weave.component, weave.default, weave.open_set) == ("weave", "plainweave", False)
    assert values(found["dye_backend"]) == ["indigo", "madder"]
    # A member whose value is a class path is called by its name.
    assert values(found["stitch_backend"]) == ["CROSS_STITCH", "CHAIN_STITCH", "NO_STITCH"]
    assert values(found["finish_backend"]) == ["mattefinish", "glossfinish"]
    assert found["finish_backend"].default == "glossfinish"
    assert values(found["steam_backend"]) == ["lowsteam", "highsteam"]
    assert found["loose_backend"].open_set
    assert found["plugin_backend"].open_set
    assert "internal" not in found
    assert "size" not in found


@pytest.mark.parametrize(("style", "engine"), STYLES.items())
def test_every_value_stands_on_its_line_with_its_hash(style: str, engine: str) -> None:
    source = tree(FIXTURES / style, engine)
    found = discover_options(source, engine)
    assert found
    assert_evidence(source, found)


def assert_evidence(source: SourceTree, found: list[Option]) -> None:
    for option in found:
        for value in option.values:
            for evidence in (value.evidence, *value.also):
                line = (
                    (source.root / evidence.file)
                    .read_bytes()
                    .decode("utf-8-sig")
                    .split("\n")[evidence.line - 1]
                )
                assert value.value.lower() in line.lower(), (option.field, value.value, evidence)
                assert evidence.sha256 == span_sha256([line.rstrip("\r")])


@pytest.mark.parametrize(("style", "engine"), STYLES.items())
def test_renaming_all_values_renames_the_result(
    style: str, engine: str, copied: Callable[[str], Path]
) -> None:
    before = options(FIXTURES / style, engine)
    words = {value for option in before.values() for value in values(option) if not value.isdigit()}
    words.discard("auto")  # a word of the language of enums too
    # Both spellings of a member whose value is its name in small letters.
    names = {word: f"zq{index}zq" for index, word in enumerate(sorted(words))}
    root = copied(style)
    for path in root.rglob("*.py"):
        text = path.read_text()
        for word, new in names.items():
            text = re.sub(rf"\b{re.escape(word)}\b", new, text)
            text = re.sub(rf"\b{re.escape(word.upper())}\b(?= = auto)", new.upper(), text)
        path.write_text(text)
    after = options(root, engine)

    def shape(found: dict[str, Option], rename: Callable[[Any], Any]) -> list[object]:
        return [
            (
                option.field,
                option.component,
                option.flag,
                option.open_set,
                rename(option.default),
                [
                    (rename(v.value), v.evidence.file, v.evidence.line, len(v.also))
                    for v in sorted(option.values, key=lambda v: (v.evidence.file, v.evidence.line))
                ],
            )
            for option in found.values()
        ]

    assert shape(after, lambda v: v) == shape(before, lambda v: names.get(v, v))


def test_hostile_files_do_not_stop_it(copied: Callable[[str], Path]) -> None:
    root = copied("argparse_style")
    before = options(root, "sglang")
    folder = root / "sglang" / "srt"
    knobs = folder / "knobs.py"
    knobs.write_bytes(b"\xef\xbb\xbf" + knobs.read_bytes().replace(b"\n", b"\r\n"))
    (folder / "broken.py").write_text("parser.add_argument('--x', choices=[\n")
    (folder / "latin.py").write_bytes(b"# caf\xe9\nchoices = ['\xff']\nfrom x import (\n")
    (folder / "nul.py").write_bytes(b"add_argument\0(")
    (folder / "deep.py").write_text("choices = " + "(" * 5000 + ")" * 5000)
    (folder / "huge.py").write_text("add_argument = [\n" + '    "0123456789abcdef",\n' * 250_000 + "]\n")
    (folder / "loop.py").symlink_to(folder / "loop.py")
    (folder / "up").symlink_to(root)
    after = options(root, "sglang")
    assert {f: (values(o), sites(o)) for f, o in after.items()} == {
        f: (values(o), sites(o)) for f, o in before.items()
    }


def test_definitions_that_go_in_circles_end(tmp_path: Path) -> None:
    folder = tmp_path / "sglang" / "srt"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(
        "from sglang.srt.b import B\nA = B + A\n"
        "class K(K):\n    x: 'X' = K.x\n    def f(p):\n"
        "        p.add_argument('--a-backend', choices=A)\n"
        "        p.add_argument('--b-backend', choices=['one', *g()])\n"
        "        p.add_argument('--x', default=K.x)\n"
        "X = 'X'\ndef g():\n    return g()\n"
    )
    (folder / "b.py").write_text("from sglang.srt.a import A as B\n")
    found = options(tmp_path, "sglang")
    assert list(found) == ["b_backend"]
    assert values(found["b_backend"]) == ["one"]
    assert found["b_backend"].open_set


def test_unknown_or_absent_engine_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="unknown engine 'teapot'; known: sglang, vllm"):
        discover_options(SourceTree(tmp_path, {}), "teapot")
    with pytest.raises(ToolError, match="vllm is not in this environment") as raised:
        discover_options(SourceTree(FIXTURES / "argparse_style", {"sglang": "1.0"}), "vllm")
    assert raised.value.missing


@pytest.mark.parametrize(
    ("flag", "component"),
    [
        ("--fp4-gemm-backend", "fp4_gemm"),
        ("--fp8-gemm-backend", "fp8_gemm"),
        ("--moe-runner-backend", "moe_runner"),
        ("--moe-backend", "moe_runner"),
        ("--attention-backend", "attention"),
        ("--linear-attn-backend", "linear_attention"),
        ("--mamba-backend", "mamba"),
        ("--kv-cache-dtype", "kv_cache"),
        ("--speculative-algorithm", "speculative"),
        ("--moe-a2a-backend", "moe_a2a"),
        ("--backend", "backend"),
        ("--dtype", "dtype"),
        ("fp4_gemm_runner_backend", "fp4_gemm_runner"),
    ],
)
def test_component_is_derived_from_the_flag(flag: str, component: str) -> None:
    assert component_of(flag) == component


def test_backend_options_are_told_by_their_words() -> None:
    assert chooses_implementation("--speculative-algorithm")
    assert chooses_implementation("--dye-kernel")
    assert not chooses_implementation("--load-format")
    found = list(options(FIXTURES / "argparse_style", "sglang").values())
    chosen = {option.field for option in backend_options(found)}
    assert "weave_runner_backend" in chosen
    assert not {"thread_count", "tension"} & chosen


def by_component(found: list[Option]) -> dict[str, Option]:
    return {option.component: option for option in found}


@pytest.mark.network
def test_sglang_059(wheels: Any) -> None:
    source = wheels("sglang==0.5.9").tree()
    found = discover_options(source, "sglang")
    named = by_component(found)
    assert values(named["fp4_gemm"]) == [
        "auto",
        "flashinfer_cudnn",
        "flashinfer_cutlass",
        "flashinfer_trtllm",
    ]
    assert values(named["moe_runner"]) == [
        *("auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm", "flashinfer_cutlass"),
        *("flashinfer_mxfp4", "flashinfer_cutedsl", "cutlass"),
    ]
    assert values(named["attention"]) == [
        *("triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3", "fa4", "flashinfer"),
        *("flashmla", "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave"),
        *("intel_amx", "ascend", "intel_xpu"),
    ]
    assert values(named["fp8_gemm"]) == [
        *("auto", "deep_gemm", "flashinfer_trtllm", "flashinfer_deepgemm", "cutlass", "triton", "aiter"),
    ]
    fp4 = named["fp4_gemm"]
    assert (fp4.flag, fp4.field, fp4.default, fp4.open_set) == (
        *("--fp4-gemm-backend", "fp4_gemm_runner_backend", "flashinfer_cutlass", True),
    )
    assert sites(fp4) == [("sglang/srt/server_args.py", line) for line in (208, 209, 210, 211)]
    assert named["speculative"].flag == "--speculative-algorithm"
    assert named["kv_cache"].flag == "--kv-cache-dtype"
    assert_evidence(source, found)


@pytest.mark.network
def test_sglang_0523(wheels: Any) -> None:
    source = wheels("sglang==0.5.23").tree()
    found = discover_options(source, "sglang")
    named = by_component(found)
    counts = {name: len(named[name].values) for name in ("fp4_gemm", "moe_runner", "attention", "fp8_gemm")}
    assert counts == {"fp4_gemm": 6, "moe_runner": 22, "attention": 25, "fp8_gemm": 9}
    fp4 = named["fp4_gemm"]
    assert (fp4.flag, fp4.field, fp4.default, fp4.open_set) == (
        *("--fp4-gemm-backend", "fp4_gemm_runner_backend", "auto", True),
    )
    assert named["flashinfer_allreduce_fusion"].values  # a Literal with only a help text beside it
    assert_evidence(source, found)


def test_files_made_to_take_forever_do_not(tmp_path: Path) -> None:
    """Each of these took minutes, or the stack, of a reader that tries every way."""
    folder = tmp_path / "sglang" / "srt"
    folder.mkdir(parents=True)
    (folder / "words.py").write_text("register" * 200_000 + "\nclass A(" + "Enum" * 200_000 + "\n")
    (folder / "calls.py").write_text("".join(f"register('w{n}')\n" for n in range(60_000)))
    doubled = "".join(f"N{n + 1} = [*{', *'.join([f'N{n}'] * 30)}]\n" for n in range(7))
    (folder / "doubled.py").write_text(
        f"N0 = ['one']\n{doubled}"
        "P = Q\nQ = P\n"
        "class C(D):\n    pass\nclass D(C):\n    pass\n"
        f"LONG = [{', '.join(repr(f'v{n}') for n in range(40_000))}]\n"
        "class Options:\n    def f(p):\n"
        "        p.add_argument('--doubled-backend', choices=N7)\n"
        "        p.add_argument('--default-backend', choices=['a', 'b'], default=P)\n"
        "        p.add_argument('--class-backend', choices=['a', C.nothing])\n"
        "        p.add_argument('--long', choices=LONG)\n"
        "        p.add_argument('--star-backend', choices=['a', *nowhere])\n"
        f"        p.add_argument('--deep-backend', choices=['a'], action={'-' * 900}x)\n"
        f"        p.add_argument('--chain-backend', choices=['a', x{'.y' * 900}])\n"
        f"class More(Options):\n    quoted: '{'(' * 900}'\n    nul: 'a\\0'\n    long: int = x{'.z' * 900}\n"
        "from sglang.srt.star0 import *\n"
    )
    for number in range(12):
        others = "".join(f"from sglang.srt.star{n} import *\n" for n in range(12) if n != number)
        (folder / f"star{number}.py").write_text(others)
    started = time.process_time()
    found = options(tmp_path, "sglang")
    used = time.process_time() - started
    assert {"class_backend", "default_backend", "doubled_backend", "long", "star_backend"} <= set(found)
    assert values(found["star_backend"]) == ["a"]
    assert values(found["doubled_backend"]) == ["one"]
    assert found["doubled_backend"].open_set
    assert found["default_backend"].default is None
    assert len(found["long"].values) == 40_000
    assert used < 30
