"""The program as a person runs it: real processes, a home of their own, exit codes, one-line errors."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from program import ROOT, agent, one_line, python
from tiny_engine import write_engine

from agent.cli.lazy import LazyGroup
from agent.cli.main import cli
from agent.scenario import wrong_value
from memory.home import Home
from tools.engines.options import discover_options
from tools.environment.store import open_environment


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_engine(tmp_path_factory.mktemp("engine") / "site-packages")


def test_without_arguments_it_says_how_to_start() -> None:
    finished = agent()
    assert finished.returncode == 0
    assert [line.split()[:2] for line in finished.stdout.splitlines()[:3]] == [
        ["agent", "investigate"],
        ["agent", "backends"],
        ["agent", "doctor"],
    ]


def test_the_example_of_a_tool_is_one(engine: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    program = (
        f"{code}\n"
        "from memory.home import Home\n"
        "from agent.cli.common import Context\n"
        f"found = count_files.run(CountInput(environment={str(engine)!r}), Context(Home.default()))\n"
        "print(count_files.name, count_files.description, found.files)\n"
    )
    finished = python(program)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "count_files Count the files of an environment. 8\n"


def test_the_readme_shows_one_screen() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"\n```\n(qwen.*?)\n```\n", page, re.DOTALL)
    lines = shown.split("\n")
    assert len(lines) < 24
    assert max(len(line) for line in lines) <= 80
    assert any(line.startswith("Candidate, untested") for line in lines)
    assert lines[-1].startswith("Next: agent explain ")


def test_the_list_of_commands_says_what_they_say_of_themselves() -> None:
    for group in ("", "transcripts", "environment"):
        finished = agent(*group.split(), "--help")
        assert finished.returncode == 0
        inner = cli.get_command(click.Context(cli), group) if group else cli
        assert isinstance(inner, LazyGroup)
        for name, (_, line) in inner.lazy.items():
            assert re.search(rf"^  {name} +{re.escape(line)}$", finished.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["investigate", ""], 2, ["empty"]),
        (["investigate", "qwen3.5 fp4 on sm120"], 2, ["nvfp4, mxfp4"]),
        (["investigate", "qwen3.5 nvfp4 on blackwell"], 2, ["sm100", "sm120"]),
        (["investigate", "qwen3.5 nvfp4 on rtx 9999"], 2, ["rtx 9999"]),
        (["investigate", "qwen nvfp4 on sm120", "-e", "/nowhere"], 3, ["/nowhere"]),
        (["investigate", "qwen nvfp4 on sm120", "-e", "nothing"], 3, ["nothing", "agent environment create"]),
        (["investigate", "qwen nvfp4 on sm120", "-e", "x", "-p", "y==1"], 2, ["not both"]),
        (["investigate", "qwen nvfp4 on sm120", "--scenario", "x"], 2, ["KEY=VALUE"]),
        (["investigate", "qwen nvfp4 on sm120", "-p", "sglang>=1"], 2, ["several versions"]),
        (["investigate", "qwen nvfp4 on sm120", "--engine", "x"], 2, ["unknown engine"]),
        (["investigate", "qwen nvfp4 on sm120", "-e", ""], 2, ["--environment is empty"]),
        (["investigate", "qwen nvfp4 on sm120", "--scenario", "a b=c"], 2, ["KEY=VALUE"]),
        (
            ["investigate", "qwen nvfp4 on sm120 sglang 0.5.9", "-p", "sglang==0.5.10"],
            2,
            ["0.5.9 and 0.5.10"],
        ),
        (["investigate", "qwen nvfp4 on mi300x"], 2, ["mi300x"]),
        (["investigate", "qwen nvfp4 on sm120 " + "x" * 10_000], 2, ["10020 characters"]),
        (["investigate"], 2, ["QUESTION", "--help"]),
        (["investigate", "qwen", "nvfp4", "on", "sm120"], 2, ['agent investigate "qwen nvfp4 on sm120"']),
        (["investigate", "q on sm120", "--nothing"], 2, ["--nothing"]),
        (["backends", "-e", "nothing", "--arch", "sm120"], 3, ["nothing"]),
        (["backends", "--arch", "potato"], 2, ["potato"]),
        (["backends", "--arch", "sm120", "--quantisation", "zinc"], 2, ["'zinc'", "nvfp4"]),
        (["explain", "c", "b", "--arch", "sm120", "--quantisation", "fp4"], 2, ["nvfp4, mxfp4"]),
        (["explain", "c", "b", "--arch", ""], 2, ["no architecture"]),
        (["nonsense"], 2, ["nonsense", "investigate, "]),
        (["fndings", "list"], 2, ["did you mean findings?"]),
        (["transcripts", "shw"], 2, ["did you mean show?"]),
        (["transcripts"], 2, ["agent transcripts needs a command: list, show"]),
        (["findings"], 2, ["agent findings needs a command: list, search, show"]),
        (["environment"], 2, ["agent environment needs a command: create, list, show"]),
        (["report"], 2, ["--last"]),
        (["report", "--last"], 2, ["no investigations yet"]),
        (["report", "20260101-aa"], 2, ["20260101-aa"]),
        (["transcripts", "show", "zzz"], 2, ["zzz"]),
        (["findings", "show", "zzz"], 2, ["zzz"]),
        (["findings", "list", "--arch", "potato"], 2, ["potato"]),
        (["environment", "show", "zzz"], 3, ["zzz"]),
        (["environment", "create", "-p", "a b"], 2, ["a b"]),
    ],
)
def test_wrong_input_is_one_line_and_the_right_code(args: list[str], code: int, words: list[str]) -> None:
    one_line(agent(*args), code, *words)


def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path, engine: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    finished = agent("investigate", "qwen nvfp4 on sm120", "-e", str(engine), home=file / "home")
    one_line(finished, 3, "ASSAY_HOME")


@pytest.mark.parametrize("below", ["", "home"])
@pytest.mark.parametrize(
    "command",
    [["transcripts", "list"], ["findings", "list"], ["environment", "list"], ["report", "--last"]],
    ids=" ".join,
)
def test_a_home_that_is_no_folder_is_not_an_empty_one(tmp_path: Path, command: list[str], below: str) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    one_line(agent(*command, home=file / below), 3, str(file), "ASSAY_HOME")


def test_facts_that_the_engine_does_not_know_are_refused(engine: Path) -> None:
    for command in (
        ["investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine)],
        ["explain", "fp4_gemm", "cedar", "--arch", "sm120", "-e", str(engine)],
    ):
        one_line(agent(*command, "--scenario", "zinc=1"), 2, "sglang has no option 'zinc'")
    one_line(agent(*command, "--scenario", "attenton.model_path=x"), 2, "'attenton'", "it has attention")
    for name in ("quantisation", "fp4_gemm.quantisation"):
        finished = agent(*command, "--scenario", f"{name}=nvfp4")
        one_line(finished, 2, f"--scenario {name}=nvfp4 changes nothing", "--quantisation")
    known = agent(*command, "--scenario", "attention.model_path=x", "--json")
    assert known.returncode == 0, known.stderr


def test_a_quantisation_that_the_engine_does_not_list_is_refused_even_where_some_are_added_later(
    engine: Path,
) -> None:
    option = discover_options(open_environment(Home.default(), str(engine)).tree(), "sglang")[0]
    added_to = option.model_copy(update={"flag": "--quantization", "field": "quantization", "open_set": True})
    known = option.values[0].value
    assert wrong_value({"quantization": known, "fp4_gemm.quantization": "none"}, [added_to]) is None
    told = wrong_value({"fp4_gemm.quantization": "zinc"}, [added_to])
    assert told is not None
    assert "--quantization does not accept it here; it accepts " in told
    other = added_to.model_copy(update={"field": "grammar"})
    assert wrong_value({"grammar": "zinc"}, [other]) is None


def test_a_component_of_one_number_type_is_not_silently_judged_for_another(engine: Path) -> None:
    asked = ("explain", "fp4_gemm", "cedar", "--arch", "sm120", "-e", str(engine), "--quantisation")
    assert "fp4_gemm is judged for nvfp4, not for fp8" in agent(*asked, "fp8").stderr
    assert "is judged for" not in agent(*asked, "nvfp4").stderr


def test_a_model_that_the_engine_does_not_register_is_refused(engine: Path) -> None:
    finished = agent(
        "explain", "fp4_gemm", "cedar", "--arch", "sm120", "-e", str(engine), "--model", "zincmodel9"
    )
    one_line(finished, 2, "no model called 'zincmodel9'")
    finished = agent("backends", "--arch", "sm120", "-e", str(engine), "--model", "zincmodel9")
    one_line(finished, 2, "no model called 'zincmodel9'")
    finished = agent("explain", "fp4_gemm", "cedar", "--arch", "sm120", "-e", str(engine), "--model", "")
    one_line(finished, 2, "--model: ")


def test_the_engine_is_the_one_of_the_environment(tmp_path: Path) -> None:
    root = tmp_path / "site-packages"
    (root / "vllm" / "config").mkdir(parents=True)
    (root / "vllm" / "__init__.py").write_text("")
    info = root / "vllm-9.9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 9.9.0\n")
    (info / "RECORD").write_text("vllm/__init__.py,,\n")
    finished = agent("investigate", "qwen3.5 nvfp4 on sm120", "-e", str(root), "--json")
    assert "engine vllm" in finished.stderr
    assert "sglang" not in finished.stderr


def test_a_component_or_backend_that_is_not_there_is_listed(engine: Path) -> None:
    one_line(
        agent("backends", "-e", str(engine), "--arch", "sm120", "--component", "nothing"),
        2,
        "fp4_gemm",
        "attention",
    )
    finished = agent("explain", "Fp4-gem", "zinc", "-e", str(engine), "--arch", "sm120")
    one_line(finished, 2, "no component 'Fp4-gem' here; it has fp4_gemm")
    assert "attention" not in finished.stderr
    one_line(agent("explain", "fp4_gemm", "zinc", "-e", str(engine), "--arch", "sm120"), 2, "amber", "cedar")


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\x02" * 50, b"{}\n", b'{"type":"user","message":"hi"}\n', b'{"at":"2026']
)
def test_what_is_no_transcript_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "someone.jsonl"
    path.write_bytes(content)
    for command in (["transcripts", "show"], ["report"], ["explain", "a", "b", "--transcript"]):
        finished = agent(*command, str(path))
        assert finished.returncode == 2, finished.stdout
        one_line(finished, 2, "someone.jsonl")


@pytest.mark.parametrize(
    "event",
    [
        '{"at":"2026-01-01T00:00:00.000Z","data":{"kind":"opened","format":1}}',
        '{"data":{"kind":"opened","format":1,"options":[]},"seq":{}}',
    ],
)
def test_what_begins_like_a_transcript_and_is_none_is_one_line(tmp_path: Path, event: str) -> None:
    path = tmp_path / "someone.jsonl"
    path.write_text(f'{event}\n{{"data":{{"kind":"concluded","answer":[]}}}}\n')
    for command in (["report"], ["report", "--json"], ["explain", "a", "b", "--transcript"]):
        one_line(agent(*command, str(path)), 2, "someone.jsonl")
    shown = agent("transcripts", "show", str(path))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert len(shown.stdout.splitlines()) == 2


def test_a_damaged_database_is_one_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "findings.db").write_bytes(b"not a database" * 100)
    one_line(agent("findings", "list", home=home), 3, "findings.db")


def test_an_investigation_answers_though_its_rows_cannot_be_kept(tmp_path: Path, engine: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "findings.db").write_bytes(b"not a database" * 100)
    done = agent("investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine), "--json", home=home)
    assert json.loads(done.stdout)["backends"], done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "warning" in line]
    assert "findings.db is damaged" in warning
    assert "agent findings rebuild" in warning
    made = agent("findings", "rebuild", home=home)
    assert made.returncode == 0, made.stderr
    assert "kept as findings.db.damaged-1" in made.stderr
    assert made.stdout.splitlines()[-1].startswith("1 transcripts, ")


def test_what_lies_among_the_transcripts_is_passed_over(tmp_path: Path, engine: Path) -> None:
    home = tmp_path / "home"
    question = ["investigate", "qwen3.5 nvfp4 on sm120", "-e", str(engine), "--json"]
    name = json.loads(agent(*question, home=home).stdout)["transcript"]
    folder = home / "transcripts"
    (folder / "20990101-link.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "20990101-folder.jsonl").mkdir()
    (folder / "someone.jsonl").write_text('{"type":"user","message":"hi"}\n')
    listed = agent("transcripts", "list", home=home)
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.split()[:2] == ["someone", "unreadable"]
    again = agent("report", "--last", "--json", home=home)
    assert json.loads(again.stdout)["transcript"] == name


def test_ctrl_c_is_130_without_a_traceback(tmp_path: Path) -> None:
    program = (
        "import os, signal; from agent.cli import doctor, main;"
        "import tools.hardware.doctor as checks;"
        "checks.checks = lambda home: os.kill(os.getpid(), signal.SIGINT);"
        "main.main(['doctor'])"
    )
    finished = python(program)
    assert finished.returncode == 128 + signal.SIGINT
    assert finished.stderr.splitlines()[-1] == "agent: interrupted"
    assert "Traceback" not in finished.stderr


def test_a_bug_is_one_line_and_shows_itself_when_asked(tmp_path: Path) -> None:
    program = (
        "import tools.hardware.doctor as checks; from agent.cli import main;"
        "checks.checks = lambda home: 1 / 0;"
        "main.main(['doctor'])"
    )
    for debug, traceback in (("", False), ("1", True)):
        finished = python(program, ASSAY_DEBUG=debug)
        assert ("Traceback" in finished.stderr) is traceback
        assert "ZeroDivisionError" in finished.stderr
        if not traceback:
            assert finished.returncode == 4


def test_an_investigation_from_question_to_reading_it_again(tmp_path: Path, engine: Path) -> None:
    home = tmp_path / "home"
    question = ["investigate", "qwen3.5 nvfp4 on 8x RTX PRO 6000", "-e", str(engine)]
    finished = agent(*question, "--json", home=home)
    assert finished.returncode in {0, 1, 4}, finished.stderr
    answer = json.loads(finished.stdout)
    assert set(answer) == {
        "format",
        "investigation",
        "target",
        "environment",
        "backends",
        "recommendation",
        "not_run",
        "transcript",
    }
    assert answer["target"]["arch"] == "sm120"
    assert answer["target"]["gpu_count"] == 8
    assert answer["environment"]["packages"] == {"sglang": "9.9.0"}
    asked = {(row["component"], row["backend"]) for row in answer["backends"]}
    assert ("fp4_gemm", "cedar") in asked
    assert len(asked) == 10
    first, *_ = finished.stderr.splitlines()
    assert first.startswith("· ")

    name = answer["transcript"]
    again = agent("report", name[:-2], "--json", home=home)
    assert json.loads(again.stdout) == answer
    screen = agent("report", "--last", home=home)
    assert screen.returncode == 0
    assert len(screen.stdout.splitlines()) < 24
    assert max(len(line) for line in screen.stdout.splitlines()) <= 80
    assert "sglang 9.9.0" in screen.stdout
    document = agent("report", "--last", "--markdown", home=home)
    assert document.stdout.startswith("# qwen3.5")

    listed = json.loads(agent("transcripts", "list", "--json", home=home).stdout)["transcripts"]
    assert [one["id"] for one in listed] == [name]
    events = json.loads(agent("transcripts", "show", "--last", "--json", home=home).stdout)["events"]
    assert [event["seq"] for event in events] == list(range(len(events)))
    page = agent("transcripts", "show", name, "--from", "2", "--events", "3", home=home)
    assert [line.split()[0] for line in page.stdout.splitlines()] == ["2", "3", "4"]

    chain = agent("explain", "fp4_gemm", "cedar", "--transcript", name[:-1], "--json", home=home)
    (row,) = (
        row for row in answer["backends"] if (row["component"], row["backend"]) == ("fp4_gemm", "cedar")
    )
    assert json.loads(chain.stdout)["row"]["verdict"] == row["verdict"]
    assert json.loads(chain.stdout)["row"]["arch"] == "sm120"

    known = json.loads(agent("findings", "list", "--json", home=home).stdout)["findings"]
    found = [event for event in events if event["data"]["kind"] == "found"]
    assert len(known) == len(found)
    if known:
        shown = agent("findings", "show", known[0]["id"][:8], home=home)
        assert shown.returncode == 0
        assert known[0]["backend"] in shown.stdout


def test_json_of_the_matrix_is_rows_for_every_architecture(engine: Path) -> None:
    archs: Sequence[str] = ("sm90", "sm120")
    finished = agent("backends", "-e", str(engine), "--arch", "H200", "--arch", "12.0", "--json")
    assert finished.returncode == 0, finished.stderr
    rows = json.loads(finished.stdout)["backends"]
    assert {row["arch"] for row in rows} == set(archs)
    assert len(rows) == 2 * 10
    table = agent("backends", "-e", str(engine), "--arch", "H200", "--arch", "12.0", "--all")
    assert table.returncode == 0
    assert re.search(r"sm90 +sm120", table.stdout)


def test_explain_shows_the_chain(engine: Path) -> None:
    finished = agent("explain", "fp4_gemm", "cedar", "-e", str(engine), "--arch", "sm120")
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("fp4_gemm cedar on sm120: ")
    document = json.loads(
        agent("explain", "fp4_gemm", "cedar", "-e", str(engine), "--arch", "sm120", "--json").stdout
    )
    assert document["row"]["backend"] == "cedar"


def test_an_environment_is_shown_with_what_it_holds(engine: Path) -> None:
    finished = agent("environment", "show", str(engine))
    assert finished.returncode == 0
    assert "sglang 9.9.0" in finished.stdout
    document = json.loads(agent("environment", "show", str(engine), "--json").stdout)
    assert document["packages"] == {"sglang": "9.9.0"}
    assert json.loads(agent("environment", "list", "--json").stdout) == {"environments": []}


def test_of_a_whole_virtual_environment_only_what_is_cited_is_named(tmp_path: Path) -> None:
    root = write_engine(tmp_path / "site-packages")
    for number in range(40):
        info = root / f"package_{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: package-{number}\nVersion: 1.0\n")
    held = ["-e", str(root), "--arch", "sm120"]
    for command in (["explain", "fp4_gemm", "cedar", *held], ["backends", *held]):
        finished = agent(*command)
        assert finished.returncode == 0, finished.stderr
        (line,) = (line for line in finished.stdout.splitlines() if "more" in line and "1.0" in line)
        assert len(line) < 200
    missing = agent("backends", *held, "--engine", "vllm")
    one_line(missing, 3, "vllm is not in this environment", "and 37 more", "agent environment create")
