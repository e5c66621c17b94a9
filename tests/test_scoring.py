"""Scoring against a hand-read table: what counts as agreement, what is left out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from viability_fixtures.support import Engine

from agent.cli.main import cli
from agent.scoring import Expected, read_table, score
from tools.errors import ToolError

HEAD = "component,backend,arch,verdict,shallow_verdict,evidence_package,note\n"


def expected(backend: str, verdict: str, first: str = "yes", package: str = "sglang==1.0.0") -> Expected:
    return Expected("moe", "moe_runner", None, backend, "sm120", verdict, first, package)


def figures(said: dict[str, str], *rows: Expected) -> dict[str, int]:
    document = score(rows, lambda row: said[row.backend], {"sglang": "1.0.0"})
    found: dict[str, int] = document["all"]
    return found


def test_a_no_is_found_by_blocked_or_not_applicable_and_a_yes_by_the_other_two() -> None:
    said = {"a": "blocked", "b": "not_applicable", "c": "no_static_obstacle", "d": "rerouted", "e": "unknown"}
    found = figures(said, *(expected(name, "no" if name in "ab" else "yes", "no") for name in said))
    assert (found["cells"], found["agree"], found["undecided"]) == (5, 4, 1)
    assert (found["no"], found["no_found"], found["blocked"], found["blocked_right"]) == (2, 2, 1, 1)


def test_hard_cells_are_those_that_only_the_first_gate_lets_through() -> None:
    rows = [
        expected("a", "no", "yes"),
        expected("b", "no", "yes"),
        expected("c", "no", "no"),
        expected("d", "yes"),
    ]
    found = figures({"a": "blocked", "b": "no_static_obstacle", "c": "unknown", "d": "blocked"}, *rows)
    assert (found["hard"], found["hard_found"], found["first_gate"]) == (2, 1, 2)
    assert (found["blocked"], found["blocked_right"], found["neighbours_blocked"]) == (2, 1, 0)


def test_a_yes_beside_a_hard_cell_that_is_blocked_is_counted() -> None:
    rows = [expected("a", "no"), Expected("moe", "moe_runner", None, "a", "sm100", "yes", "yes", "")]
    assert figures({"a": "blocked"}, *rows)["neighbours_blocked"] == 1


def test_cells_without_their_package_and_cells_that_are_neither_are_apart() -> None:
    rows = [expected("a", "no"), expected("b", "no", package="kernels==3"), expected("c", "conditional")]
    document = score(rows, lambda row: "blocked", {"sglang": "1.0.0"})
    assert [document[part]["cells"] for part in ("all", "evidence_absent")] == [1, 1]
    assert document["not_scored"] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no column component"),
        ("component,backend,arch,verdict\na,b,sm90,no\n", "has no column shallow_verdict, evidence_package"),
        (HEAD + "moe,a,sm999,no,yes,p\n", "line 2: 'sm999' is no architecture"),
        (HEAD + "moe,,sm90,no,yes,p\n", "line 2: a component, a backend and a verdict"),
        ("\xff\xfe", "cannot read"),
    ],
)
def test_a_table_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "truth.csv").write_text(text, encoding="latin-1")
    with pytest.raises(ToolError, match=says) as error:
        read_table(tmp_path / "truth.csv")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "table", sorted((Path(__file__).parent / "truth").glob("*.csv")), ids=lambda path: path.stem
)
def test_tables_read_by_hand_hold_each_cell_once_and_decide_most(table: Path) -> None:
    rows = read_table(table)
    cells = {(row.label, row.backend, row.arch) for row in rows}
    assert len(cells) == len(rows)
    assert {row.verdict for row in rows} <= {"yes", "no", "conditional", "either", "unknown"}
    assert {row.first_gate for row in rows} == {"yes", "no"}
    assert sum(row.verdict in ("yes", "no") for row in rows) > 40


def test_a_label_means_what_its_engine_calls_so(tmp_path: Path) -> None:
    file = tmp_path / "truth.csv"
    head = "engine,component,backend,arch,verdict,shallow_verdict,evidence_package\n"
    file.write_text(f"{head}vllm,fp4_gemm,cutlass,sm90,no,no,\nsglang,fp4_gemm,cutlass,sm90,no,no,\n")
    means = [(row.label, row.component, row.quantisation) for row in read_table(file)]
    assert means == [("fp4_gemm", "linear", "nvfp4"), ("fp4_gemm", "fp4_gemm", None)]


def test_a_label_may_name_the_quantisation_behind_the_component(tmp_path: Path) -> None:
    file = tmp_path / "truth.csv"
    labels = ["moe_nvfp4", "moe_fp8", "moe_mxfp4", "moe_runner", "moe_a2a", "moe_fp4"]
    file.write_text(HEAD + "".join(f"{label},cutlass,sm90,no,no,,\n" for label in labels))
    means = [(row.component, row.quantisation) for row in read_table(file)]
    schemes = ["nvfp4", "fp8", "mxfp4"]
    assert means == [
        *(("moe_runner", one) for one in schemes),
        ("moe_runner", None),
        ("moe_a2a", None),
        ("moe_fp4", None),
    ]


def test_the_command_scores_an_engine_against_a_table(tmp_path: Path) -> None:
    engine = Engine.copy(tmp_path)
    truth = tmp_path / "truth.csv"
    blocked = [
        arch for arch, verdict in engine.verdicts("birch", "sm100", "sm120").items() if verdict == "blocked"
    ]
    rows = [
        f"weave,birch,{arch},{'no' if arch in blocked else 'yes'},yes,minilib==2.0.0"
        for arch in ("sm100", "sm120")
    ]
    others = ["weave,gone,sm100,no,yes,other==1", "loom,birch,sm90,no,yes,other==1", ""]
    truth.write_text("\ufeff" + HEAD + "\n".join([*rows, *others]), encoding="utf-8")

    asked = ["backends", "score", str(truth), "-e", str(engine.root), "--quantisation", "nvfp4"]
    ran = CliRunner().invoke(cli, [*asked, "--json"])
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert document["all"]["cells"] == document["all"]["agree"] == 2
    assert document["evidence_absent"] | {"undecided": 2, "agree": 0} == document["evidence_absent"]
    assert document["not_declared"] == ["loom"]
    assert list(document["architectures"]) == ["sm100", "sm120"]
    ran = CliRunner().invoke(cli, asked)
    assert "2/2 100.0 %" in ran.stdout
    assert "for loom: undecided" in ran.stdout
    truth.write_text(HEAD + others[1] + "\n", encoding="utf-8")
    ran = CliRunner().invoke(cli, asked)
    assert ran.exit_code != 0
    assert "no component 'loom'" in str(ran.exception)
