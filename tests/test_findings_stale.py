"""Whether findings still hold: what became of cited lines, of versions and of machines."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from known import finding, write
from test_trust import ran, reported

from agent.cli.main import run
from memory.home import Home
from memory.store import Store
from memory.views import Views
from memory.vocabulary import Evidence, Level, Outcome, Scope
from tools.environment.adopt import adopt
from tools.environment.model import Environment
from tools.findings.definitions import File
from tools.findings.stale import Checked, Machine, check
from transcripts.catch_up import catch_up

BEFORE = '''\
"""A library whose gates are cited."""

ARCHS = (100, 103)


def capable(archs):
    """Text that looks like code:
def nothing():
    """
    return lambda function: function


@capable([100, 103])
def trtllm(a, b):
    if not aligned(a):
        raise ValueError("not aligned")
    return run(a, b)


class Runner:
    KINDS = {"fp4": 1}

    def first(self, major):
        if major != 10:
            raise ValueError("only ten")
        return "first"

    def second(self, major):
        if major != 10:
            raise ValueError("only ten")
        return "second"

    def leaving(self):
        return self.left and self.alone


def going(major):
    return major in (9, 10)


def gone(x):
    return x.capability == (12, 0)
'''
AFTER = '''\
"""A library whose gates are cited."""

import os
import re
import sys

ARCHS = (100, 103, 120)


def capable(archs):
    return lambda function: function


@capable([100, 103])
def trtllm(a, b):
    log(a)
    if not aligned(a):
        raise ValueError("not aligned")
    return run(a, b)


class Runner:
    KINDS = {"fp4": 1}

    def first(self, major):
        return "first"

    def second(self, major):
        if major not in (10, 12):
            raise ValueError("only ten")
        return "second"


def going_on(major):
    return major in (9, 10)
'''
OTHER = "class Runner:\n    def leaving(self):\n        return self.left and self.alone\n"


def site(root: Path, version: str, files: dict[str, str]) -> Environment:
    info = root / f"kernel_lib-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernel-lib\nVersion: {version}\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    return adopt(root)


@dataclass
class Pair:
    home: Home
    before: Environment
    after: Environment

    def cite(self, text: str, *, nth: int = 0, lines: int = 1) -> Evidence:
        all_lines = BEFORE.splitlines()
        at = [number for number, line in enumerate(all_lines, start=1) if text in line][nth]
        return self.before.tree().evidence("kernel_lib/gates.py", at, at + lines - 1, idiom="i")

    def checked(self, *cited: Evidence, here: bool = True, **changes: Any) -> Checked:
        item = finding(
            packages={"kernel-lib": "1.0"}, engine="kernel-lib", **{"source_evidence": cited, **changes}
        )
        return self.check(item, here=here)

    def check(self, item: Any, *, here: bool = True, machine: Machine | None = None) -> Checked:
        write(self.home, f"t{len(list(self.home.transcripts.iterdir()))}", [item])
        with Store(self.home) as store:
            assert catch_up(store, self.home.transcripts) == []
        views = Views(self.home)
        before = self.before if here else None
        rows = [views.finding(item.id)]
        (found,) = check(self.home, views, rows, self.after, machine, before)
        return found


@pytest.fixture
def pair(home: Home, tmp_path: Path) -> Pair:
    before = site(tmp_path / "before", "1.0", {"kernel_lib/gates.py": BEFORE})
    after = site(tmp_path / "after", "1.1", {"kernel_lib/gates.py": AFTER, "kernel_lib/other.py": OTHER})
    return Pair(home, before, after)


def now(checked: Checked) -> list[tuple[str, str | None, int | None]]:
    return [(became.drift.value, became.file, became.line) for _, _, became in checked.lines]


GATES = "kernel_lib/gates.py"
CASES: dict[str, tuple[tuple[str, int, int], str, tuple[str, str | None, int | None]]] = {
    # what is cited: words of its first line, which of several, how many lines; the finding; the line
    "the same lines further down": (("@capable", 0, 2), "holds", ("moved", GATES, 14)),
    "one more line before it": (("if not aligned", 0, 2), "holds", ("moved", GATES, 17)),
    "a table with one more": (("ARCHS", 0, 1), "changed", ("changed", GATES, 7)),
    "taken out, though its neighbour has it still": (("if major != 10", 0, 2), "gone", ("gone", None, None)),
    "another condition": (("if major != 10", 1, 2), "changed", ("changed", GATES, 29)),
    "the line after it alone": (('raise ValueError("only ten")', 1, 1), "holds", ("same", GATES, 30)),
    "an attribute of a class": (("KINDS", 0, 1), "holds", ("moved", GATES, 23)),
    "in another file": (("self.left and", 0, 1), "holds", ("moved", "kernel_lib/other.py", 3)),
    "a function of another name": (("return major in", 0, 1), "holds", ("moved", GATES, 35)),
    "a function that is gone": (("x.capability", 0, 1), "gone", ("gone", None, None)),
}


@pytest.mark.parametrize("case", list(CASES))
def test_what_became_of_a_gate(pair: Pair, case: str) -> None:
    (text, nth, lines), drift, became = CASES[case]
    checked = pair.checked(pair.cite(text, nth=nth, lines=lines))
    assert (checked.drift, now(checked)) == (drift, [became])


def test_a_change_is_shown_as_a_diff(pair: Pair) -> None:
    ((_, _, became),) = pair.checked(pair.cite("if major != 10", nth=1)).lines
    assert became.diff[1:] == ("-        if major != 10:", "+        if major not in (10, 12):")
    ((_, _, became),) = pair.checked(pair.cite("x.capability")).lines
    assert became.because == "gone is gone"


def test_the_worst_line_decides(pair: Pair) -> None:
    checked = pair.checked(pair.cite("KINDS"), pair.cite("ARCHS"), pair.cite("x.capability"))
    assert checked.drift == "gone"
    assert [drift for drift, _, _ in now(checked)] == ["moved", "changed", "gone"]


def test_without_what_was_read_then_only_the_words_are_compared(pair: Pair) -> None:
    assert now(pair.checked(pair.cite("KINDS"), here=False)) == [("moved", GATES, 23)]
    assert pair.checked(pair.cite("ARCHS"), here=False).drift == "changed"
    assert pair.checked(pair.cite("x.capability"), here=False).drift == "gone"


def test_other_packages_cannot_be_compared(pair: Pair) -> None:
    cited = pair.cite("KINDS").model_copy(update={"package": "engine", "version": "3"})
    assert pair.checked(cited).drift == "not_comparable"
    assert pair.checked(cited, pair.cite("KINDS")).drift == "holds"


MACHINE = Machine(("G",), "580.1")


@pytest.mark.parametrize(
    ("packages", "scope", "drift", "because"),
    [
        ({"kernel-lib": "1.1"}, None, "holds", []),
        ({"kernel-lib": "1.0"}, None, "changed", ["kernel-lib 1.0 is 1.1"]),
        ({"torch": "2.9"}, {"gpu": "G", "driver": "580.1"}, "holds", []),
        ({}, {"driver": "570.0"}, "changed", ["driver 570.0 is 580.1"]),
        ({}, {"gpu": "H"}, "changed", ["GPU H is G"]),
    ],
)
def test_what_ran_is_stale_when_a_package_or_the_machine_is_another(
    pair: Pair, packages: dict[str, str], scope: dict[str, str] | None, drift: str, because: list[str]
) -> None:
    item = ran(Level.PROBE, Outcome.OK, packages=packages, scope=Scope(**scope) if scope else None)
    checked = pair.check(item, machine=MACHINE)
    assert (checked.drift, list(checked.because)) == (drift, because)


@pytest.mark.parametrize(
    ("ranges", "drift"), [("<1.1", "changed"), (">=1.0", "not_comparable"), ("==1.0", "changed")]
)
def test_an_account_holds_for_the_versions_that_it_names(pair: Pair, ranges: str, drift: str) -> None:
    item = reported(Outcome.NAN, "https://example.org/1").claim
    claim = item.model_copy(update={"packages": {}, "scope": Scope(ranges={"kernel_lib": ranges})})
    assert pair.check(finding(**dict(claim))).drift == drift


def test_the_command_names_what_moved_changed_and_is_gone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("KINDS", "ARCHS", "x.capability"):
        pair.checked(pair.cite(text), backend=text.replace(" ", "_"))
    sides = ("-e", pair.after.path, "--before", pair.before.path)
    monkeypatch.setenv("PATH", "")  # no GPUs to compare with
    said, told = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(told):
        assert run(["findings", "stale", "--against", *sides, "--all", "--json"]) == 1, told.getvalue()
    document = json.loads(said.getvalue())
    assert document["counts"] == {"holds": 1, "changed": 1, "gone": 1}
    assert {one["status"] for one in document["findings"]} == {"current", "stale"}
    with redirect_stdout(said), redirect_stderr(told):
        assert run(["findings", "stale", "--against", *sides]) == 1
    drawn = said.getvalue()
    assert "      -ARCHS = (100, 103)\n      +ARCHS = (100, 103, 120)\n" in drawn
    assert f"gone: kernel-lib {GATES}:{pair.cite('x.capability').line} (gone is gone)" in drawn
    with redirect_stdout(said), redirect_stderr(told):
        assert run(["findings", "stale", "--against"]) == 2
    assert "--against needs" in told.getvalue()


def test_definitions_are_told_from_indentation() -> None:
    file = File(BEFORE.splitlines())
    named = [name for name in file.definitions if "." not in name]
    assert named == ["ARCHS", "capable", "trtllm", "Runner", "going", "gone"]
    assert {name for name in file.definitions if "." in name} == {
        "Runner.KINDS", "Runner.first", "Runner.second", "Runner.leaving",
    }  # fmt: skip
    assert file.owner(BEFORE.splitlines().index("@capable([100, 103])")) == "trtllm"
    assert file.owner(0) is None


def test_a_file_that_moved_is_found_by_its_name_and_definition(pair: Pair, tmp_path: Path) -> None:
    moved = AFTER.replace("class Runner", "class Other")
    later = site(tmp_path / "later", "1.2", {"kernel_lib/inner/gates.py": moved})
    pair.after = later
    assert now(pair.checked(pair.cite("if not aligned", lines=2))) == [
        ("moved", "kernel_lib/inner/gates.py", 17),
    ]  # fmt: skip
    assert now(pair.checked(pair.cite("ARCHS"))) == [("changed", "kernel_lib/inner/gates.py", 7)]
    assert pair.checked(pair.cite("x.capability")).drift == "gone"


# Two real releases, and one much later: what became of gates was read by hand

GATES_OF_059 = {
    # words of the first line, lines, and the drift in 0.5.10 + 0.6.7.post2, in 0.5.23 + 0.7.2
    ("flashinfer/jit/fused_moe.py", 251): (
        ("changed", "flashinfer/jit/fused_moe.py", 278), ("changed", "flashinfer/jit/fused_moe.py", 386),
    ),
    ("flashinfer/gemm/gemm_base.py", 3083): (
        ("moved", "flashinfer/gemm/gemm_base.py", 4311), ("changed", "flashinfer/gemm/gemm_base.py", 7558),
    ),
    ("sglang/srt/server_args.py", 1899): (
        ("changed", "sglang/srt/server_args.py", 2373), ("gone", None, None),
    ),
    ("sglang/srt/layers/moe/cutlass_moe.py", 435): (
        ("moved", "sglang/srt/layers/moe/cutlass_moe.py", 438), ("gone", None, None),
    ),
    ("sglang/jit_kernel/flash_attention/cute/interface.py", 251): (
        ("gone", None, None), ("changed", "sglang/kernels/ops/attention/flash_attn/cute/interface.py", 622),
    ),
}  # fmt: skip


@pytest.mark.network
def test_gates_of_a_real_pair_moved_changed_and_vanished_as_read_by_hand(home: Home, wheels: Any) -> None:
    before = wheels("sglang==0.5.9", "flashinfer-python==0.6.5")
    tree = before.tree()
    given = [
        finding(source_evidence=(tree.evidence(file, line, idiom="i"),), backend=f"b{line}")
        for file, line in GATES_OF_059
    ]
    write(home, "t1", given)
    with Store(home) as store:
        assert catch_up(store, home.transcripts) == []
    views = Views(home)
    rows = [views.finding(one.id) for one in given]
    for place, pair in enumerate(
        (("sglang==0.5.10", "flashinfer-python==0.6.7.post2"), ("sglang==0.5.23", "flashinfer-python==0.7.2"))
    ):
        checked = check(home, views, rows, wheels(*pair), None, before)
        seen = {(one.lines[0][1].file, one.lines[0][1].line): now(one)[0] for one in checked}
        assert seen == {gate: expected[place] for gate, expected in GATES_OF_059.items()}
