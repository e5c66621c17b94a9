"""Finding the release that changed something, in an index of small engines. No network."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import Wheels
from program import agent, one_line, python
from test_cli_light import known_engine
from wheel_index import Index

from agent.cli.common import Context
from memory.home import Home
from tools.base import ToolError
from tools.environment.experiment import parse_test
from tools.environment.store import list_environments

GATE = "minilib/gemm.py"
OPTIONS = "sglang/srt/server_args.py"
REFUSES = "@supported_compute_capability([100, 103])"
VERSIONS = [f"0.{number}" for number in range(1, 18)]
TEST = "static fp4_gemm birch sm120 quantisation=nvfp4"


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, dict[str, str]]:
    """Files by package: the small engine, and the library that its gates are in."""
    root = known_engine(tmp_path / "engine")
    found: dict[str, dict[str, str]] = {}
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(root))
        found.setdefault(name.split("/", 1)[0], {})[name] = path.read_text(encoding="utf-8")
    return found


def publish(index: Index, package: str, version: str, files: dict[str, str], *requires: str) -> None:
    text = files[f"{package}/__init__.py"]
    rest = {name: body for name, body in files.items() if name != f"{package}/__init__.py"}
    index.add(package, version, text=text or "\n", files=rest, requires=requires)


def changed(files: dict[str, str], file: str, old: str, new: str) -> dict[str, str]:
    assert old in files[file]
    return {**files, file: files[file].replace(old, new)}


@pytest.fixture
def released(index: Index, parts: dict[str, dict[str, str]]) -> Index:
    """Seventeen releases of the library; with 0.12 a gate opens, and it asks for something new."""
    publish(index, "sglang", "1.0", parts["sglang"])
    opened = changed(parts["minilib"], GATE, REFUSES, "@supported_compute_capability([100, 103, 120])")
    for version in VERSIONS[:11]:
        publish(index, "minilib", version, parts["minilib"])
    for version in VERSIONS[11:]:
        publish(index, "minilib", version, opened, "tile>=2")
    return index


def bisected(home: Home, good: str, bad: str, *more: str, test: str = TEST) -> dict[str, Any]:
    finished = agent(
        "environment", "bisect", "sglang==1.0", "--package", "minilib", "--good", good, "--bad", bad,
        "--test", test, *more, "--json", home=home.root,
    )  # fmt: skip
    assert finished.returncode in {0, 1}, finished.stderr
    return dict(json.loads(finished.stdout))


def test_the_release_with_which_a_gate_opened_is_found_in_few_analyses(home: Home, released: Index) -> None:
    found = bisected(home, "0.1", "0.17")
    assert found["versions"] == VERSIONS
    assert (found["same"]["version"], found["other"]["version"]) == ("0.11", "0.12")
    assert found["analyses"] <= math.ceil(math.log2(17)) + 1
    assert found["same"]["row"]["verdict"] == "blocked"
    assert found["same"]["row"]["evidence"][0]["text"] == REFUSES
    assert found["other"]["row"]["verdict"] != "blocked"
    assert found["moved"] == [{"before": None, "after": "tile>=2"}]

    # The other way round: the release with which it was closed.
    back = bisected(home, "0.17", "0.1")
    assert (back["same"]["version"], back["other"]["version"]) == ("0.12", "0.11")

    # Asked again nothing is fetched, the list of releases included.
    released.root.rename(released.root.with_name("away"))
    before = list_environments(home)
    assert bisected(home, "0.1", "0.17") == found
    assert list_environments(home) == before
    shown = agent(
        "environment", "bisect", "sglang==1.0", "--package", "minilib", "--good", "0.1", "--bad", "0.17",
        "--test", TEST, home=home.root,
    ).stdout  # fmt: skip
    assert "minilib 0.12 is the first that says something else" in shown
    assert f"- blocked: architecture: {REFUSES}  {GATE}:22" in shown


def test_releases_that_do_not_install_are_passed_over(
    home: Home, index: Index, parts: dict[str, dict[str, str]]
) -> None:
    publish(index, "sglang", "1.0", parts["sglang"])
    opened = changed(parts["minilib"], GATE, REFUSES, "@supported_compute_capability([100, 103, 120])")
    for number in range(1, 9):
        files, version = opened if number >= 6 else parts["minilib"], f"0.{number}"
        if number == 2:
            index.add("minilib", version, tag="cp312-cp312-win_amd64")
        elif number == 5:
            index.add("minilib", version, promised="0" * 64)
        else:
            publish(index, "minilib", version, files)
    found = bisected(home, "0.1", "0.8")
    assert "0.2" not in found["versions"]
    assert (found["same"]["version"], found["other"]["version"]) == ("0.4", "0.6")
    assert found["between"] == ["0.5"]
    assert "not the one that the index promised" in found["skipped"]["0.5"]


def test_the_release_of_an_engine_that_brought_an_option(
    home: Home, index: Index, parts: dict[str, dict[str, str]]
) -> None:
    later = changed(parts["sglang"], OPTIONS, '    "flax",\n', '    "flax",\n    "grove",\n')
    for number in range(1, 6):
        publish(index, "sglang", f"1.{number}", later if number >= 4 else parts["sglang"])
    for test in ("option --fp4-gemm-backend grove", "static fp4_gemm grove sm120"):
        finished = agent(
            "environment", "bisect", "--package", "sglang", "--good", "1.1", "--bad", "1.5",
            "--test", test, "--json", home=home.root,
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr
        found = json.loads(finished.stdout)
        assert (found["same"]["version"], found["other"]["version"]) == ("1.3", "1.4")
        assert found["analyses"] <= 4


KILLED = """
import os, sys
import agent.cli.environment_bisect as command
from agent.cli.main import run

looked = 0

def progress(self, text):
    global looked
    looked += text.startswith("minilib ") and "(" not in text  # a verdict, not a wheel
    if looked == 3:
        os.kill(os.getpid(), 9)

command.Context.progress = progress
sys.exit(run(sys.argv[1:]))
"""


def test_one_that_was_killed_goes_on_where_it_was(home: Home, released: Index) -> None:
    command = [
        "environment",
        "bisect",
        "sglang==1.0",
        "--package",
        "minilib",
        "--good",
        "0.1",
        "--bad",
        "0.17",
    ]
    assert python(KILLED, *command, "--test", TEST, "--json", home=home.root).returncode == -signal.SIGKILL
    done = agent(*command, "--test", TEST, "--json", home=home.root)
    found = json.loads(done.stdout)
    assert (found["same"]["version"], found["other"]["version"]) == ("0.11", "0.12")
    # What was looked at is neither fetched nor read again.
    assert done.stderr.count("· created environment ") <= found["analyses"] - 3
    assert done.stderr.count(" cells to follow") <= found["analyses"] - 3
    assert "listing versions" not in done.stderr


@pytest.mark.network
def test_the_real_release_that_opened_a_gate(wheels: Wheels) -> None:
    test = parse_test("static moe_runner flashinfer_trtllm sm120 quantisation=nvfp4")
    outcomes = []
    for version in ("0.6.5", "0.6.7"):
        made = wheels("sglang==0.5.9", f"flashinfer-python=={version}")
        kept = Home(made.root.parents[2])
        outcomes.append(test.run(Context(kept), made))
    assert [outcome.says for outcome in outcomes] == ["blocked", "unknown"]
    trace = outcomes[0].trace
    assert trace is not None
    gate = trace.row.evidence[0]
    assert (gate.file, gate.text) == ("flashinfer/jit/fused_moe.py", "supported_major_versions=[10]")


def test_where_nothing_changed_it_says_so(home: Home, released: Index) -> None:
    found = bisected(home, "0.1", "0.4")
    assert found["other"] is None
    assert found["analyses"] <= 3
    told = agent(
        "environment", "bisect", "sglang==1.0", "--package", "minilib", "--good", "0.1", "--bad", "0.4",
        "--test", TEST, home=home.root,
    )  # fmt: skip
    assert told.returncode == 1
    assert "0.4 says what 0.1 says: blocked" in told.stdout


@pytest.mark.parametrize(
    ("good", "bad", "test", "words"),
    [
        ("0.1", "0.1", TEST, ["both 0.1"]),
        ("0.1", "x y", TEST, ["expected versions"]),
        ("0.1", "0.99", TEST, ["no release 0.99 of minilib", "nearest: 0.17"]),
        ("0.1", "0.4", "static fp4_gemm", ["is no test; expected static"]),
        ("0.1", "0.4", "rm -rf /", ["is no test"]),
        ("0.1", "0.4", "static fp4_gemm birch sm9999", ["sm9999"]),
    ],
)
def test_a_wrong_question_is_one_line(
    home: Home, released: Index, good: str, bad: str, test: str, words: list[str]
) -> None:
    finished = agent(
        "environment", "bisect", "sglang==1.0", "--package", "minilib", "--good", good, "--bad", bad,
        "--test", test, home=home.root,
    )  # fmt: skip
    one_line(finished, 2, *words)


def full_engine(index: Index) -> None:
    """An engine that imports a library, which cannot be imported any more from 4 on."""
    index.add("engine", "1", requires=("library>=1",), text="import library\n")
    for number in range(1, 8):
        broken = (
            "raise ImportError('no kernel of \\x1b[31mthis\\x1b[0m name')\n" if number >= 4 else "v = 1\n"
        )
        index.add("library", str(number), text=broken)


def test_the_release_with_which_an_import_begins_to_fail(home: Home, index: Index) -> None:
    full_engine(index)
    made = agent(
        "environment", "create", "engine==1", "library==1", "--full", "--name", "run", home=home.root
    )
    assert made.returncode == 0, made.stderr
    asked = ("-e", "run", "--package", "library", "--good", "1", "--bad", "7", "--test", "import engine")
    found = json.loads(agent("environment", "bisect", *asked, "--json", home=home.root).stdout)
    assert (found["same"]["version"], found["other"]["version"]) == ("3", "4")
    assert found["same"]["says"] == "imports"
    assert found["other"]["says"].startswith("import_failed, ImportError: no kernel of ")
    assert found["analyses"] <= math.ceil(math.log2(7)) + 1
    shown = agent("environment", "bisect", *asked, home=home.root)
    assert shown.returncode == 0
    assert "library 4 is the first that says something else" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_what_runs_needs_an_interpreter_and_a_person(home: Home, released: Index) -> None:
    asked = ("--package", "minilib", "--good", "0.1", "--bad", "0.9", "sglang==1.0", "--test")
    for test in ("import minilib", "probe fp4_gemm birch"):
        one_line(agent("environment", "bisect", *asked, test, home=home.root), 3, "only read", "--full")
        with pytest.raises(ToolError, match="is no test"):
            parse_test(test)
    for test in ("import os; import sys", "import -c", "probe fp4_gemm", "probe fp4_gemm birch host=x"):
        one_line(agent("environment", "bisect", *asked, test, home=home.root), 2, "is no test")


def test_a_probe_of_what_no_probe_is_for_says_what_there_are(home: Home, index: Index) -> None:
    full_engine(index)
    agent("environment", "create", "engine==1", "library==1", "--full", "--name", "run", home=home.root)
    asked = ("-e", "run", "--package", "library", "--good", "1", "--bad", "3", "--test", "probe shoes x")
    one_line(agent("environment", "bisect", *asked, home=home.root), 2, "no probe for 'shoes'")
