"""Launch commands explained: flags, values, variables, contradictions, and the components' verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Wheels
from program import ROOT, agent, one_line
from tiny_engine import write_engine

from tools.diagnosis.facts import launch_of
from tools.engines.adapter import engine as adapter
from tools.engines.flags import discover_flags
from tools.engines.launches import Reader
from tools.source.tree import SourceTree

LISTED = [
    json.loads(line)
    for line in (ROOT / "tests" / "commands_explained" / "commands.jsonl").read_text("utf-8").splitlines()
]
KINDS = ("unknown", "contradiction", "value", "unused", "variable", "elsewhere", "deprecated")
LAUNCH = "python -m sglang.launch_server --model-path maple/9"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_engine(tmp_path_factory.mktemp("engine") / "site-packages")
    path = root / "sglang/srt/server_args.py"
    more = (
        'parser.add_argument("--attention-backend"',
        'parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=1)\n'
        '        parser.add_argument("--dust", type=int)\n'
        '        parser.add_argument("--old", action=DeprecatedAction)\n'
        '        parser.add_argument("--port", type=int)\n'
        '        parser.add_argument("--quiet", action="store_true")\n'
        '        parser.add_argument("--attention-backend"',
    )
    text = path.read_text().replace('parser.add_argument(\n            "--attention-backend"', more[1])
    assert "--dust" in text
    path.write_text(text)
    user = root / "sglang/srt/use.py"
    user.write_text(
        "import os\n\n\ndef use(args):\n"
        '    os.environ["SGLANG_HASTE"]\n'
        "    return args.tensor_parallel_size, args.model_path, args.old, args.port\n"
        "\n\ndef more(args):\n    return args.attention_backend, args.quiet\n"
    )
    return root


@pytest.fixture(scope="module")
def reader(engine: Path) -> Reader:
    return Reader(SourceTree(engine), "sglang")


def remarks(reader: Reader, command: str) -> dict[str, list[str]]:
    step = launch_of(command)
    assert step is not None
    found: dict[str, list[str]] = {}
    stray = step.fields.get("stray") or ()
    for one in reader.read(command, step.fields["flags"], step.fields.get("env") or {}, stray).remarks:
        found.setdefault(one.kind, []).append(one.name)
    return found


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (LAUNCH, {}),
        (f"{LAUNCH} --atention-backend elm", {"unknown": ["--atention-backend"]}),
        (f"{LAUNCH} --attention-backend elm --attention elm", {}),
        (f"{LAUNCH} --attention-backend oak", {"value": ["--attention-backend"]}),
        (f"{LAUNCH} --dust 3", {"unused": ["--dust"]}),
        (f"{LAUNCH} --old", {"deprecated": ["--old"]}),
        (f"{LAUNCH} --tp-size 2 --tensor-parallel-size 4", {"contradiction": ["--tensor-parallel-size"]}),
        (f"CUDA_VISIBLE_DEVICES=1 {LAUNCH} --tp-size 2", {"contradiction": ["--tp-size"]}),
        (f"CUDA_VISIBLE_DEVICES=1,2 {LAUNCH} --tp-size 2", {}),
        (f"docker run -p 80:90 sglang {LAUNCH} --port 91", {"contradiction": ["--port"]}),
        (f"docker run -p 80:90 sglang {LAUNCH} --port 90", {}),
        (f"SGLANG_HASTE=1 OMP_NUM_THREADS=2 {LAUNCH}", {}),
        (f"SGLANG_HASTEN=1 {LAUNCH}", {"variable": ["SGLANG_HASTEN"]}),
        (
            "python -m sglang.launch_server maple/9 --dust=3 oak",
            {
                "argument": ["maple/9", "oak"],
                "unused": ["--dust"],
            },
        ),
        (f"{LAUNCH} --quiet loud", {"argument": ["loud"]}),
        (f"{LAUNCH} --port http", {"value": ["--port"]}),
        (f"{LAUNCH} --port '' ", {"value": ["--port"]}),
        (f"{LAUNCH} --port $PORT", {}),
        (f"{LAUNCH} --port 30_000", {}),
        (f"{LAUNCH} --quiet --port 3", {}),
        (f"{LAUNCH} --port 3 to start it", {}),
    ],
)
def test_what_a_command_says_wrong(reader: Reader, command: str, said: dict[str, list[str]]) -> None:
    assert remarks(reader, command) == said


def test_a_word_of_a_launch_that_is_no_flag_is_told_from_the_model() -> None:
    for command, model, stray in (
        ("vllm serve maple/9 --port 3", "maple/9", None),
        ("vllm serve maple/9 oak --port 3", "maple/9", ["oak"]),
        ("vllm serve oak --model maple/9", "maple/9", None),
        ("python -m sglang.launch_server oak --model-path maple/9", "maple/9", ["oak"]),
        ("python -m sglang.launch_server --model-path maple/9 --lora-paths a b c", "maple/9", None),
    ):
        step = launch_of(command)
        assert step is not None
        assert (step.fields["model"], step.fields.get("stray")) == (model, stray), command


def test_what_was_meant_is_named(reader: Reader) -> None:
    (remark,) = reader.read("", {"--atention-backend": "elm"}, {}).remarks
    assert remark.fails
    assert "nearest: --attention-backend" in remark.text
    (remark,) = reader.read("", {"--attention-backend": "elmo"}, {}).remarks
    assert (remark.fails, remark.file) == (True, "sglang/srt/server_args.py")
    assert "nearest: elm; it accepts elm, fern" in remark.text


def test_the_program_explains_a_command(engine: Path) -> None:
    line = f"{LAUNCH} --fp4-gemm-backend cedar --atention-backend elm"
    asked = ("explain", "--command", line, "-e", str(engine), "--arch", "sm120")
    finished = agent(*asked, "--json")
    assert finished.returncode == 1, finished.stderr
    found = json.loads(finished.stdout)
    by_name = {one["component"]: one for one in found["components"]}
    assert (by_name["fp4_gemm"]["value"], by_name["fp4_gemm"]["given"]) == ("cedar", True)
    assert by_name["fp4_gemm"]["row"]["arch"] == "sm120"
    assert (by_name["moe_runner"]["value"], by_name["moe_runner"]["given"]) == ("auto", False)
    assert [one["kind"] for one in found["remarks"]] == ["unknown"]
    assert (found["model"], found["fails"]) == ("maple/9", True)
    shown = agent(*asked)
    assert "fp4_gemm cedar" in shown.stdout
    assert "does not know --atention-backend" in shown.stdout


def test_a_command_is_explained_without_an_architecture(engine: Path) -> None:
    finished = agent("explain", "--command", LAUNCH, "-e", str(engine), "--json", PATH="")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["components"] == []


def test_what_is_no_launch_is_refused_in_one_line(engine: Path) -> None:
    for line, words in (
        ("ls -l", "launches no engine"),
        ("", "launches no engine"),
        ("vllm serve m --x 'y", "a quote that is not closed"),
    ):
        one_line(agent("explain", "--command", line, "-e", str(engine)), 2, words)
    one_line(agent("explain", "--command", "ollama serve", "-e", str(engine)), 2, "unknown engine")
    asked = ("explain", "--command", LAUNCH, "-e", str(engine))
    one_line(agent(*asked, "--tp", "2", "--compare", "x==1"), 2, "--tp, --compare: not with --command")
    one_line(agent("explain", "--command", LAUNCH, "fp4_gemm", "cedar"), 2, "'fp4_gemm' is no package")
    one_line(agent("explain"), 2, "COMPONENT and BACKEND")


@pytest.mark.network
def test_public_commands_are_explained_rightly(wheels: Wheels) -> None:
    reader = Reader(wheels("sglang==0.5.9", "flashinfer-python==0.6.5").tree(), "sglang")
    assert len([one for one in LISTED if one["source"] != "made up"]) >= 20
    components = {option.field: option.component for option in reader.options}
    for one in LISTED:
        step = launch_of(one["command"])
        assert step is not None, one["name"]
        assert step.fields["model"] == one["model"], one["name"]
        settings = reader.read(one["command"], step.fields["flags"], step.fields.get("env") or {})
        found: dict[str, list[str]] = {}
        for remark in settings.remarks:
            found.setdefault(remark.kind, []).append(remark.name)
        assert found == {kind: one[kind] for kind in KINDS if one.get(kind)}, one["name"]
        chosen = {components.get(field): value for field, value in settings.fields.items()}
        assert one["chosen"].items() <= chosen.items(), one["name"]


def test_numbers_are_told_by_types_and_fields_and_only_where_all_programs_agree() -> None:
    server = (
        "class Args:\n    ranks: int = 1\n    share: float | None = None\n    name: str = 'x'\n\n"
        "def add(parser, told):\n"
        "    parser.add_argument('--ranks', **told['ranks'])\n"
        "    parser.add_argument('--share', **told['share'])\n"
        "    parser.add_argument('--name', **told['name'])\n"
        "    parser.add_argument('--level', type=int)\n"
        "    parser.add_argument('--size', type=parse_size)\n"
    )
    other = "parser.add_argument('--level', type=str)\n"
    flags = discover_flags(
        {"sglang/srt/args.py": server.encode(), "sglang/tool.py": other.encode()}, adapter("sglang")
    )
    assert {name: flag.number for name, flag in flags.by_name.items()} == {
        "--ranks": True,
        "--share": True,
        "--name": False,
        "--level": False,
        "--size": False,
    }
