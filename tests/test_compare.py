"""``agent backends --compare``: the same question on other packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from viability_fixtures.support import Engine

from agent.cli.main import cli, run

GATE = "minilib/gemm.py"


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Engine, Engine]:
    """The small engine, and a later version that has a backend more and lets ``birch`` run elsewhere."""
    before, after = Engine.copy(tmp_path / "before"), Engine.copy(tmp_path / "after")
    return before, after


def ask(before: Engine, after: Engine, *options: str) -> Result:
    asked = ["-e", str(before.root), "--component", "weave", "--quantisation", "nvfp4", "--arch", "sm120"]
    return CliRunner().invoke(
        cli, ["backends", *asked, "--compare", str(after.root), *options], standalone_mode=False
    )


def test_what_is_the_same_is_not_listed(sides: tuple[Engine, Engine]) -> None:
    ran = ask(*sides, "--json", "--fail-on-change")
    assert json.loads(ran.stdout)["changed"] == []
    assert ran.return_value == 0


def test_a_changed_gate_and_a_new_backend_are_shown_with_their_lines(sides: tuple[Engine, Engine]) -> None:
    before, after = sides
    after.edit(
        GATE, "@supported_compute_capability([100, 103])", "@supported_compute_capability([100, 103, 120])"
    )
    after.edit("sglang/srt/server_args.py", '    "flax",\n', '    "flax",\n    "grove",\n')
    ran = ask(before, after, "--json", "--fail-on-change")
    changed = {one["backend"]: one for one in json.loads(ran.stdout)["changed"]}

    assert ran.return_value == 1
    assert changed["birch"]["before"]["verdict"] == "blocked"
    assert changed["birch"]["before"]["evidence"][0]["text"] == "@supported_compute_capability([100, 103])"
    assert changed["birch"]["after"]["verdict"] != "blocked"
    assert changed["grove"]["before"] is None
    shown = ask(before, after).stdout
    assert f"- blocked: architecture: @supported_compute_capability([100, 103])  {GATE}:22" in shown
    assert "  - not declared\n  + blocked: option: " in shown
    line = "@supported_compute_capability([100, 103, 120])"
    assert changed["birch"]["became"] == [{"file": GATE, "line": 22, "text": line, "same": False}, None]
    assert f"  = after the line that refuses reads: {line}  {GATE}:22" in shown
    assert f"{len(changed)} of 9 verdicts changed." in shown


def test_a_refusing_line_is_followed_through_code_that_moved_and_changed(
    sides: tuple[Engine, Engine],
) -> None:
    _, after = sides
    # The same words stand in another function first; what decides has moved down and is written otherwise.
    after.edit(
        "minilib/jit.py",
        """def gen_cedar_module():
    flags = current_compilation_context.get_nvcc_flags_list(
        supported_major_versions=[10]
    )
""",
        """def gen_first_module():
    return current_compilation_context.get_nvcc_flags_list(
        supported_major_versions=[10]
    )


def gen_cedar_module():
    flags = current_compilation_context.get_nvcc_flags_list(
        supported_major_versions=[10, 12]
    )
""",
    )
    after.edit(GATE, '        "b": _birch_requirement,\n', '        "b": _common_requirement,\n')
    after.edit(GATE, "def _birch_requirement", "def _other_requirement")
    changed = {one["backend"]: one["became"] for one in json.loads(ask(*sides, "--json").stdout)["changed"]}

    assert changed["cedar"][0]["text"] == "supported_major_versions=[10, 12]"
    assert changed["cedar"][0]["line"] == after.line("minilib/jit.py", "supported_major_versions=[10, 12]")
    assert changed["birch"] == [None, None]
    assert "  = the line that refuses is not there after" in ask(*sides).stdout


def test_a_change_fails_only_where_that_was_asked_for(sides: tuple[Engine, Engine]) -> None:
    before, after = sides
    after.edit(GATE, "@supported_compute_capability([100, 103])", "@supported_compute_capability([100])")
    assert ask(before, after, "--arch", "sm103").return_value == 0
    assert ask(before, after, "--arch", "sm103", "--fail-on-change").return_value == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--fail-on-change"], "--fail-on-change needs --compare"),
        (["--compare", "no-such-environment"], "no-such-environment"),
        (
            ["--compare", "sglang==1.0", "--compare", "other"],
            "expected NAME==VERSION, or one environment alone",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    sides: tuple[Engine, Engine], capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    assert run(["backends", "-e", str(sides[0].root), "--arch", "sm120", *options]) in (2, 3)
    assert says in capsys.readouterr().err.splitlines()[-1]
